package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/internal/lab"
)

func (a *app) labExecCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec HOST -- COMMAND [ARGUMENT]...",
		Short: "Run a command in a host of a lab",
		Long: `Run a command in a host of a lab: with the host's network and its name, and the names of all
hosts in /etc/hosts. Files, users and processes are the machine's. Input, output and signals are
the command's. It finds the names of lab and host in GRIDAGENT_LAB and GRIDAGENT_LAB_HOST.

The exit status is the command's; 127 if there is no such command, 126 if it cannot be run, 125
if the host cannot be entered.`,
		Example: `  gridagent lab exec ut0 -- iperf3 -s
  gridagent lab exec uk0 -- iperf3 -c ut0
  gridagent lab exec ut0 -- gridagent init --dir /tmp/ut0 --site UT
  gridagent lab exec --name modern fra0 -- bash`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeHosts,
	}
	cmd.Flags().SetInterspersed(false) // what follows the host is the command's own
	name := labNameFlag(cmd)
	cmd.RunE = a.command(func(_ *cobra.Command, args []string) error {
		host, command := args[0], args[1:]
		switch {
		case command[0] == "--":
			command = command[1:]
		case strings.HasPrefix(command[0], "-"):
			return usagef("%s after HOST belongs to the command: write lab exec %s … %s -- COMMAND", command[0], command[0], host)
		}
		if len(command) == 0 {
			return usagef("no command to run in %s", host)
		}
		if err := checkLabName(*name); err != nil {
			return err
		}
		again := append([]string{"lab", "exec", "--name", *name, host, "--"}, command...)
		return commandStatus(lab.Exec(*name, host, command, again))
	})
	return cmd
}

// commandStatus gives an error of lab exec, whose process was to become another program and could not,
// a status that is not one of gridagent's own.
func commandStatus(err error) error {
	status := exitExec
	var command *lab.CommandError
	if errors.As(err, &command) {
		status = command.Status()
	}
	return &statusError{status, err}
}

// completeHosts completes the first argument as a host of the lab that --name names, the others as files.
func completeHosts(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, _ := cmd.Flags().GetString("name")
	s, err := lab.Read(name)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var hosts []cobra.Completion
	for _, h := range s.Hosts {
		hosts = append(hosts, h.Name)
	}
	return hosts, cobra.ShellCompDirectiveNoFileComp
}
