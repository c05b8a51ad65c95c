package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/membership"
)

// completeTime is how long a shell waits for names of hosts: a key was pressed.
const completeTime = time.Second

// completeMembers completes the names of up to most hosts of the cluster, those that are alive, with
// their sites. Without an agent that answers there are none, and no error: a shell would print it into the line.
func (a *app) completeMembers(at *place, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const done = cobra.ShellCompDirectiveNoFileComp
		if len(args) >= most || a.configure(cmd, args) != nil { // the agent may be named by a variable
			return nil, done
		}
		agent, err := at.dial()
		if err != nil {
			return nil, done
		}
		ctx := cmd.Context()
		if ctx == nil { // cobra completes without one
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completeTime)
		defer cancel()
		reply, err := agent.Members(ctx, connect.NewRequest(&apiv1.MembersRequest{}))
		if err != nil {
			return nil, done
		}
		var names []cobra.Completion
		for _, m := range reply.Msg.GetMembers() {
			if m.GetState() == membership.Alive.String() && strings.HasPrefix(m.GetName(), typed) && !slices.Contains(args, m.GetName()) {
				names = append(names, cobra.CompletionWithDesc(m.GetName(), "site "+orDash(oneLine(m.GetSite()))))
			}
		}
		return names, done
	}
}
