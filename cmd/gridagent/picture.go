package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/exchange/planner"
)

// pictureFlags are -o of plan, with its forms beside table and json.
type pictureFlags struct {
	format *choice
}

func addPictureFlags(cmd *cobra.Command) *pictureFlags {
	return &pictureFlags{format: choiceFlag(cmd, "output", "o", "how to print: a table for people or JSON for programs", "table", "json")}
}

func (a *app) printPicture(*planner.Scheduled, *planner.Problem, *pictureFlags) error {
	return errors.New("no such form")
}
