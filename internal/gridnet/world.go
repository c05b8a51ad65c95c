package gridnet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// A world is the state of the network as a pure machine: send puts a packet in,
// advance applies all events up to a time. It has no clock, no goroutine and no lock.
type world struct {
	now    time.Duration // of the event that is being applied
	events events
	hosts  []*host
	names  map[string]*host
	ips    map[netip.Addr]*host
	pipes  []*pipe          // links, then trunks
	links  int              // how many of pipes are links
	routes map[[2]int]*pipe // links, by indices of sites
	trunks map[[2]int]*pipe // likewise
	ways   [][][]*pipe      // [from][to]: the trunks from one site to another; nil where there is a link or none lead
	sites  map[string]int
	tap    func(Event)
	spare  *packet // list of packets for reuse
}

// A host is one machine: a port in each direction and its sockets.
type host struct {
	name, site string
	siteIndex  int
	ip         netip.Addr
	latency    time.Duration // to others of its site
	sockets    map[uint16]*Conn
	cut        bool

	egress, ingress port
	out, in, local  Traffic

	jitter   time.Duration // after the ingress port
	rng      *rand.Rand
	earliest time.Duration // of the next packet at its sockets: jitter keeps the order
}

// A pipe is the directed path between two sites, or a trunk between two switches.
type pipe struct {
	link  Link
	cut   bool
	pacer pacer
	port  port
	Traffic
	// Loss and jitter draw from sequences of their own: jitter does not move the losses.
	loss, jitter *rand.Rand
	earliest     time.Duration // of the next packet at the far end, unless it may be reordered
}

// newWorld builds the network of a checked configuration.
func newWorld(cfg *Config) *world {
	w := &world{
		names:  map[string]*host{},
		ips:    map[netip.Addr]*host{},
		routes: map[[2]int]*pipe{},
		trunks: map[[2]int]*pipe{},
		links:  len(cfg.Links),
		sites:  map[string]int{},
		tap:    cfg.OnPacket,
	}
	for i := range cfg.Sites {
		s := &cfg.Sites[i]
		w.sites[s.Name] = i
		for j, name := range s.Hosts {
			n := j + 1 // 10.s.0.0 looks like a network, and is refused by some
			h := &host{
				name: name, site: s.Name, siteIndex: i,
				ip:      netip.AddrFrom4([4]byte{10, byte(i + 1), byte(n >> 8), byte(n)}),
				latency: s.Latency,
				sockets: map[uint16]*Conn{},
				egress:  port{rate: s.Rate, limit: s.egressQueue(), done: stageEgress},
				ingress: port{rate: s.Rate, limit: s.ingressQueue(), done: stageIngress},
				jitter:  s.ReceiveJitter,
				rng:     newRand(cfg.Seed, 0, len(w.hosts)),
			}
			w.hosts = append(w.hosts, h)
			w.names[name] = h
			w.ips[h.ip] = h
		}
	}
	for _, l := range cfg.Links {
		pair := [2]int{w.sites[l.From], w.sites[l.To]}
		w.routes[pair] = w.addPipe(cfg.Seed, l, pair)
	}
	for _, l := range cfg.Trunks {
		l.Queue = orDefault(l.Queue, defaultIngressQueue)
		pair := [2]int{w.sites[l.From], w.sites[l.To]}
		w.trunks[pair] = w.addPipe(cfg.Seed, l, pair)
	}
	w.findWays(len(cfg.Sites))
	return w
}

// addPipe makes the pipe of l between the sites of pair, which has no other.
func (w *world) addPipe(seed uint64, l Link, pair [2]int) *pipe {
	p := &pipe{
		link:  l,
		pacer: pacer{rate: l.FlowRate, limit: l.flowQueue(), flows: map[flowKey]*flow{}},
		port: port{rate: l.Rate, limit: l.queue(), done: stageWire,
			shape: newBucket(l.ShapeRate, l.ShapeBurst, 0)},
		loss:   newRand(seed, 1, pair[0]<<8|pair[1]),
		jitter: newRand(seed, 2, pair[0]<<8|pair[1]),
	}
	w.pipes = append(w.pipes, p)
	return p
}

// newRand gives each pipe and host a sequence of its own: traffic elsewhere does not change it.
func newRand(seed uint64, kind, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(kind)<<32|uint64(index)))
}

func (w *world) host(name string) (*host, error) {
	h := w.names[name]
	if h == nil {
		return nil, fmt.Errorf("no host %q", name)
	}
	return h, nil
}

// pipe returns the link or trunk from one site to another.
func (w *world) pipe(from, to string) (*pipe, error) {
	i, okFrom := w.sites[from]
	j, okTo := w.sites[to]
	pair := [2]int{i, j}
	if p := cmp.Or(w.routes[pair], w.trunks[pair]); p != nil && okFrom && okTo {
		return p, nil
	}
	return nil, fmt.Errorf("no link %s→%s", from, to)
}
