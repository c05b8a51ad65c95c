package gridnet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// A lab drives a world without clock and goroutines.
type lab struct {
	*world
	socks []*Conn
}

func newLab(t testing.TB, cfg Config) *lab {
	t.Helper()
	if err := cfg.check(); err != nil {
		t.Fatal(err)
	}
	b := &lab{world: newWorld(&cfg)}
	for _, h := range b.hosts {
		c := &Conn{net: &Network{world: b.world}, host: h, endpoint: toEndpoint(netip.AddrPortFrom(h.ip, firstPort)),
			room: maxReadBuffer, limit: defaultSendBuffer}
		h.sockets[firstPort] = c
		b.socks = append(b.socks, c)
	}
	return b
}

func (b *lab) send(from, to, size int) { b.world.send(b.socks[from], make([]byte, size), b.addr(to)) }

// toggle gives the site of a host a wire, or takes it away; unlike [Network.Attach] beside its sockets.
func (b *lab) toggle(host int) {
	s := b.sites[b.hosts[host].siteIndex]
	if s.wire != nil {
		s.wire.close()
		return
	}
	s.wire = &Wire{net: b.socks[host].net, site: s}
}

// inject writes to the wire of the sender's site, if there is one. The port keeps the flow apart from
// that of the socket, which counts its packets by itself.
func (b *lab) inject(from, to, size int) {
	if s := b.sites[b.hosts[from].siteIndex]; s.wire != nil {
		b.world.inject(s, b.socks[from].endpoint+1, b.socks[to].endpoint, make([]byte, size))
	}
}

func (b *lab) addr(i int) netip.AddrPort { return b.socks[i].endpoint.addrPort() }

// audit counts the packets in every structure and compares with the counters.
func (b *lab) audit() error {
	inside := map[*Traffic]Count{}
	add := func(t *Traffic, p *packet) {
		c := inside[t]
		c.add(p)
		inside[t] = c
	}
	waiting := func(t *Traffic, f *fifo) {
		for p := f.head; p != nil; p = p.next {
			add(t, p)
		}
	}
	for i, p := range b.agenda.events {
		if p.index != i || (i > 0 && p.before(b.agenda.events[(i-1)/2])) {
			return fmt.Errorf("heap is out of order at %d", i)
		}
		switch {
		case p.stage == stageEgress:
			add(&p.from.out, p)
		case p.pipe != nil && (p.stage == stagePaced || p.stage == stageWire || p.stage == stageSwitch):
			add(&p.pipe.Traffic, p)
		case p.stage == stageSwitch: // between two ports of a site
		case p.from == p.to:
			add(&p.to.local, p)
		default:
			add(&p.to.in, p)
		}
	}
	for i, p := range b.agenda.strange {
		if p.index != i || (i > 0 && p.before(b.agenda.strange[(i-1)/2])) {
			return fmt.Errorf("heap of strangers is out of order at %d", i)
		}
		if p.stage != stageCross {
			add(&p.pipe.cross, p)
		}
	}
	check := func(what string, t *Traffic) error {
		lost := t.Lost()
		if t.Inside != inside[t] {
			return fmt.Errorf("%s: %+v inside by its counters, %+v by inspection", what, t.Inside, inside[t])
		}
		if t.Offered.Packets != t.Delivered.Packets+lost.Packets+t.Inside.Packets || t.Offered.Bytes != t.Delivered.Bytes+lost.Bytes+t.Inside.Bytes {
			return fmt.Errorf("%s: not conserved: %+v", what, t)
		}
		return nil
	}
	for _, h := range b.hosts {
		waiting(&h.out, &h.egress.queue)
		waiting(&h.in, &h.ingress.queue)
		if h.egress.queue.len > h.egress.limit || h.ingress.queue.len > h.ingress.limit {
			return fmt.Errorf("host %s: a queue is over its limit", h.name)
		}
		if s := b.sites[h.siteIndex]; s.wire != nil && s.wire.received.len > wireQueue {
			return fmt.Errorf("site %s: %d packets wait for Read", s.name, s.wire.received.len)
		}
		for what, t := range map[string]*Traffic{"out": &h.out, "in": &h.in, "loopback": &h.local} {
			if err := check(h.name+" "+what, t); err != nil {
				return err
			}
		}
	}
	for _, p := range b.pipes {
		for q := p.port.queue.head; q != nil; q = q.next {
			add(p.traffic(q), q)
		}
		for _, f := range p.pacer.flows {
			waiting(&p.Traffic, &f.waiting)
		}
		if err := check(p.link.From+"→"+p.link.To, &p.Traffic); err != nil {
			return err
		}
		if err := check("strangers "+p.link.From+"→"+p.link.To, &p.cross); err != nil {
			return err
		}
	}
	return nil
}

func smallGrid(tap func(Event)) Config {
	return Config{
		Sites: []Site{
			{Name: "a", Hosts: []string{"a0", "a1"}, Rate: 80 * Mbps, Latency: 60 * time.Microsecond, EgressQueue: 5},
			{Name: "b", Hosts: []string{"b0"}, Latency: 6 * time.Microsecond, ReceiveJitter: 100 * time.Microsecond},
			{Name: "c", Hosts: []string{"c0", "c1"}, Rate: 300 * Mbps, IngressQueue: 2},
		},
		Links: []Link{
			{From: "a", To: "b", Rate: 2 * Mbps, Latency: 50 * time.Millisecond, Queue: 4, Loss: 0.1},
			{From: "b", To: "a", Rate: 5 * Mbps, FlowRate: 1 * Mbps, Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond},
			{From: "a", To: "c", Rate: 10 * Mbps, ShapeRate: 1 * Mbps, ShapeBurst: 5000, Latency: time.Millisecond},
			{From: "c", To: "a", Jitter: time.Millisecond, Reorder: true},
			{From: "b", To: "c", Rate: 1 * Mbps},
		},
		Seed:     7,
		OnPacket: tap,
	}
}

// FuzzWorld does what the bytes say to a small grid, four a step, and audits it: nothing
// is lost without a reason, no time runs backwards, no datagram arrives twice, and flows keep their order.
func FuzzWorld(f *testing.F) {
	addScripts(f)
	f.Fuzz(func(t *testing.T, script []byte) { play(t, script, smallGrid) })
}

// addScripts seeds a fuzz test with random scripts.
func addScripts(f *testing.F) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 4*rng.IntN(400))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(script)
	}
}

// play does what script says to the network of config.
func play(t *testing.T, script []byte, config func(tap func(Event)) Config) {
	var last time.Duration
	type way struct{ src, dst netip.AddrPort }
	newest := map[way]uint64{}
	var b *lab
	b = newLab(t, config(func(e Event) {
		if e.At < last {
			t.Fatalf("%v happens after %v", e, last)
		}
		last = e.At
		if e.Kind != Delivered {
			return
		}
		w := way{e.Src, e.Dst}
		from, to := b.at(toEndpoint(e.Src)).site, b.at(toEndpoint(e.Dst)).site
		if e.Seq <= newest[w] && !(from == "c" && to == "a") {
			t.Fatalf("%v arrives after #%d", e, newest[w])
		}
		newest[w] = e.Seq
	}))
	for i := 0; len(script) >= 4 && i < 400; i++ {
		op, x, y, z := script[0], int(script[1]), int(script[2]), script[3]
		script = script[4:]
		n, l := len(b.socks), len(b.pipes)
		switch op % 16 {
		case 0:
			p := b.pipes[x%l]
			link := p.link
			// Rates from 0 (no limit) to 65 MB/s, each with and without ceiling and bucket.
			link.Rate, link.FlowRate = Rate(x*y*1000), Rate(int(z)*1000)
			link.Latency = time.Duration(y) * time.Millisecond
			link.ShapeRate, link.ShapeBurst = 0, 0
			if z%2 == 1 {
				link.ShapeRate, link.ShapeBurst = Rate(1+y)*1000, MTU+100*x
			}
			if err := link.check(); err != nil {
				t.Fatal(err)
			}
			b.setLink(p, link)
		case 1:
			b.pipes[x%l].cut = y%3 == 0
		case 2:
			b.hosts[x%n].cut = y%3 == 0
		case 3:
			b.powerOff(b.hosts[x%n])
		case 4:
			b.setRate(b.hosts[x%n], Rate(y)*1e5)
		case 5, 6, 7, 8:
			b.advance(b.now + time.Duration(x)*time.Duration(y)*time.Microsecond)
		case 9:
			b.toggle(x % n)
		case 10, 11, 12:
			b.inject(x%n, y%n, int(z)*7)
		default:
			b.send(x%n, y%n, int(z)*7)
		}
		if err := b.audit(); err != nil {
			t.Fatalf("step %d, %v after the start: %v", i, b.now, err)
		}
	}
	b.advance(b.now + 1000*time.Hour)
	if len(b.agenda.events) != 0 {
		t.Fatalf("%d packets never arrive, the next one at %v", len(b.agenda.events), b.agenda.events[0].at)
	}
	if err := b.audit(); err != nil {
		t.Fatal(err)
	}
}

// The event machine agrees with the recursion of a queue: a transmission begins when the
// packet is there and the one before has ended; a packet that finds the queue full is dropped.
func TestPortAgainstRecursion(t *testing.T) {
	const rate, limit = 3 * Mbps, 6
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var got []time.Duration
		b := newLab(t, Config{
			Sites: []Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
			Links: []Link{{From: "a", To: "b", Rate: rate, Latency: 9 * time.Millisecond, Queue: limit}},
			OnPacket: func(e Event) {
				if e.Kind == Delivered {
					got = append(got, e.At)
				}
			},
		})
		var want, ends []time.Duration // of arrivals; of the transmissions that may still run
		now := time.Duration(0)
		for range 400 {
			now += time.Duration(2 + rng.IntN(3_000_000))
			size := rng.IntN(MaxPayload)
			b.advance(now)
			b.send(0, 1, size)
			at := now + 1 // past the port without limit
			ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= at })
			if len(ends) > limit {
				continue
			}
			end := at + Rate(rate).time(size+HeaderBytes)
			if len(ends) > 0 {
				end += ends[len(ends)-1] - at
			}
			ends = append(ends, end)
			want = append(want, end+9*time.Millisecond+1)
		}
		b.advance(time.Hour)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d arrivals, want %d; or at other times", seed, len(got), len(want))
		}
		if len(want) == 400 {
			t.Errorf("seed %d: the queue was never full, the test shows less than it says", seed)
		}
	}
}

// The heap yields packets in the order that sorting gives, whatever is moved or removed between.
func TestEventsOrder(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var h events
		var all []*packet
		for i := range 1 + rng.IntN(100) {
			p := &packet{at: time.Duration(rng.IntN(5)), src: endpoint(rng.IntN(3)), dst: endpoint(rng.IntN(3)), seq: uint64(i)}
			h.push(p)
			all = append(all, p)
		}
		for range 20 {
			p := all[rng.IntN(len(all))]
			p.at = time.Duration(rng.IntN(5))
			h.fix(p)
		}
		gone := all[rng.IntN(len(all))]
		h.remove(gone)
		all = slices.DeleteFunc(all, func(p *packet) bool { return p == gone })
		slices.SortFunc(all, func(p, q *packet) int {
			return cmp.Or(cmp.Compare(p.at, q.at), cmp.Compare(p.src, q.src), cmp.Compare(p.dst, q.dst), cmp.Compare(p.seq, q.seq))
		})
		for i, want := range all {
			if got := h.pop(); got != want {
				t.Fatalf("seed %d: packet %d is %+v, want %+v", seed, i, got.seq, want.seq)
			}
		}
	}
}

// A pipe forgets flows that are idle: its memory follows those that are not.
func TestIdleFlowsAreForgotten(t *testing.T) {
	b := newLab(t, Config{
		Sites: []Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
		Links: []Link{{From: "a", To: "b", FlowRate: 1 * Mbps}},
	})
	for port := range uint16(20_000) {
		b.advance(b.now + time.Millisecond) // a packet of 1000 bytes keeps its flow busy for 8
		b.world.send(b.socks[0], make([]byte, 972), netip.AddrPortFrom(b.hosts[1].ip, port))
	}
	if n := len(b.pipes[0].pacer.flows); n > 100 {
		t.Errorf("%d flows remembered, want at most 100", n)
	}
}

// BenchmarkEvents measures the machine alone: WAN packets of 1000 bytes under a ceiling,
// with 1000 on the wire. Each takes 5 events.
func BenchmarkEvents(b *testing.B) {
	l := newLab(b, Config{
		Sites: []Site{{Name: "a", Hosts: []string{"a0"}, Rate: 1000 * Mbps}, {Name: "b", Hosts: []string{"b0"}, Rate: 1000 * Mbps}},
		Links: []Link{{From: "a", To: "b", Rate: 200 * Mbps, FlowRate: 100 * Mbps, Latency: 80 * time.Millisecond}},
	})
	to, payload := l.addr(1), make([]byte, 972)
	b.ReportAllocs()
	b.SetBytes(1000)
	for b.Loop() {
		l.advance(l.now + 81*time.Microsecond)
		l.world.send(l.socks[0], payload, to)
		for p := l.socks[1].received.pop(); p != nil; p = l.socks[1].received.pop() {
			l.socks[1].unread -= p.size
			l.recycle(p)
		}
	}
	b.ReportMetric(5*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
