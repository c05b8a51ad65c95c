package e2etest

import (
	"context"
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// UnderWay waits until rank of job has received some of its result from the agent behind
// socket, and fails t if it has received all.
func UnderWay(t *testing.T, socket, job string, rank int) {
	t.Helper()
	c := client.New(socket)
	defer c.Close()
	Eventually(t, 30*time.Second, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r, err := c.API().Progress(ctx, connect.NewRequest(&apiv1.ProgressRequest{Job: job, Rank: uint32(rank)}))
		switch {
		case err != nil:
			return err
		case r.Msg.BytesDone == 0:
			return errors.New("nothing has arrived")
		case r.Msg.BytesDone == r.Msg.BytesTotal:
			t.Fatal("all has arrived: the files are too small for this machine")
		}
		return nil
	})
}
