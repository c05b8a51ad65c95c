package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// waitFlag adds --wait of the commands that need a complete map.
func waitFlag(cmd *cobra.Command) *time.Duration {
	return cmd.Flags().Duration("wait", 0, "wait up to this time for a map of all pairs of hosts")
}

// awaitMap calls try until it says that the map was complete, with its error if that comes
// first. When limit has passed, what try said last is the outcome.
func awaitMap(ctx context.Context, limit time.Duration, try func() (complete bool, err error)) (complete bool, err error) {
	if limit < 0 {
		return false, usagef("--wait %v: want 0 or more", limit)
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		if complete, err = try(); complete || err != nil {
			return complete, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-end.C:
			return false, nil
		case <-time.After(memberPoll):
		}
	}
}
