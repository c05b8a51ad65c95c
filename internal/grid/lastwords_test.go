package grid_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestLastWords: an agent that ends may wait for hosts that do not confirm what it has sent. Its own clients hear the cause all the same.
func TestLastWords(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "10Mbps", "100ms", 1, 1), Seed: 7}, func(c *gridtest.Cluster) {
		joined := make(chan *client.Rank, 1)
		other := make(chan struct{})
		go func() {
			defer close(other)
			r, err := c.Client(1).Join(c.Ctx, "job", 1, 2)
			joined <- r
			if err != nil {
				c.T.Error(err)
				return
			}
			defer r.Close()
			_, _ = r.Allgather(c.Ctx, bytes.Repeat([]byte("b"), 100), client.Options{}) // its link may be cut by then
			<-r.Ended()
		}()
		r, err := c.Client(0).Join(c.Ctx, "job", 0, 2)
		if err != nil {
			c.T.Fatal(err)
		}
		defer r.Close()
		<-joined
		res, err := r.Allgather(c.Ctx, bytes.Repeat([]byte("a"), 256<<10), client.Options{})
		if err != nil {
			c.T.Fatal(err)
		}
		res.Close()
		if err := c.Net.Cut("a", "b"); err != nil { // before the other has confirmed
			c.T.Fatal(err)
		}
		next := r.StartBarrier(c.Ctx, client.Options{})
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		c.Hosts[0].Agent.Leave()
		_, err = next.Wait(context.Background())
		var ge *client.GroupError
		if !errors.As(err, &ge) || ge.Kind != "host_lost" || ge.Host != "a0" {
			c.T.Errorf("after %v: %v, want that the host is lost", time.Since(begun), err)
		}
		if took := time.Since(begun); took < time.Second {
			c.T.Errorf("told after %v: nothing was waited for, so this shows nothing", took)
		}
		<-r.Ended()
		if !errors.As(r.Err(), &ge) || ge.Kind != "host_lost" {
			c.T.Errorf("the rank: %v, want that the host is lost", r.Err())
		}
		<-other
	})
}
