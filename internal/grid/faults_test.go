package grid_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// promptly is within what time every rank must hear of a lost one.
const promptly = 10 * time.Second

// lost checks that all ranks of j but those on the host or in the client that died at
// since got the same error, which names the rank and its host, in time.
func lost(c *gridtest.Cluster, j grid.Job, r *gridtest.Result, rank int, since time.Time, dead ...int) {
	c.T.Helper()
	lostBut(c, j, r, func(int) bool { return false }, rank, since, dead...)
}

// lostBut is lost where some ranks may be through before anybody misses the lost one: those for which
// through says so of what they got.
func lostBut(c *gridtest.Cluster, j grid.Job, r *gridtest.Result, through func(rank int) bool, rank int, since time.Time, dead ...int) {
	c.T.Helper()
	host := c.Hosts[j.Ranks[rank]].Name
	for i, o := range r.Outcomes {
		if slices.Contains(dead, i) {
			if o.Err == nil {
				c.T.Errorf("rank %d died and has a result", i)
			}
			continue
		}
		var ge *client.GroupError
		switch {
		case o.Err == nil && through(i):
		case !errors.As(o.Err, &ge):
			c.T.Errorf("rank %d on %s: got %v, want a group error", i, c.Hosts[j.Ranks[i]].Name, o.Err)
		case ge.Kind != "rank_lost" || ge.Rank != rank || ge.Host != host:
			c.T.Errorf("rank %d: got %q (%s, rank %d on %q), want rank_lost, rank %d on %q", i, ge, ge.Kind, ge.Rank, ge.Host, rank, host)
		case o.At.Sub(since) > promptly:
			c.T.Errorf("rank %d heard of it after %v, want at most %v", i, o.At.Sub(since), promptly)
		}
	}
}

// TestHostKilled cuts the power of a host in the middle of an exchange: one that
// coordinates the group, one that forwards across the WAN, one with several ranks.
func TestHostKilled(t *testing.T) {
	for _, kill := range []int{0, 3, 4} {
		gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "1Mbps", "40ms", 3, 2), Seed: 5}, func(c *gridtest.Cluster) {
			job := c.Job("min3", []int{0, 1, 2, 3, 4, 4}, 64<<10)
			var at time.Time
			job.Ready = func() {
				time.Sleep(700 * time.Millisecond) // the exchange takes over 2 s
				at = time.Now()
				if err := c.Kill(kill); err != nil {
					c.T.Error(err)
				}
			}
			r := c.Run(job)
			rank := slices.Index(job.Ranks, kill)
			var dead []int
			for i, h := range job.Ranks {
				if h == kill {
					dead = append(dead, i)
				}
			}
			lost(c, job, r, rank, at, dead...)
			if c.T.Failed() {
				return
			}
			// Those who are left go on.
			rest := slices.DeleteFunc(c.EachHost(), func(h int) bool { return h == kill })
			after := c.Job("", rest, 10_000)
			after.Name = "after the loss"
			for start := time.Now(); c.Hosts[rest[0]].Agent.Alive() > len(rest); {
				if time.Sleep(time.Second); time.Since(start) > 2*time.Minute {
					c.T.Fatalf("host %s counts as alive two minutes after its death", c.Hosts[kill].Name)
				}
			}
			c.MustRun(after)
		})
	}
}

// TestClientDies ends one client in the middle of an exchange; its agent lives on.
func TestClientDies(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "1Mbps", "40ms", 2, 2), Seed: 6}, func(c *gridtest.Cluster) {
		for _, rank := range []int{0, 3} {
			job := c.Job("min3", c.EachHost(), 64<<10)
			ctx, die := context.WithCancel(c.Ctx)
			job.Context = func(r int) context.Context {
				if r == rank {
					return ctx
				}
				return c.Ctx
			}
			var at time.Time
			job.Ready = func() {
				time.Sleep(700 * time.Millisecond)
				at = time.Now()
				die()
			}
			lost(c, job, c.Run(job), rank, at, rank)
			c.MustRun(c.Job("min3", c.EachHost(), 1000)) // under the same name
		}
	})
}

// TestLinkCut cuts the link between two sites during an exchange and heals it after 3 s:
// the exchange takes longer, no more.
func TestLinkCut(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "1Mbps", "40ms", 2, 2), Seed: 7}, func(c *gridtest.Cluster) {
		job := c.Job("min3", c.EachHost(), 64<<10)
		const outage = 3 * time.Second
		job.Ready = func() {
			time.Sleep(500 * time.Millisecond)
			if err := c.Net.Cut("a", "b"); err != nil {
				c.T.Error(err)
			}
			time.Sleep(outage)
			if err := c.Net.Heal("a", "b"); err != nil {
				c.T.Error(err)
			}
		}
		r := c.MustRun(job)
		if r.Makespan < outage {
			c.T.Errorf("took %v with an outage of %v in it: was the link cut?", r.Makespan, outage)
		}
	})
}

// TestLinkBroken cuts the link between two sites for good in the middle of an exchange, while both reach a third: data go by
// way of that.
func TestLinkBroken(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "2Mbps", "20ms", 1, 2, 2), Seed: 17}, func(c *gridtest.Cluster) {
		job := c.Job("min3", c.EachHost(), 64<<10)
		job.Ready = func() {
			time.Sleep(300 * time.Millisecond)
			if err := c.Net.Cut("b", "c"); err != nil {
				c.T.Error(err)
			}
		}
		r := c.MustRun(job)
		c.T.Logf("%v, the bound was %v", r.Makespan, c.Bound(job))
		if most := promptly + 3*c.Bound(job); r.Makespan > most {
			c.T.Errorf("took %v, want at most %v", r.Makespan, most)
		}
	})
}

// TestLoss: 1 % of the packets of every WAN link are lost.
func TestLoss(t *testing.T) {
	gf := gridtest.Sites(t, "4Mbps", "30ms", 3, 3)
	for i := range gf.WAN {
		gf.WAN[i].Loss = 0.01
	}
	gridtest.Run(t, gridtest.Config{Grid: gf, Seed: 8}, func(c *gridtest.Cluster) {
		before := c.Net.Stats()
		job := c.Job("min3", c.EachHost(), 128<<10)
		r := c.MustRun(job)
		c.T.Logf("%v, bound %v", r.Makespan, c.Bound(job))
		var dropped uint64
		for i, l := range c.Net.Stats().Links {
			dropped += l.Lost().Packets - before.Links[i].Lost().Packets
		}
		if dropped == 0 {
			c.T.Error("no packet was lost")
		}
	})
}

// TestSplit parts one site from the others for minutes, so that both sides declare each
// other dead. After the healing all agents see all, and an exchange works.
func TestSplit(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 2, 2, 2), Seed: 9}, func(c *gridtest.Cluster) {
		for _, other := range []string{"b", "c"} {
			if err := c.Net.Cut("a", other); err != nil {
				c.T.Fatal(err)
			}
		}
		time.Sleep(4 * time.Minute)
		for i, h := range c.Hosts {
			want := 4
			if h.Site == "a" {
				want = 2
			}
			if n := c.Hosts[i].Agent.Alive(); n != want {
				c.T.Errorf("%s counts %d hosts as alive behind the split, want %d", h.Name, n, want)
			}
		}
		for _, other := range []string{"b", "c"} {
			if err := c.Net.Heal("a", other); err != nil {
				c.T.Fatal(err)
			}
		}
		healed := time.Now()
		c.Settle()
		c.T.Logf("whole again %v after the healing", time.Since(healed))
		c.MustRun(c.Job("min3", c.EachHost(), 16<<10))
	})
}
