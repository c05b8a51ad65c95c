package treetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
)

const (
	// limit is the virtual time that a plan may take.
	limit = 30 * time.Minute
	// rest is the virtual time after a plan in which acknowledgements arrive and queues empty.
	rest = 500 * time.Millisecond
)

// A Result is what came of a plan.
type Result struct {
	// Makespan is the time from the start, which is the same on all hosts, to the last
	// arrival of a transfer anywhere: what [plan.SimResult] calls so.
	Makespan time.Duration
	// Transfers are the start and end of every transfer at its receiver, as in the plan.
	Transfers []exchange.TransferStats
	Resent    int64     // bytes that engines sent again
	Lost      int       // packets that ports, links and trunks dropped or lost
	Use       []LinkUse // of each link between sites; see [Config.Watch]
	carried   map[[2]string]int64
}

// Carried returns the IP bytes that crossed a link or trunk, acknowledgements of what goes
// the other way included.
func (r *Result) Carried(from, to string) int64 { return r.carried[[2]string{from, to}] }

// Run runs p on the hosts that it names. It ends the test unless p is a right plan, every
// engine ends well, and every host has every byte that it should have.
func (c *Cluster) Run(p *plan.Plan) *Result {
	c.t.Helper()
	if err := plan.Verify(p, c.cfg.Rules); err != nil {
		c.t.Fatalf("%s: %v", p.Algorithm, err)
	}
	c.runs++
	var id exchange.ID
	binary.BigEndian.PutUint64(id[:], c.runs)
	chunk := 0
	if c.cfg.Chunk != nil {
		chunk = c.cfg.Chunk(p)
	}
	parts, err := exchange.Split(p, id, chunk, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	exchange.Weigh(parts, func(host string) string { return c.sites[host] }) // as who cuts plans does
	data := make([]exchange.Data, len(parts))
	for h := range parts {
		data[h] = lay(p, h)
	}
	before := c.net.Stats()
	c.use.begin()
	stats, errs := c.execute(parts, data)
	for h, err := range errs {
		if err == nil {
			err = check(p, h, data[h].Result)
		}
		if err != nil {
			c.t.Errorf("%s: %s: %v", p.Algorithm, p.Hosts[h], err)
		}
	}
	if c.t.Failed() {
		c.t.FailNow()
	}
	time.Sleep(rest)
	r := &Result{Transfers: make([]exchange.TransferStats, len(p.Transfers)), carried: make(map[[2]string]int64)}
	for h, st := range stats {
		for _, x := range st.Transfers {
			if x.Dst == p.Hosts[h] {
				r.Transfers[x.ID] = x
				r.Makespan = max(r.Makespan, x.End)
			}
		}
		for _, peer := range st.Peers {
			r.Resent += peer.Resent
		}
	}
	r.count(before, c.net.Stats())
	r.Use = c.use.end()
	return r
}

// count adds what the network did between two readings of its counters.
func (r *Result) count(before, after gridnet.Stats) {
	lost := func(was, is *gridnet.Traffic) { r.Lost += int(is.Lost().Packets - was.Lost().Packets) }
	for _, lists := range [][2][]gridnet.LinkStats{{before.Links, after.Links}, {before.Trunks, after.Trunks}} {
		for i := range lists[1] {
			was, is := &lists[0][i], &lists[1][i]
			r.carried[[2]string{is.From, is.To}] = int64(is.Delivered.Bytes - was.Delivered.Bytes)
			lost(&was.Traffic, &is.Traffic)
		}
	}
	for i := range after.Hosts {
		lost(&before.Hosts[i].Egress, &after.Hosts[i].Egress)
		lost(&before.Hosts[i].Ingress, &after.Hosts[i].Ingress)
	}
}

// execute runs parts on their hosts, all from the same instant.
func (c *Cluster) execute(parts []*exchange.Part, data []exchange.Data) ([]exchange.Stats, []error) {
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), limit, fmt.Errorf("the plan took over %v of virtual time", limit))
	defer cancel()
	stats, errs := make([]exchange.Stats, len(parts)), make([]error, len(parts))
	var wg sync.WaitGroup
	for h, part := range parts {
		wg.Go(func() { stats[h], errs[h] = c.engines[part.Hosts[h]].Run(ctx, part, data[h]) })
	}
	wg.Wait()
	return stats, errs
}

// blocks returns the blocks that host h begins or ends with, by rank: those of all origins
// for an allgather; for an all-to-all its own to every other, then those of others to it.
func blocks(p *plan.Plan, h int) (own, wanted []plan.Block) {
	for r := range p.Hosts {
		switch {
		case p.Collective == plan.Alltoall && r != h:
			own = append(own, plan.Block{Origin: h, Dest: r})
			wanted = append(wanted, plan.Block{Origin: r, Dest: h})
		case p.Collective == plan.Allgather && r == h:
			own = append(own, plan.Block{Origin: h, Dest: plan.All})
		case p.Collective == plan.Allgather:
			wanted = append(wanted, plan.Block{Origin: r, Dest: plan.All})
		}
	}
	return own, wanted
}

// lay gives host h its own blocks, and room for those that it wants.
func lay(p *plan.Plan, h int) exchange.Data {
	at := make(map[plan.Block]int64)
	own, wanted := blocks(p, h)
	var send []byte
	for _, b := range own {
		at[b] = int64(len(send))
		send = append(send, content(p, b)...)
	}
	var size int64
	for _, b := range wanted {
		at[b] = size
		size += p.Whole(b)
	}
	if send == nil {
		send = []byte{} // nil would mean that they are in Result
	}
	return exchange.Data{
		Send: send, Result: make([]byte, size),
		Layout: func(b exchange.Block) []exchange.Segment {
			return []exchange.Segment{{Offset: at[b.Block], Len: p.Whole(b.Block)}}
		},
	}
}

// check compares every byte of the blocks that host h wanted.
func check(p *plan.Plan, h int, result []byte) error {
	_, wanted := blocks(p, h)
	for _, b := range wanted {
		want := content(p, b)
		if got := result[:len(want)]; !bytes.Equal(got, want) {
			return fmt.Errorf("block %v of %d bytes differs from what its origin sent", b, len(want))
		}
		result = result[p.Whole(b):]
	}
	return nil
}

// content returns the bytes of the whole block b: different for every block, cheap to make again.
func content(p *plan.Plan, b plan.Block) []byte {
	rng := rand.NewPCG(uint64(b.Origin)+1, uint64(b.Dest)+7)
	buf := make([]byte, p.Whole(b)+8)
	for i := 0; i+8 <= len(buf); i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], rng.Uint64())
	}
	return buf[:p.Whole(b)]
}
