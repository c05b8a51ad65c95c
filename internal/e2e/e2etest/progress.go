package e2etest

import (
	"context"
	"errors"
	"fmt"
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
	Eventually(t, 30*time.Second, func() error {
		done, total, err := progress(t, socket, job, rank)
		switch {
		case err != nil:
			return err
		case done == 0:
			return errors.New("nothing has arrived")
		case done == total:
			t.Fatal("all has arrived: the files are too small for this machine")
		}
		return nil
	})
}

// Caught waits until every rank of job, whose agents are behind sockets, has received some of its
// result. It returns false if that is too late to stop the job: one of them had fewer than left bytes to
// receive, or its command had ended.
func Caught(t *testing.T, sockets []string, job string, commands []*Process, left uint64) (caught bool) {
	t.Helper()
	Eventually(t, 30*time.Second, func() error {
		caught = true
		var waiting error
		for rank, socket := range sockets {
			done, total, err := progress(t, socket, job, rank)
			switch {
			case commands[rank].Ended() || err == nil && total > 0 && total-done < left:
				caught = false
				return nil
			case err != nil:
				waiting = err
			case done == 0:
				waiting = fmt.Errorf("nothing has arrived for rank %d", rank)
			}
		}
		return waiting
	})
	return caught
}

// progress returns how many bytes of its result rank of job has, and shall get.
func progress(t *testing.T, socket, job string, rank int) (done, total uint64, err error) {
	c := client.New(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := c.API().Progress(ctx, connect.NewRequest(&apiv1.ProgressRequest{Job: job, Rank: uint32(rank)}))
	if err != nil {
		return 0, 0, err
	}
	return r.Msg.BytesDone, r.Msg.BytesTotal, nil
}
