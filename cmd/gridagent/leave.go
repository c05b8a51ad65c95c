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

func (a *app) leaveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Make the agent leave the cluster in good order and end",
		Long: `Make the agent tell the others that it leaves, and end; wait until it has. The folder stays:
gridagent join --dir DIR brings the host back.`,
		Example: "  gridagent leave --dir /var/lib/gridagent",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "give up waiting for the agent's end after this time")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		if _, err := agent.Leave(cmd.Context(), connect.NewRequest(&apiv1.LeaveRequest{})); err != nil {
			return rpcError(err)
		}
		if err := awaitEnd(cmd.Context(), agent, *timeout); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out, "left the cluster")
		return err
	})
	return cmd
}

// awaitEnd asks until nobody answers any more.
func awaitEnd(ctx context.Context, agent apiv1connect.AgentServiceClient, timeout time.Duration) error {
	end := time.NewTimer(timeout)
	defer end.Stop()
	for {
		_, err := agent.Status(ctx, connect.NewRequest(&apiv1.StatusRequest{}))
		var unreachable *unreachableError
		if err = rpcError(err); errors.As(err, &unreachable) {
			return nil
		} else if ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return fmt.Errorf("the agent has been told to leave but still runs after %v; see its log", timeout)
		case <-time.After(memberPoll):
		}
	}
}
