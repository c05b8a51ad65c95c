package treetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// hostQueue is how many bytes wait in a host's own port, 6 packets: about what the driver
// of a network card holds. A socket buffer full of them is another test, TestHostQueue.
const hostQueue = 8000

// packetBytes are the IP bytes of a full packet of quic-go without path MTU discovery.
const packetBytes = 1308

// The bands: time taken over time predicted, for blocks of 64 KiB at 100 Mbit/s.
//
// What the model leaves out makes a link that is never idle 1.07 to 1.08 times slower: headers of
// QUIC, UDP and IP (4.5 %), acknowledgements of what goes the other way (2.5 to 3 %), checksums, and
// the first packets. That is all where no two messages are on a link at a time. Where links are idle
// between phases, the latency that [network] takes for full packets is more than that of news.
//
// Where they are, the model divides a link max-min fairly and at once. Real windows favour
// short ways, and acknowledgements and tokens wait in the trunk's queue. So a flow over two trunks
// falls behind; and a host that is ahead sends to one that still receives, and holds it up
// further: mostly 1.05 to 1.35, and up to 1.5. But what is divided in another way can also be
// done sooner: neighbour-exchange on two switches took 0.88, and is still over the bound.
//
// A connection that loses its last packets notices after its smoothed round trip, four times
// its variation, and the 25 ms that its peer may take to acknowledge: tailLoss. If what it sends then is lost too, it
// waits twice as long (RFC 9002, §6.2.1): see [Cluster.within].
var (
	bandOrderly = [2]float64{1.015, 1.20}
	bandShared  = [2]float64{0.85, 1.60}
)

const tailLoss = 60 * time.Millisecond

// inBand returns an error if taken is out of the band around predicted.
func inBand(taken, predicted time.Duration, band [2]float64, lost int) error {
	least, most := scale(predicted, band[0]), scale(predicted, band[1])
	if lost > 0 {
		most += tailLoss
	}
	if taken < least || taken > most {
		return fmt.Errorf("took %v, predicted %v: ratio %.3f with %d packets lost, want %v to %v",
			taken, predicted, taken.Seconds()/predicted.Seconds(), lost, least, most)
	}
	return nil
}

// within runs p, whose time is to be in the band around predicted. Packets that the last ones' repetitions lost as well
// cost a multiple of tailLoss: of 29 runs of "aapc none" on a star, with some 540 packets lost each, two thirds took
// 1.13 to 1.16 of what was predicted, one 1.56, and one of CI's 2.6. So a run that lost packets and took too long is repeated, twice at
// most; what is slow each time is so for another reason.
func (c *Cluster) within(p *plan.Plan, predicted time.Duration, band [2]float64) (*Result, error) {
	for tries := 1; ; tries++ {
		r := c.Run(p)
		err := inBand(r.Makespan, predicted, band, r.Lost)
		if err == nil || r.Lost == 0 || r.Makespan < predicted || tries == 3 {
			return r, err
		}
		c.t.Logf("%s again, it %v", p.Algorithm, err)
	}
}

func scale(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

// network is what Simulate is told of a tree: beside latency, every switch after the sender's port
// stores the last packet, which [plan.NetworkOfTopology] leaves out.
func network(t *testing.T, topo *plan.Topology) *plan.Network {
	t.Helper()
	net, err := plan.NetworkOfTopology(topo, latency)
	if err != nil {
		t.Fatal(err)
	}
	rate, _ := topo.Bandwidth()
	n := len(topo.Hosts())
	for i := range n {
		for j := range n {
			if hops := len(topo.Path(nil, i, j)); hops > 1 {
				net.Latency[i*n+j] += time.Duration(hops-1) * rate.Time(packetBytes)
			}
		}
	}
	return net
}

// predict returns the makespan of p as the engine runs it.
func predict(t *testing.T, p *plan.Plan, net *plan.Network) time.Duration {
	t.Helper()
	sim, err := plan.Simulate(p, net, plan.SimOptions{Chunk: int64(exchange.ChunkOf(p)), Overtake: true, Notice: true})
	if err != nil {
		t.Fatalf("%s: %v", p.Algorithm, err)
	}
	return time.Duration(sim.Makespan * float64(time.Second))
}

func bound(t *testing.T, p *plan.Plan, net *plan.Network, sizes blockSizes) time.Duration {
	t.Helper()
	b, err := net.AlltoallBound(sizes.all)
	if p.Collective == plan.Allgather {
		b, err = net.AllgatherBound(sizes.gather)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(b.Seconds * float64(time.Second))
}

func emulate(t *testing.T, topo *plan.Topology, sendBuffer int) Config {
	t.Helper()
	cfg, err := gridnet.FromTopology(topo, latency)
	if err != nil {
		t.Fatal(err)
	}
	cfg.SendBuffer = sendBuffer
	return Config{Net: cfg}
}

// TestTrees runs every algorithm and synchronisation on four trees and compares the time
// that it takes with the time that the simulator predicts.
func TestTrees(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("110 exchanges of 4 MB; TestBytes runs the same code with small blocks")
	}
	const size = 64 << 10
	for _, tc := range []struct {
		name string
		topo *plan.Topology
	}{
		{"8", chain(t, 8)},
		{"3-2-3", chain(t, 3, 2, 3)},
		{"star of 3, 3, 2", tree(t, [][2]int{{0, 1}, {0, 2}, {0, 3}}, 0, 3, 3, 2)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			net, g := network(t, tc.topo), onTree(t, tc.topo)
			sizes := uniform(len(tc.topo.Hosts()), size)
			var table strings.Builder
			fmt.Fprintf(&table, "%-32s %9s %9s %9s %6s %5s", tc.name, "bound", "predicted", "taken", "ratio", "lost")
			Run(t, emulate(t, tc.topo, hostQueue), func(c *Cluster) {
				for _, a := range algorithms() {
					p := a.plan(t, g, sizes)
					if p == nil {
						continue
					}
					want, least := predict(t, p, net), bound(t, p, net, sizes)
					band := bandShared
					if a.claim == orderly {
						band = bandOrderly
					}
					r, err := c.within(p, want, band)
					ratio := r.Makespan.Seconds() / want.Seconds()
					fmt.Fprintf(&table, "\n%-32s %7.1fms %7.1fms %7.1fms %6.3f %5d", a.name, ms(least), ms(want), ms(r.Makespan), ratio, r.Lost)
					if err != nil {
						t.Errorf("%s: %v", a.name, err)
					}
					if r.Makespan < least {
						t.Errorf("%s took %v, which is under the bound of %v", a.name, r.Makespan, least)
					}
					if r.Resent > 0 {
						t.Errorf("%s: engines sent %d bytes again, though nothing broke", a.name, r.Resent)
					}
					checkTrunks(t, tc.topo, p, r)
				}
			})
			t.Log("\n" + table.String())
		})
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// checkTrunks checks that every trunk carried what the plan sends over it, once: the blocks,
// with headers and the acknowledgements of what came back, and what was lost another time.
func checkTrunks(t *testing.T, topo *plan.Topology, p *plan.Plan, r *Result) {
	t.Helper()
	payload := make([]int64, topo.NumLinks())
	for i := range p.Transfers {
		x := &p.Transfers[i]
		for _, l := range topo.Path(nil, x.Src, x.Dst) {
			payload[l] += p.Bytes(x)
		}
	}
	for l, bytes := range payload {
		from, to := topo.Ends(plan.LinkID(l))
		if from == "?" || l < 2*len(topo.Hosts()) { // the root has no link, and ports are no trunks
			continue
		}
		control := int64(600 * len(p.Transfers)) // streams, tokens, confirmations
		most := bytes*107/100 + payload[l^1]*6/100 + control + int64(r.Lost)*packetBytes
		if got := r.Carried(from, to); got < bytes || got > most {
			t.Errorf("%s: %d bytes crossed %s→%s for %d of the plan, %d the other way and %d lost packets; want at most %d",
				p.Algorithm, got, from, to, bytes, payload[l^1], r.Lost, most)
		}
	}
}
