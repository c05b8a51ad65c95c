package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// memberPoll is how often --wait asks. A local call costs well under a millisecond.
const memberPoll = 100 * time.Millisecond

func (a *app) membersCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "members",
		Short: "List the hosts of the cluster as this host's agent sees them",
		Long: `List the hosts of the cluster as this host's agent sees them. With --wait N the command
returns once N hosts are alive, and fails when --timeout has passed before that. While it
waits, an agent that is not up yet is waited for as well.`,
		Example: "  gridagent members\n  gridagent members --wait 3 --timeout 30s -o json",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	wait := cmd.Flags().Int("wait", 0, "wait until so many hosts are alive")
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "with --wait: give up after this time")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if *wait < 0 || *timeout <= 0 {
			return usagef("--wait %d --timeout %v: want a number of hosts and a time above 0", *wait, *timeout)
		}
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, waitErr := awaitMembers(cmd.Context(), agent, *wait, *timeout)
		if reply == nil {
			return waitErr
		}
		if output.value == "json" {
			err = a.printProto(reply)
		} else {
			err = a.printMembers(reply)
		}
		return errors.Join(waitErr, err)
	})
	return cmd
}

// awaitMembers asks until want hosts are alive. On time-out it returns the last answer
// beside the error, so that the caller can show who is there.
func awaitMembers(ctx context.Context, agent apiv1connect.AgentServiceClient, want int, timeout time.Duration) (*apiv1.MembersResponse, error) {
	end := time.NewTimer(timeout)
	defer end.Stop()
	for {
		reply, err := agent.Members(ctx, connect.NewRequest(&apiv1.MembersRequest{}))
		err = rpcError(err)
		var unreachable *unreachableError
		if err != nil && (want == 0 || !errors.As(err, &unreachable)) {
			return nil, err
		}
		alive := 0
		if err == nil {
			for _, m := range reply.Msg.GetMembers() {
				if m.GetState() == "alive" {
					alive++
				}
			}
			if alive >= want {
				return reply.Msg, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end.C:
			if err != nil {
				return nil, err
			}
			return reply.Msg, fmt.Errorf("%d of %d hosts alive after %v", alive, want, timeout)
		case <-time.After(memberPoll):
		}
	}
}

func (a *app) printMembers(reply *apiv1.MembersResponse) error {
	t := a.table("name", "site", "address", "state", "rtt", "note")
	for _, m := range reply.GetMembers() {
		rtt, note := "", ""
		if s := m.GetRttSeconds(); s > 0 {
			rtt = formatSeconds(s)
		}
		switch {
		case m.GetSelf() && m.GetAuthority():
			note = "this host, authority"
		case m.GetSelf():
			note = "this host"
		case m.GetAuthority():
			note = "authority"
		}
		t.row(m.GetName(), m.GetSite(), m.GetAddress(), m.GetState(), rtt, note)
	}
	return t.flush()
}
