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
	now     time.Duration // of the event that is being applied
	clock   time.Duration // up to which events are applied: later than now by how late the loop is
	agenda  agenda
	hosts   []*host
	names   map[string]*host
	sites   []*site
	index   map[string]int   // of sites, by name
	pipes   []*pipe          // links, then trunks
	links   int              // how many of pipes are links
	routes  [][]*pipe        // links, [from][to] by indices of sites
	trunks  map[[2]int]*pipe // by indices of sites
	ways    [][][]*pipe      // [from][to]: the trunks from one site to another; nil where there is a link or none lead
	tap     func(Event)
	stray   Count
	late    Late
	spare   *packet // list of packets for reuse
	seed    uint64
	sources int     // of cross traffic that were ever started
	crossed []*pipe // those that have ever had one
}

// A site is the hosts on one switch. They are real while it has a wire.
type site struct {
	name  string
	hosts []*host
	wire  *Wire
	seq   uint64 // counts the packets from its wires
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
	cross Traffic // of strangers; Traffic does not hold it
	// Loss and jitter draw from sequences of their own: jitter does not move the losses.
	loss, jitter *rand.Rand
	earliest     time.Duration // of the next packet at the far end, unless it may be reordered
}

// newWorld builds the network of a checked configuration.
func newWorld(cfg *Config) *world {
	w := &world{
		names:  map[string]*host{},
		index:  map[string]int{},
		trunks: map[[2]int]*pipe{},
		links:  len(cfg.Links),
		tap:    cfg.OnPacket,
		seed:   cfg.Seed,
	}
	for i := range cfg.Sites {
		s := &cfg.Sites[i]
		home := &site{name: s.Name}
		w.index[s.Name] = i
		w.sites = append(w.sites, home)
		w.routes = append(w.routes, make([]*pipe, len(cfg.Sites)))
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
			home.hosts = append(home.hosts, h)
		}
	}
	for _, l := range cfg.Links {
		pair := [2]int{w.index[l.From], w.index[l.To]}
		w.routes[pair[0]][pair[1]] = w.addPipe(cfg.Seed, l, pair)
	}
	for _, l := range cfg.Trunks {
		l.Queue = orDefault(l.Queue, defaultIngressQueue)
		pair := [2]int{w.index[l.From], w.index[l.To]}
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

// at returns the host with the address of e, nil if none has it.
func (w *world) at(e endpoint) *host {
	s, h := int(byte(e>>32))-1, int(uint16(e>>16))-1
	if e>>40 != 10 || s < 0 || s >= len(w.sites) || h < 0 || h >= len(w.sites[s].hosts) {
		return nil
	}
	return w.sites[s].hosts[h]
}

// pipe returns the link or trunk from one site to another.
func (w *world) pipe(from, to string) (*pipe, error) {
	i, okFrom := w.index[from]
	j, okTo := w.index[to]
	if p := cmp.Or(w.routes[i][j], w.trunks[[2]int{i, j}]); p != nil && okFrom && okTo {
		return p, nil
	}
	return nil, fmt.Errorf("no link %s→%s", from, to)
}
