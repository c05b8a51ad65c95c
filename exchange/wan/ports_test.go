package wan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestPortsOfRelays: where the ports of a site's hosts are what bounds how much it may relay, as much is relayed as goes through them. Plans that needed a little longer
// of a port than of the fullest link were thrown away once, and with them all relays.
func TestPortsOfRelays(t *testing.T) {
	var ratios []float64
	held, gained := 0, 0.0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 91))
		n := randomGrid(rng, 3+rng.IntN(3), 6)
		for i := range n.Hosts { // the engine opens as many lanes as fill a link
			for j := range n.Hosts {
				if n.Pool[i] != n.Pool[j] {
					n.Ceiling[i*len(n.Hosts)+j] = n.Pipe[n.Pool[i]*n.Pools()+n.Pool[j]]
				}
			}
		}
		sizes := plan.AlltoallSizes{Uniform: 64 << 10}
		free, err := n.AlltoallBounds(sizes)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// Ports of one pool that have so much less to give that they bind, or nearly.
		k, through := rng.IntN(n.Pools()), 0.0
		for _, p := range free.Routing.Paths {
			if slices.Contains(p.Pools[1:len(p.Pools)-1], k) {
				through += p.Bytes
			}
		}
		hosts := 0
		for _, pool := range n.Pool {
			if pool == k {
				hosts++
			}
		}
		own := float64(len(n.Hosts)-1) * (64 << 10) // bytes of each of its hosts
		port := netmap.BytesPerSec((own + (0.3+0.6*rng.Float64())*through/float64(hosts)) / free.Relayed.Seconds)
		for h, pool := range n.Pool {
			if pool == k {
				n.Egress[h], n.Ingress[h] = port, port
			}
		}
		p, bounds := made(t, seed, n, sizes, nil, Options{})
		if bounds.Direct.Seconds > 1.05*bounds.Relayed.Seconds && through > 0 {
			held++
		}
		took, way := simulated(t, seed, p, n, 16<<10), 0.0
		for i := range n.Latency {
			way = max(way, n.Latency[i].Seconds())
		}
		ratios = append(ratios, took/(bounds.Relayed.Seconds+2*way))
		gained = max(gained, bounds.Direct.Seconds/took)
		if ratio := took / (bounds.Relayed.Seconds + 2*way); ratio > 1.2 {
			t.Errorf("seed %d: %d pools, %d hosts, ports of pool %d of %d: %.3f s, %.3f times the relayed bound and two of the longest ways; direct %.3f s", seed, n.Pools(), len(n.Hosts), k, hosts, took, ratio, bounds.Direct.Seconds)
		}
	}
	slices.Sort(ratios)
	t.Logf("median %.3f, three of four %.3f, nine of ten %.3f, worst %.3f", ratios[30], ratios[45], ratios[54], ratios[59])
	if held < 10 || gained < 1.3 {
		t.Errorf("%d of 60 grids have relays held by ports, which gain a factor of %.2f at most: the test does not reach them", held, gained)
	}
}

// TestLonePorts: of a host that is alone in its site nobody knows the ports. It is given no more to relay than hosts like those of other sites could, and where it then takes what it can from none
// others do as before.
func TestLonePorts(t *testing.T) {
	const port = 10 * netmap.Mbps
	sizes := func(n *plan.Network) plan.AlltoallSizes { return plan.AlltoallSizes{Uniform: 64 << 10} }
	network := func(lone netmap.BytesPerSec) *plan.Network {
		// Pools 0 to 3 have three hosts each and slow links between them, and fast ones to pool 4, of one host.
		n := &plan.Network{Pipe: make([]netmap.BytesPerSec, 25)}
		for i := range n.Pipe {
			n.Pipe[i] = netmap.Mbps
			if i/5 == 4 || i%5 == 4 {
				n.Pipe[i] = port
			}
		}
		for h := range 13 {
			n.Hosts, n.Pool = append(n.Hosts, fmt.Sprintf("h%d", h)), append(n.Pool, h/3)
			n.Egress, n.Ingress = append(n.Egress, port), append(n.Ingress, port)
		}
		n.Egress[12], n.Ingress[12] = lone, lone
		for i := range 13 {
			for j := range 13 {
				n.Ceiling, n.Latency = append(n.Ceiling, port), append(n.Latency, 5*time.Millisecond)
				if k := n.Pool[i]*5 + n.Pool[j]; n.Pool[i] != n.Pool[j] {
					n.Ceiling[i*13+j] = n.Pipe[k]
				}
			}
		}
		return n
	}
	relays := func(p *plan.Plan) (bytes float64) {
		for i := range p.Transfers {
			if tr := &p.Transfers[i]; tr.Src == 12 && tr.Blocks[0].Origin != 12 {
				bytes += float64(p.Bytes(tr))
			}
		}
		return bytes
	}
	unknown, known := network(4*port), network(port)
	unknown.Guessed = []int{12}
	p, _ := made(t, 1, unknown, sizes(unknown), nil, Options{})
	q, bounds := made(t, 1, known, sizes(known), nil, Options{})
	if a, b := relays(p), relays(q); b == 0 || a < 0.9*b || a > 1.1*b {
		t.Errorf("it is to relay %.0f bytes where its ports are not known, and %.0f where they are known to be like those of others", a, b)
	}
	if took := simulated(t, 1, p, known, 16<<10); took > 1.1*bounds.Relayed.Seconds {
		t.Errorf("%.3f s over ports like those of others, want at most 1.1 times %v", took, bounds.Relayed)
	}
}
