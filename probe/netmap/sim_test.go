package netmap

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A simulated grid: real maps that keep each other alike as agents do (package agent,
// mapsync.go: the pauses, whom a host turns to), in virtual time, without a network. Every
// 10 s a host measures one of eight hosts, and both record it, so a row has 16 entries.
type simGrid struct {
	rng       *rand.Rand
	now       time.Time
	hosts     []*simHost
	index     map[string]int
	events    simEvents
	busy      bool
	bytes     int // in messages
	msgs      int
	taken     int // batches, each of which costs a verification
	crossings int // rounds between sites
}

type simHost struct {
	m        *Map
	partners *Partners
	others   []Host
	peers    []int // whom it measures
	turn     int
	truth    map[int]float64 // Mbit/s to a peer
	awake    bool            // a hot round is due
	telling  bool            // and with all partners at other sites, of own news
}

type simEvent struct {
	at      time.Time
	host    int
	measure bool
	hot     bool
	seq     int // ties
}

type simEvents []simEvent

func (e simEvents) Len() int { return len(e) }
func (e simEvents) Less(i, j int) bool {
	if !e[i].at.Equal(e[j].at) {
		return e[i].at.Before(e[j].at)
	}
	return e[i].seq < e[j].seq
}
func (e simEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *simEvents) Push(x any)   { *e = append(*e, x.(simEvent)) }
func (e *simEvents) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

const (
	simHot     = 100 * time.Millisecond
	simPass    = 50 * time.Millisecond
	simIdle    = 5 * time.Second
	simMeasure = 10 * time.Second
)

// newSimGrid returns a grid of n hosts in sites that has been at rest for long: every map
// holds every host's row, and confirmations fall due evenly.
func newSimGrid(t testing.TB, n, sites int, seed uint64) *simGrid {
	t.Helper()
	g := &simGrid{rng: rand.New(rand.NewPCG(seed, 8)), now: t0, index: map[string]int{}}
	site := func(i int) string { return fmt.Sprintf("site%d", i%sites) }
	name := func(i int) string { return fmt.Sprintf("site%d-host%d", i%sites, i/sites) }
	cred, sig := make([]byte, 430), make([]byte, 71) // as large as the real ones
	cache := map[string]*batch{}
	read := func(raw []byte) (*batch, func() error, error) {
		if b := cache[string(raw)]; b != nil {
			return b, func() error { return nil }, nil
		}
		b, rest, err := readBatch(raw)
		if err == nil {
			err = rest()
			cache[string(raw)] = b
		}
		return b, func() error { return nil }, err
	}
	for i := range n {
		m, err := NewMap(MapConfig{
			Self: name(i), Credential: cred,
			Sign:   func([]byte) ([]byte, error) { return sig, nil },
			Verify: func(string, []byte, []byte, []byte) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		m.read = read
		h := &simHost{m: m, truth: map[int]float64{}}
		for len(h.peers) < min(8, n-1) {
			if p := g.rng.IntN(n); p != i && !slices.Contains(h.peers, p) {
				h.peers = append(h.peers, p)
				h.truth[p] = 1 + 99*g.rng.Float64()
			}
		}
		h.partners = NewPartners(site(i), rand.New(rand.NewPCG(seed, uint64(i))))
		for p := range n {
			if p != i {
				h.others = append(h.others, Host{Name: name(p), Site: site(p)})
			}
			g.index[name(p)] = p
		}
		g.hosts = append(g.hosts, h)
	}
	for i, h := range g.hosts {
		for range h.peers {
			g.measure(t, i)
		}
	}
	for _, h := range g.hosts {
		h.m.mu.Lock()
		weighty, rest, _ := h.m.unsaid()
		h.m.mu.Unlock()
		at := g.now.Add(-time.Duration(g.rng.Float64() * float64(refreshEvery(n))))
		if err := h.m.publish(append(weighty, rest...), at); err != nil {
			t.Fatal(err)
		}
		h.m.own.refreshed, h.m.own.urgent, h.m.own.spentAt = at, urgentBurst, g.now
		for _, o := range g.hosts {
			if o != h {
				o.m.link(h.m.reports[h.m.cfg.Self].tip())
			}
		}
	}
	for i := range g.hosts {
		g.at(i, time.Duration(g.rng.Float64()*float64(simIdle)), false)
		heap.Push(&g.events, simEvent{at: g.now.Add(time.Duration(g.rng.Float64() * float64(simMeasure))), host: i, measure: true, seq: len(g.events)})
	}
	return g
}

func (g *simGrid) at(host int, d time.Duration, hot bool) {
	heap.Push(&g.events, simEvent{at: g.now.Add(d), host: host, hot: hot, seq: g.rng.Int()})
}

func (g *simGrid) pause(d time.Duration) time.Duration {
	return d/2 + time.Duration(g.rng.Float64()*float64(d))
}

// measure makes host i measure its next peer: the filtered estimate wobbles by 2 % (one σ).
func (g *simGrid) measure(t testing.TB, i int) {
	h := g.hosts[i]
	h.turn++
	p := h.peers[h.turn%len(h.peers)]
	e := bandwidthOf(h.truth[p]*(1+0.02*g.rng.NormFloat64()), g.now)
	e.Known |= FieldLatency | FieldCapacity | FieldLanes | FieldLoss | FieldVariation
	e.Latency, e.Variation = 10*time.Millisecond+time.Duration(g.rng.Int64N(1e5)), time.Duration(g.rng.Int64N(1e6))
	e.Capacity, e.Lanes, e.Loss, e.LossOf, e.Spread, e.Readings = BytesPerSec(3*h.truth[p])*Mbps, 4, 0.001, 50_000, 0.05, 12
	for _, m := range []*Map{h.m, g.hosts[p].m} {
		if err := m.Update(h.m.cfg.Self, g.hosts[p].m.cfg.Self, e, g.now); err != nil {
			t.Fatal(err)
		}
	}
	g.speak(t, i)
	g.speak(t, p)
}

// speak publishes what is due, and makes a round follow if it has weight.
func (g *simGrid) speak(t testing.TB, i int) {
	if h := g.hosts[i]; h.m.own.refreshed.IsZero() {
		return // not yet under way
	}
	urgent, err := g.hosts[i].m.Publish(g.now, g.busy)
	if err != nil {
		t.Fatal(err)
	}
	g.hosts[i].telling = g.hosts[i].telling || urgent
	g.wake(i, simHot)
}

func (g *simGrid) wake(i int, pause time.Duration) {
	if h := g.hosts[i]; !h.awake && h.m.Hot() {
		h.awake = true
		g.at(i, g.pause(pause), true)
	}
}

// meet makes one round.
func (g *simGrid) meet(t testing.TB, h *simHost, with string) {
	to := g.index[with]
	if g.hosts[to].partners.site != h.partners.site {
		g.crossings++
	}
	g.hosts[to].partners.Called(h.m.cfg.Self, h.partners.site)
	taken, bytes := exchange(t, h.m, g.hosts[to].m, g.now, g.now)
	g.taken += taken
	g.bytes += bytes
	g.msgs += 2
	g.wake(to, simPass)
}

// run goes on for d.
func (g *simGrid) run(t testing.TB, d time.Duration) {
	end := g.now.Add(d)
	for len(g.events) > 0 && g.events[0].at.Before(end) {
		e := heap.Pop(&g.events).(simEvent)
		g.now = e.at
		h := g.hosts[e.host]
		if e.measure {
			g.measure(t, e.host)
			heap.Push(&g.events, simEvent{at: g.now.Add(simMeasure), host: e.host, measure: true, seq: e.seq})
			continue
		}
		if e.hot {
			h.awake = false
		}
		g.speak(t, e.host)
		with, _, ok := h.partners.Pick(h.others, false, g.now)
		if !ok {
			t.Fatal("nobody to turn to")
		}
		if h.telling {
			h.telling = false
			for _, other := range h.partners.Far(h.others, g.now) {
				g.meet(t, h, other)
			}
		}
		g.meet(t, h, with)
		g.wake(e.host, simPass)
		if !e.hot {
			g.at(e.host, g.pause(simIdle), false)
		}
	}
	g.now = end
}

// step changes one link to a quarter and returns when, at the latest, a host knew it after
// it was measured, and the median.
func (g *simGrid) step(t testing.TB, limit time.Duration) (median, last time.Duration) {
	i := g.rng.IntN(len(g.hosts))
	h := g.hosts[i]
	p := h.peers[(h.turn+1)%len(h.peers)]
	h.truth[p] /= 4
	from, to := h.m.cfg.Self, g.hosts[p].m.cfg.Self
	begin := g.now
	g.measure(t, i)
	var when []time.Duration
	done := make([]bool, len(g.hosts))
	for len(when) < len(g.hosts) && g.now.Sub(begin) < limit {
		g.run(t, 50*time.Millisecond)
		for k, o := range g.hosts {
			if !done[k] {
				if e := o.m.estimate(from, peer{to, sent}); e.Bandwidth < BytesPerSec(2*h.truth[p])*Mbps {
					done[k] = true
					when = append(when, g.now.Sub(begin))
				}
			}
		}
	}
	if len(when) < len(g.hosts) {
		return limit, limit
	}
	return when[len(when)/2], when[len(when)-1]
}

// A simCost is what a host spends.
type simCost struct {
	bytes   float64 // a second, sent and received
	rounds  float64 // a second, started and answered
	batches float64 // a second
	cpu     time.Duration
}

func (g *simGrid) cost(t testing.TB, d time.Duration) simCost {
	g.bytes, g.msgs, g.taken = 0, 0, 0
	before := cpuTime()
	g.run(t, d)
	n, s := float64(len(g.hosts)), d.Seconds()
	return simCost{
		bytes: 2 * float64(g.bytes) / n / s, rounds: float64(g.msgs) / n / s, batches: float64(g.taken) / n / s,
		cpu: time.Duration(float64(cpuTime()-before) / n / s),
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// What keeping the map alike costs a host hardly depends on the number of hosts. Bytes are
// those of messages; each round adds some 250 bytes of packets and acknowledgements.
func TestSyncStaysFlat(t *testing.T) {
	if raceDetector {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, tt := range []struct {
		hosts, sites int
		span         time.Duration
		bytes        float64       // a second at most, sent and received
		last         time.Duration // until the last host knows; who is missed asks within 7.5 s
	}{{20, 3, 10 * time.Minute, 700, 5 * time.Second}, {100, 10, 3 * time.Minute, 1300, 7500 * time.Millisecond}} {
		g := newSimGrid(t, tt.hosts, tt.sites, 1)
		g.run(t, time.Minute)
		c := g.cost(t, tt.span)
		median, last := g.step(t, time.Minute)
		g.busy = true
		g.run(t, 30*time.Second)
		busy := g.cost(t, time.Minute)
		bmedian, blast := g.step(t, time.Minute)
		t.Logf("%4d hosts: %.0f B/s, %.2f rounds/s, %.2f batches/s; news at half of the hosts after %v, at all after %v; during an exchange %.0f B/s, %v, %v",
			tt.hosts, c.bytes, c.rounds, c.batches, median, last, busy.bytes, bmedian, blast)
		if c.bytes > tt.bytes || busy.bytes > tt.bytes {
			t.Errorf("%d hosts: %.0f B/s, during an exchange %.0f, want at most %.0f", tt.hosts, c.bytes, busy.bytes, tt.bytes)
		}
		if max(last, blast) > tt.last || max(median, bmedian) > tt.last/2 {
			t.Errorf("%d hosts: all know news after %v, during an exchange after %v", tt.hosts, last, blast)
		}
	}
}

// When all hosts of a large site have news at the same moment, as of a link that has fallen, they do not all fill that link with them.
func TestNewsOfManyDoNotCrossAtOnce(t *testing.T) {
	const hosts, sites = 80, 2
	g := newSimGrid(t, hosts, sites, 1)
	g.run(t, 20*time.Second)
	g.busy, g.crossings = true, 0
	for i := 0; i < hosts; i += sites {
		for p := range g.hosts[i].truth {
			g.hosts[i].truth[p] /= 4
		}
		g.measure(t, i)
	}
	g.run(t, 2*time.Second)
	t.Logf("%d rounds between sites", g.crossings)
	if g.crossings > 3*hosts/2 {
		t.Errorf("%d rounds between sites in 2 s, want %d at most", g.crossings, 3*hosts/2)
	}
}

// BenchmarkSync prints the table of docs: what the map costs a host, for 20, 100 and 1,000.
func BenchmarkSync(b *testing.B) {
	for _, tt := range []struct{ hosts, sites int }{{20, 3}, {100, 10}, {1000, 10}} {
		b.Run(fmt.Sprintf("hosts=%d", tt.hosts), func(b *testing.B) {
			for b.Loop() {
				g := newSimGrid(b, tt.hosts, tt.sites, 1)
				g.run(b, 20*time.Second)
				c := g.cost(b, time.Minute)
				median, last := g.step(b, time.Minute)
				b.ReportMetric(c.bytes, "B/s/host")
				b.ReportMetric(c.rounds, "rounds/s/host")
				b.ReportMetric(c.batches, "batches/s/host")
				b.ReportMetric(float64(c.cpu.Microseconds()), "cpu-µs/s/host")
				b.ReportMetric(median.Seconds(), "s-news-half")
				b.ReportMetric(last.Seconds(), "s-news-all")
				runtime.KeepAlive(g)
			}
		})
	}
}

// BenchmarkMap is a map of 1,000 hosts with 16 entries each: what it takes, and what
// looking at it costs.
func BenchmarkMap(b *testing.B) {
	g := newSimGrid(b, 1000, 10, 1)
	m, err := NewMap(MapConfig{Self: "site0-host0"})
	if err != nil {
		b.Fatal(err)
	}
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	hosts := make([]Host, 20)
	labels := make(map[string]string)
	for i, h := range g.hosts {
		labels[h.m.cfg.Self] = ""
		if i < len(hosts) {
			hosts[i].Name = h.m.cfg.Self
		}
		if _, err := m.merge("x", batchesOf(h.m, h.m.cfg.Self), g.now); err != nil {
			b.Fatal(err)
		}
	}
	size := float64(heap()-before) / 1e6
	to := g.hosts[g.hosts[0].peers[0]].m.cfg.Self
	b.Run("Lookup", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := m.Lookup("site0-host0", to, g.now); !ok {
				b.Fatal("nothing known")
			}
		}
		b.ReportMetric(size, "MB")
	})
	b.Run("Snapshot20", func(b *testing.B) {
		for b.Loop() {
			m.Snapshot(hosts, g.now)
		}
	})
	b.Run("Suspects", func(b *testing.B) {
		for b.Loop() {
			m.suspects.at = time.Time{}
			m.Suspects(g.now)
		}
	})
	b.Run("LookupBesidePredictor", func(b *testing.B) { // how long it waits
		ended, made := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(made)
			for {
				select {
				case <-ended:
					return
				default:
					m.Predictor(labels, g.now)
				}
			}
		}()
		var longest time.Duration
		for b.Loop() {
			begin := time.Now()
			m.Lookup("site0-host0", to, g.now)
			longest = max(longest, time.Since(begin))
		}
		close(ended)
		<-made
		b.ReportMetric(float64(longest.Microseconds())/1e3, "ms-longest")
	})
	b.Run("Predictor", func(b *testing.B) {
		for b.Loop() {
			m.Predictor(labels, g.now)
		}
	})
	runtime.KeepAlive(g)
}
