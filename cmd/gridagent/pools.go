package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

func (a *app) poolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pools",
		Short: "Show the pool tree: hosts clustered by bandwidth",
		Long: `Show the pool tree that the agent plans with: hosts are together in a pool if links of at least
the pool's threshold connect them, in both directions. The tree follows the network map with
hysteresis; its epoch counts the trees since the agent started, and the reason says what
brought the last one about. Warnings name hosts that measure as if they stood in another site
than their label says. With -o json the tree is a file that plan and simulate read back with
--pools.

With --watch each new tree is printed as it takes over, until Ctrl-C; -o json makes that a
JSON object a line. With --criterion a tree is made of the map as it is now, without
hysteresis.

Agents that have just found each other need some seconds to measure all pairs of hosts.
Until then there is no tree: --wait waits for it.`,
		Example: "  gridagent pools --wait 1m\n  gridagent pools --watch\n  gridagent pools --watch -o json | jq -r .reason\n  gridagent pools --criterion average -o json",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	criterion := criterionFlag(cmd)
	wait := waitFlag(cmd)
	watch := cmd.Flags().Bool("watch", false, "print the tree, and each one that takes its place, until Ctrl-C")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		// A settings file that repeats the default must not turn the agent's own tree off.
		typed := given(cmd, "criterion")
		if *watch && (typed || *wait != 0) {
			return usagef("--watch follows the agent's own tree from the first on: it takes neither --criterion nor --wait")
		}
		agent, err := at.dial()
		if err != nil {
			return err
		}
		if *watch {
			return a.watchPools(cmd.Context(), agent, output.value == "json")
		}
		asked := ""
		if typed || criterion.value != cmd.Flags().Lookup("criterion").DefValue {
			asked = criterion.value
		}
		reply, err := awaitPools(cmd.Context(), agent, asked, *wait)
		if err != nil {
			return err
		}
		if output.value == "json" {
			_, err := a.out.Write(append(reply.GetTreeJson(), '\n'))
			return err
		}
		return a.printPools(reply)
	})
	return cmd
}

// awaitPools asks for the pool tree until there is one, up to limit.
func awaitPools(ctx context.Context, agent apiv1connect.AgentServiceClient, criterion string, limit time.Duration) (*apiv1.PoolsResponse, error) {
	var reply *apiv1.PoolsResponse
	var missing error
	complete, err := awaitMap(ctx, limit, func() (bool, error) {
		r, err := agent.Pools(ctx, connect.NewRequest(&apiv1.PoolsRequest{Criterion: criterion}))
		if connect.CodeOf(err) == connect.CodeUnavailable && connect.IsWireError(err) {
			missing = rpcError(err) // the agent says how many pairs it lacks
			return false, nil
		}
		if err != nil {
			return false, rpcError(err)
		}
		reply = r.Msg
		return true, nil
	})
	switch {
	case err != nil:
		return nil, err
	case !complete && limit == 0:
		return nil, fmt.Errorf("%w, or give --wait 1m", missing)
	case !complete:
		return nil, fmt.Errorf("after %v: %w", limit, missing)
	}
	return reply, nil
}

// printPools prints a tree for a person. One made for the request has no epoch of its own.
func (a *app) printPools(r *apiv1.PoolsResponse) error {
	head := fmt.Sprintf("map epoch %d", r.GetEpoch())
	if r.GetPoolsEpoch() > 0 {
		since := r.GetSince().AsTime()
		head = fmt.Sprintf("pool tree %d since %s (%v ago), %s\nbecause %s\n", r.GetPoolsEpoch(),
			since.Local().Format(time.DateTime), time.Since(since).Round(time.Second), head, r.GetReason())
	}
	_, err := fmt.Fprintf(a.out, "%s\n%s\n%s", head, r.GetRendered(), warningLines(r.GetWarnings()))
	return err
}

func warningLines(warnings []string) string {
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}

// watchPools prints the agent's tree and each of its successors until ctx ends.
func (a *app) watchPools(ctx context.Context, agent apiv1connect.AgentServiceClient, asJSON bool) error {
	stream, err := agent.WatchPools(ctx, connect.NewRequest(&apiv1.WatchPoolsRequest{}))
	if err == nil {
		defer stream.Close()
		var last *apiv1.PoolsEvent
		for stream.Receive() {
			e := stream.Msg()
			if asJSON {
				err = a.printPoolsLine(e)
			} else {
				err = a.printPoolsEvent(e, last)
			}
			if err != nil {
				return err
			}
			last = e
		}
		err = stream.Err()
	}
	switch {
	case ctx.Err() != nil:
		return nil // Ctrl-C is how a watch ends
	case err == nil:
		return &goneError{err: errors.New("it ended the stream")}
	}
	return rpcError(err)
}

// printPoolsEvent prints one tree of a watch. An event of the same epoch as the last brings
// other warnings.
func (a *app) printPoolsEvent(e, last *apiv1.PoolsEvent) error {
	if last != nil && last.GetEpoch() == e.GetEpoch() {
		var gone []string
		for _, w := range last.GetWarnings() {
			if !slices.Contains(e.GetWarnings(), w) {
				gone = append(gone, "no longer: "+w)
			}
		}
		_, err := fmt.Fprintf(a.out, "%s%s\n", warningLines(e.GetWarnings()), warningLines(gone))
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s  pool tree %d: %s\n%s%s\n", e.GetTime().AsTime().Local().Format(time.DateTime),
		e.GetEpoch(), e.GetReason(), e.GetRendered(), warningLines(e.GetWarnings()))
	return err
}

// A poolsLine is one line of a watch in JSON. Fields may be added.
type poolsLine struct {
	Epoch    uint64          `json:"epoch"`
	Time     time.Time       `json:"time"`
	Reason   string          `json:"reason"`
	Warnings []string        `json:"warnings"`
	Tree     json.RawMessage `json:"tree"`
}

func (a *app) printPoolsLine(e *apiv1.PoolsEvent) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(poolsLine{
		Epoch: e.GetEpoch(), Time: e.GetTime().AsTime(), Reason: e.GetReason(),
		Warnings: append([]string{}, e.GetWarnings()...), Tree: e.GetTreeJson(),
	})
}

// criterionFlag adds --criterion.
func criterionFlag(cmd *cobra.Command) *choice {
	c := choiceFlag(cmd, "criterion", "", "what holds a pool together: a connected component of fast links, or averages as in the paper's text", "component", "average")
	setting(cmd, "criterion")
	return c
}
