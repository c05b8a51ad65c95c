package gridtest

import (
	"bytes"
	"slices"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// EachHost places one rank on every host, in the order of the grid file.
func (c *Cluster) EachHost() []int {
	ranks := make([]int, len(c.Hosts))
	for r := range ranks {
		ranks[r] = r
	}
	return ranks
}

// Job returns an allgather by the algorithm, "" for the agents' choice, with ranks on the given
// hosts (indices) and random blocks. One size holds for all ranks; otherwise there is one a rank.
func (c *Cluster) Job(algorithm string, ranks []int, sizes ...int) grid.Job {
	blocks := make([][]byte, len(ranks))
	for r := range blocks {
		blocks[r] = make([]byte, sizes[min(r, len(sizes)-1)])
		for i := range blocks[r] {
			blocks[r][i] = byte(c.rng.Uint32())
		}
	}
	return grid.Job{Name: "job-" + algorithm, Ranks: ranks, Blocks: blocks, Options: client.Options{Algorithm: algorithm}}
}

// Alltoall returns an alltoall by the algorithm with ranks on the given hosts and random
// blocks: of size(s, d) bytes from rank s to rank d.
func (c *Cluster) Alltoall(algorithm string, ranks []int, size func(s, d int) int) grid.Job {
	j := grid.Job{Name: "alltoall-" + algorithm, Ranks: ranks, Blocks: make([][]byte, len(ranks))}
	sizes := make([][]int64, len(ranks))
	for s := range ranks {
		for d := range ranks {
			n := size(s, d)
			sizes[s] = append(sizes[s], int64(n))
			for range n {
				j.Blocks[s] = append(j.Blocks[s], byte(c.rng.Uint32()))
			}
		}
	}
	j.Alltoall = func(rank int) client.AlltoallOptions {
		return client.AlltoallOptions{Options: client.Options{Algorithm: algorithm}, Sizes: sizes[rank]}
	}
	return j
}

// want returns the bytes that rank shall have, and the sizes of the blocks in them.
func want(j grid.Job, rank int) (data []byte, sizes []int64) {
	for s := range j.Ranks {
		block := j.Blocks[s]
		if j.Alltoall != nil {
			block = part(j, s, rank)
		}
		data, sizes = append(data, block...), append(sizes, int64(len(block)))
	}
	return data, sizes
}

// part returns the block of an alltoall from rank s to rank d.
func part(j grid.Job, s, d int) []byte {
	sizes := j.Alltoall(s).Sizes
	if sizes == nil {
		n := len(j.Blocks[s]) / len(j.Ranks)
		return j.Blocks[s][d*n : (d+1)*n]
	}
	var at int64
	for _, n := range sizes[:d] {
		at += n
	}
	return j.Blocks[s][at : at+sizes[d]]
}

// A Result is what came of a job.
type Result struct {
	Outcomes []grid.Outcome
	Makespan time.Duration // from the moment when the last rank was ready to the last result
	Lost     int           // packets that WAN links dropped or lost
	wan      map[[2]string]int64
}

// Run runs j and counts what crosses the WAN meanwhile, the forming of the group included.
func (c *Cluster) Run(j grid.Job) *Result {
	before := c.Net.Stats()
	r := &Result{Outcomes: c.Grid.Run(c.Ctx, j), wan: make(map[[2]string]int64)}
	for i, l := range c.Net.Stats().Links {
		r.Lost += int(l.Lost().Packets - before.Links[i].Lost().Packets)
		r.wan[[2]string{l.From, l.To}] = int64(l.Delivered.Bytes - before.Links[i].Delivered.Bytes)
	}
	for _, o := range r.Outcomes {
		r.Makespan = max(r.Makespan, o.Took)
	}
	return r
}

// MustRun is Run for a job that must go well; it compares every rank's bytes.
func (c *Cluster) MustRun(j grid.Job) *Result {
	c.T.Helper()
	r := c.Run(j)
	c.Check(j, r)
	return r
}

// Check ends the test unless every rank got the blocks from all ranks in rank order.
func (c *Cluster) Check(j grid.Job, r *Result) {
	c.T.Helper()
	for rank, o := range r.Outcomes {
		want, sizes := want(j, rank)
		switch {
		case o.Err != nil:
			c.T.Errorf("%s: rank %d on %s: %v", j.Name, rank, c.Hosts[j.Ranks[rank]].Name, o.Err)
		case !bytes.Equal(o.Result, want):
			c.T.Errorf("%s: rank %d on %s: %d bytes that are not the blocks in rank order (%d bytes)",
				j.Name, rank, c.Hosts[j.Ranks[rank]].Name, len(o.Result), len(want))
		case !slices.Equal(o.Sizes, sizes):
			c.T.Errorf("%s: rank %d: blocks of %v bytes, want %v", j.Name, rank, o.Sizes, sizes)
		}
	}
	if c.T.Failed() {
		c.T.FailNow()
	}
}

// WAN returns the IP bytes that crossed the link between two sites during the run.
func (r *Result) WAN(from, to string) int64 { return r.wan[[2]string{from, to}] }

// Into returns the IP bytes that crossed into a site.
func (r *Result) Into(site string) (n int64) {
	for l, b := range r.wan {
		if l[1] == site {
			n += b
		}
	}
	return n
}

// Outside returns the bytes of all blocks that start outside a site.
func (c *Cluster) Outside(j grid.Job, site string) (n int64) {
	for r, h := range j.Ranks {
		if c.Hosts[h].Site != site {
			n += int64(len(j.Blocks[r]))
		}
	}
	return n
}

// Bound returns the bound of j by the capacities that the grid file declares, in the form with
// sites. It counts every host as one that wants the blocks.
func (c *Cluster) Bound(j grid.Job) time.Duration {
	c.T.Helper()
	network := c.network()
	var b plan.Bound
	var err error
	if j.Alltoall != nil {
		b, err = network.AlltoallBound(c.matrix(j))
	} else {
		sizes := make([]int64, len(c.Hosts))
		for r, h := range j.Ranks {
			sizes[h] += int64(len(j.Blocks[r]))
		}
		b, err = network.AllgatherBound(sizes)
	}
	if err != nil {
		c.T.Fatal(err)
	}
	return time.Duration(b.Seconds * float64(time.Second))
}

// AlltoallBounds returns the direct and the relayed bound of j, an alltoall, as [Cluster.Bound].
func (c *Cluster) AlltoallBounds(j grid.Job) *plan.AlltoallBounds {
	c.T.Helper()
	b, err := c.network().AlltoallBounds(c.matrix(j))
	if err != nil {
		c.T.Fatal(err)
	}
	return b
}

// network is that of the cluster's grid.
func (c *Cluster) network() *plan.Network {
	c.T.Helper()
	network, err := Network(c.cfg.Grid)
	if err != nil {
		c.T.Fatal(err)
	}
	return network
}

// Network returns what a grid file in the form with sites declares: sites joined by pipes, hosts with the ports of their LANs.
func Network(g *gridfile.Grid) (*plan.Network, error) {
	snap, err := g.Snapshot()
	if err != nil {
		return nil, err
	}
	var sites [][]int
	n := 0
	for _, s := range g.Sites {
		hosts := make([]int, s.Hosts)
		for i := range hosts {
			hosts[i] = n
			n++
		}
		sites = append(sites, hosts)
	}
	return plan.NetworkOf(snap, sites, 1)
}

// matrix returns what the ranks of each host have for those of each other in an alltoall.
func (c *Cluster) matrix(j grid.Job) plan.AlltoallSizes {
	m := make([][]int64, len(c.Hosts))
	for h := range m {
		m[h] = make([]int64, len(c.Hosts))
	}
	for s, from := range j.Ranks {
		for d, to := range j.Ranks {
			m[from][to] += int64(len(part(j, s, d)))
		}
	}
	return plan.AlltoallSizes{Matrix: m}
}

// Idle returns the IP bytes that cross into a site in d while no job runs: gossip, probes,
// map. It takes d of virtual time.
func (c *Cluster) Idle(site string, d time.Duration) (n int64) {
	before := c.Net.Stats()
	time.Sleep(d)
	for i, l := range c.Net.Stats().Links {
		if l.To == site {
			n += int64(l.Delivered.Bytes - before.Links[i].Delivered.Bytes)
		}
	}
	return n
}
