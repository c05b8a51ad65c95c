package gridnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

const us = time.Microsecond

// smallTree is a tree of four switches, one of them without hosts, on slow trunks with
// short queues, and one site beside it that is linked to one of them only.
func smallTree(tap func(Event)) Config {
	cfg := Config{
		Sites: []Site{
			{Name: "s0", Hosts: []string{"h0", "h1"}, Rate: 20 * Mbps, Latency: 100 * us},
			{Name: "s1", Hosts: []string{"h2"}, Rate: 20 * Mbps, Latency: 60 * us, IngressQueue: 3},
			{Name: "s2"},
			{Name: "s3", Hosts: []string{"h3", "h4"}, Latency: 41 * us, ReceiveJitter: 90 * us},
			{Name: "far", Hosts: []string{"h5"}},
		},
		Links:    []Link{{From: "s3", To: "far", Rate: 2 * Mbps}, {From: "far", To: "s3", Rate: 3 * Mbps, Latency: time.Millisecond}},
		Seed:     8,
		OnPacket: tap,
	}
	for _, ends := range [][2]string{{"s0", "s1"}, {"s2", "s1"}, {"s3", "s2"}} {
		there := Link{From: ends[0], To: ends[1], Rate: 5 * Mbps, Latency: 30 * us, Queue: 6}
		back := there
		back.From, back.To = there.To, there.From
		back.Loss = 0.05
		cfg.Trunks = append(cfg.Trunks, there, back)
	}
	return cfg
}

// FuzzTree is [FuzzWorld] on a tree of switches.
func FuzzTree(f *testing.F) {
	addScripts(f)
	f.Fuzz(func(t *testing.T, script []byte) { play(t, script, smallTree) })
}

// line is switches s0 – s1 – … with the given numbers of hosts, ports and trunks of a rate.
func line(rate Rate, latency, cable time.Duration, hosts ...int) Config {
	var cfg Config
	for s, k := range hosts {
		site := Site{Name: fmt.Sprintf("s%d", s), Rate: rate, Latency: latency}
		for i := range k {
			site.Hosts = append(site.Hosts, fmt.Sprintf("s%d.%d", s, i))
		}
		cfg.Sites = append(cfg.Sites, site)
		if s > 0 {
			cfg.Trunks = append(cfg.Trunks,
				Link{From: fmt.Sprintf("s%d", s-1), To: site.Name, Rate: rate, Latency: cable},
				Link{From: site.Name, To: fmt.Sprintf("s%d", s-1), Rate: rate, Latency: cable})
		}
	}
	return cfg
}

// arrived runs the network to its end and returns when the last packet came to each host.
func (b *lab) arrived(t *testing.T) map[string]time.Duration {
	t.Helper()
	last := map[string]time.Duration{}
	b.tap = func(e Event) {
		if e.Kind == Delivered {
			last[b.at(toEndpoint(e.Dst)).name] = e.At
		}
	}
	for len(b.agenda.events) > 0 {
		b.advance(b.agenda.events[0].at)
		if err := b.audit(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// Every switch on the way stores a packet whole, and cables add up.
func TestTrunksAddUp(t *testing.T) {
	const rate, latency, cable = 8 * Mbps, 51 * us, 7 * us // 1 µs a byte
	const tx = 1000 * us
	for to, want := range []time.Duration{
		1: 2*tx + latency,
		2: 3*tx + latency + cable,
		3: 4*tx + latency + 2*cable,
		4: 5*tx + latency + 3*cable,
	} {
		if to == 0 {
			continue
		}
		b := newLab(t, line(rate, latency, cable, 2, 1, 1, 1))
		b.send(0, to, 972)
		if got := b.arrived(t)[b.hosts[to].name]; got != want {
			t.Errorf("s0.0 → %s takes %v, want %v", b.hosts[to].name, got, want)
		}
	}
}

// Flows that cross a trunk in one direction share it; those in the other do not meet them.
func TestTrunksAreShared(t *testing.T) {
	const rate = 8 * Mbps
	const packets, tx = 100, 1000 * us
	for _, tc := range []struct {
		name  string
		flows [][2]int // hosts 0, 1 and 2 on s0; 3, 4 and 5 on s1; 6 on s2
		want  time.Duration
	}{
		{"alone", [][2]int{{0, 3}}, (packets + 2) * tx},
		{"one direction", [][2]int{{0, 3}, {1, 4}}, (2*packets + 2) * tx},
		{"both directions", [][2]int{{0, 3}, {4, 1}}, (packets + 2) * tx},
		{"there and inside", [][2]int{{0, 3}, {1, 2}, {4, 5}}, (packets + 2) * tx},
		{"other trunks", [][2]int{{0, 3}, {4, 6}}, (packets + 2) * tx},
		{"part of the way", [][2]int{{0, 6}, {1, 3}}, (2*packets + 2) * tx},
	} {
		b := newLab(t, line(rate, 0, 0, 3, 3, 1))
		for range packets {
			for _, f := range tc.flows {
				b.send(f[0], f[1], 972)
			}
		}
		var last time.Duration
		got := b.arrived(t)
		for _, at := range got {
			last = max(last, at)
		}
		// One that goes on over another trunk ends one transmission later.
		if last != tc.want && last != tc.want+tx {
			t.Errorf("%s: %v, want %v", tc.name, last, tc.want)
		}
		for _, p := range b.pipes {
			var want uint64
			for _, f := range tc.flows {
				if slices.Contains(b.ways[b.hosts[f[0]].siteIndex][b.hosts[f[1]].siteIndex], p) {
					want += packets * 1000
				}
			}
			if p.Delivered.Bytes != want || p.Lost().Packets > 0 {
				t.Errorf("%s: %s→%s carried %d bytes, want %d; lost %+v", tc.name, p.link.From, p.link.To, p.Delivered.Bytes, want, p.Lost())
			}
		}
	}
}

// A trunk drops what finds its queue full, and the trunks behind it do not see it.
func TestTrunkQueue(t *testing.T) {
	cfg := line(80*Mbps, 0, 0, 1, 1, 1)
	cfg.Trunks[0].Rate, cfg.Trunks[0].Queue = 1*Mbps, 5
	b := newLab(t, cfg)
	for range 30 {
		b.send(0, 2, 972)
	}
	b.arrived(t)
	// All 30 come within 3 ms, and the trunk takes 8 ms for the first: that one and 5 that wait.
	if p := b.pipes[0]; p.Dropped[QueueFull].Packets != 24 || p.HighWater != 5 {
		t.Errorf("first trunk: %+v, want 24 dropped and 5 that waited", p.Traffic)
	}
	next, _ := b.pipe("s1", "s2")
	if next.Offered != b.pipes[0].Delivered || next.Delivered.Packets != 6 {
		t.Errorf("second trunk: %+v after %+v", next.Traffic, b.pipes[0].Traffic)
	}
	if q := newLab(t, line(80*Mbps, 0, 0, 1, 1)).pipes[0].port.limit; q != defaultIngressQueue {
		t.Errorf("a trunk's queue has room for %d packets by default, want %d", q, defaultIngressQueue)
	}
}

// A cut trunk cuts off what is behind it; packets find no way round.
func TestTrunkChanges(t *testing.T) {
	b := newLab(t, line(8*Mbps, 0, 0, 1, 1, 1))
	p, err := b.pipe("s1", "s2")
	if err != nil {
		t.Fatal(err)
	}
	p.cut = true
	b.send(0, 2, 972)
	b.send(0, 1, 972)
	if got := b.arrived(t); len(got) != 1 || p.Dropped[LinkCut].Packets != 1 {
		t.Errorf("with s1→s2 cut arrived %v, counters %+v", got, p.Traffic)
	}
	p.cut = false
	start := b.now
	l := p.link
	l.Rate = 4 * Mbps
	b.setLink(p, l)
	b.send(0, 2, 972)
	if got := b.arrived(t)["s2.0"] - start; got != 5*time.Millisecond {
		t.Errorf("over a trunk of half the rate: %v, want 5ms", got)
	}
	if _, err := b.pipe("s0", "s2"); err == nil {
		t.Error("there is a trunk s0→s2")
	}
}

// Packets take the fewest trunks; a link of the pair's own comes first; without either there is no way.
func TestWays(t *testing.T) {
	cfg := Config{}
	for _, s := range []string{"a", "b", "c", "d", "e", "alone"} {
		cfg.Sites = append(cfg.Sites, Site{Name: s, Hosts: []string{s + "0"}})
	}
	for _, ends := range []string{"ab", "bc", "cd", "de", "ea", "ba"} { // a circle, almost one-way
		cfg.Trunks = append(cfg.Trunks, Link{From: ends[:1], To: ends[1:]})
	}
	cfg.Links = []Link{{From: "a", To: "d"}}
	b := newLab(t, cfg)
	for pair, want := range map[string]string{
		"ab": "ab", "ac": "ab bc", "ad": "", "ae": "ab bc cd de", "ba": "ba", "ea": "ea", "eb": "ea ab", "cb": "cd de ea ab", "aa": "",
	} {
		var got []string
		for _, p := range b.ways[b.index[pair[:1]]][b.index[pair[1:]]] {
			got = append(got, p.link.From+p.link.To)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: over %q, want %q", pair, got, want)
		}
	}
	b.send(0, 5, 10)
	b.send(0, 3, 10)
	if got := b.arrived(t); len(got) != 1 || got["d0"] == 0 || b.hosts[0].out.Dropped[NoRoute].Packets != 1 {
		t.Errorf("arrived %v, counters %+v", got, b.hosts[0].out)
	}
}

func TestTrunksRefused(t *testing.T) {
	for what, spoil := range map[string]func(*Config){
		"given twice":        func(c *Config) { c.Trunks[1] = c.Trunks[0] },
		"its own site":       func(c *Config) { c.Trunks[0].To = "s0" },
		`no site "s9"`:       func(c *Config) { c.Trunks[0].To = "s9" },
		"a link already":     func(c *Config) { c.Links = []Link{{From: "s0", To: "s1"}} },
		"negative":           func(c *Config) { c.SendBuffer = -1 },
		"queue of -1":        func(c *Config) { c.Trunks[0].Queue = -1 },
		"rate of -5 bytes/s": func(c *Config) { c.Trunks[1].Rate = -5 },
	} {
		cfg := line(1*Mbps, 0, 0, 1, 1)
		spoil(&cfg)
		if err := cfg.check(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
}

// On random trees packets take the way that the topology says.
func TestFromTopology(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		var switches []string
		var cables [][2]int
		for s := range 1 + rng.IntN(8) {
			switches = append(switches, fmt.Sprintf("s%d", s))
			if s > 0 {
				cables = append(cables, [2]int{s, rng.IntN(s)})
			}
		}
		hosts, home := []string{}, []int{}
		for h := range 1 + rng.IntN(12) {
			hosts, home = append(hosts, fmt.Sprintf("h%d", h)), append(home, rng.IntN(len(switches)))
		}
		topo, err := plan.NewTopology(switches, cables, hosts, home, netmap.BytesPerSec(10*Mbps))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		cfg, err := FromTopology(topo, 100*us)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		b := newLab(t, cfg)
		if len(b.hosts) != len(hosts) || len(b.pipes) != 2*len(cables) || b.links != 0 {
			t.Fatalf("seed %d: %d hosts and %d trunks of a tree of %d hosts and %d cables", seed, len(b.hosts), len(b.pipes), len(hosts), len(cables))
		}
		for i := range hosts {
			for j := range hosts {
				var got, want []string
				from, to := b.names[hosts[i]], b.names[hosts[j]]
				for _, p := range b.ways[from.siteIndex][to.siteIndex] {
					got = append(got, p.link.From, p.link.To)
				}
				for _, l := range topo.Path(nil, i, j) {
					if x, y := topo.Ends(l); x != hosts[i] && y != hosts[j] {
						want = append(want, x, y)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s → %s goes over %q, want %q", seed, hosts[i], hosts[j], got, want)
				}
			}
		}
	}
	bare, err := plan.NewTopology([]string{"s0"}, nil, []string{"h0"}, []int{0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FromTopology(bare, 0); err == nil || !strings.Contains(err.Error(), "bandwidth") {
		t.Errorf("a tree without bandwidth: %v", err)
	}
}
