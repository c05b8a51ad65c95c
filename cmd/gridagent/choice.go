package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

var _ pflag.Value = (*choice)(nil)

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return fmt.Errorf("want %s", strings.Join(c.of, " or "))
	}
	c.value = s
	return nil
}

// choiceFlag adds a flag that takes one of the words in of, the first by default.
func choiceFlag(cmd *cobra.Command, name, short, usage string, of ...string) *choice {
	c := &choice{value: of[0], of: of}
	cmd.Flags().VarP(c, name, short, usage)
	// An error here means that two flags share a name, which pflag has already refused.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// outputFlag adds -o.
func outputFlag(cmd *cobra.Command) *choice {
	return choiceFlag(cmd, "output", "o", "how to print: a table for people or JSON for programs", "table", "json")
}

// A byteSize is a flag that takes a size with its unit.
type byteSize int64

var _ pflag.Value = (*byteSize)(nil)

func (b *byteSize) String() string { return gridfile.FormatSize(int64(*b)) }
func (b *byteSize) Type() string   { return "size" }

func (b *byteSize) Set(s string) error {
	n, err := gridfile.ParseSize(s)
	if err != nil {
		return err
	}
	*b = byteSize(n)
	return nil
}
