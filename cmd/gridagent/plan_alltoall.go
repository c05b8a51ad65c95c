package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// planAlltoallCmd holds the place of the alltoall planners: a script that asks for one must
// learn that there is none yet, whatever flags it gives, and not that it misspelt a flag.
func (a *app) planAlltoallCmd() *cobra.Command {
	return &cobra.Command{
		Use:                "alltoall",
		Short:              "Make the plan of an alltoall (no algorithm yet)",
		Example:            "  gridagent plan allgather --grid grid.yaml --size 64KiB   # what exists",
		DisableFlagParsing: true,
		RunE: a.command(func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg == "--help" || arg == "-h" {
					return cmd.Help()
				}
			}
			return usagef("this release has no algorithm for alltoall; plan allgather has %s", strings.Join(allgatherNames(), ", "))
		}),
	}
}
