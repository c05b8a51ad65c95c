package main

import "github.com/spf13/cobra"

func (a *app) planCmd() *cobra.Command {
	return parent("plan", "Make the plan of a collective from a grid file",
		`Make the plan of a collective from a grid file: every transfer with its order and its
predicted times. Nothing is sent and no agent is needed.`,
		a.planAllgatherCmd(), a.planAlltoallCmd())
}
