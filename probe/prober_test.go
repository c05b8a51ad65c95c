package probe

import (
	"context"
	"errors"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestThreeSites is the whole of it on the grid of Gupta & Vadhiyar (HPDC 2007), Tables
// 1 and 2: 20 hosts that start at once.
func TestThreeSites(t *testing.T) {
	if gridtest.Race {
		t.Skip("20 hosts for minutes take a minute of CPU with the race detector")
	}
	cfg := gridtest.ThreeSites()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		total := func(m map[siteLink]int) (sum int) {
			for _, k := range m {
				sum += k
			}
			return sum
		}
		w.run(ms, true, func(context.Context) {
			until := func(at time.Duration) map[siteLink]int {
				time.Sleep(at - time.Since(w.start))
				known := w.pairs(netmap.FieldBandwidth)
				t.Logf("%v: %d of 380 latencies, %d of 380 bandwidths, %v", at, total(w.pairs(netmap.FieldLatency)), total(known), known)
				return known
			}
			known := until(10 * time.Second)
			// Pings and handshakes that meet the queue of a glance are lost, and sent again after seconds: all 380 in 169 of 173 runs, 378 in three, and
			// 338 in one in which a host's two pingers waited so, with 2 pairs of UT→NTH measured and 36 inside NTH.
			if got := total(w.pairs(netmap.FieldLatency)); got < 300 {
				t.Errorf("%d of 380 latencies after 10 s", got)
			}
			for _, l := range cfg.Links {
				if got := known[siteLink{l.From, l.To}]; got < 2 { // 4 to 14 in 150 other runs
					t.Errorf("%s→%s: %d pairs measured after 10 s, want 2", l.From, l.To, got)
				}
			}
			for site, want := range map[string]int{"UT": 56, "UK": 12, "NTH": 56} {
				if got := known[siteLink{site, site}]; got < want/2 { // hosts that glance at links to other sites miss a turn or two: 43 to 56 of 56
					t.Errorf("inside %s: %d of %d pairs measured after 10 s", site, got, want)
				}
			}
			// A host that takes part in one long probe after the other has no slot for its last pairs: one pair of 380 was late in 2 of 150 runs.
			if got := total(until(60 * time.Second)); got < 376 {
				t.Errorf("%d of 380 bandwidths after 60 s", got)
			}
			if got := total(w.pairs(netmap.FieldLatency)); got != 380 {
				t.Errorf("%d of 380 latencies after 60 s", got)
			}
			if got := total(until(90 * time.Second)); got != 380 {
				t.Errorf("%d of 380 bandwidths after 90 s", got)
			}
			// A pair is pinged every half minute, and may have met a bulk probe's queue twice before.
			w.checkAccuracy(cfg)

			// From when the burst is spent on, trains keep to 1 % of each link.
			until(2 * time.Minute)
			before := w.bytes()
			t.Log("trains, bytes in 2 min:", before)
			const later = 3 * time.Minute
			until(2*time.Minute + later)
			after := w.bytes()
			for _, l := range cfg.Links {
				k := siteLink{l.From, l.To}
				most := 0.01*float64(truth(l.Rate))*later.Seconds() + firstTrain*trainPayload
				if got := float64(after[k] - before[k]); got > most {
					t.Errorf("%v carried %.0f bytes of trains in %v, want at most %.0f", k, got, later, most)
				}
			}
			t.Log("trains, bytes in 5 min:", after)
		})
		for r, k := range w.clash {
			t.Errorf("%d trains met others on %s", k, r)
		}
		st := n.Stats()
		for _, l := range cfg.Links {
			s, _ := st.Link(l.From, l.To)
			t.Logf("%s→%s carried %d bytes in all, %.2f %%", l.From, l.To, s.Delivered.Bytes,
				100*float64(s.Delivered.Bytes)/float64(l.Rate)/time.Since(w.start).Seconds())
		}
		var sum Stats
		for _, m := range ms {
			s := m.prober.Stats()
			sum = Stats{sum.Pings + s.Pings, sum.Sessions + s.Sessions, sum.Served + s.Served, sum.Refused + s.Refused,
				sum.Declined + s.Declined, sum.Failed + s.Failed, sum.Invalid + s.Invalid, sum.Strays + s.Strays, sum.Bulks + s.Bulks, sum.Bytes + s.Bytes}
		}
		t.Logf("%+v", sum)
		if sum.Invalid != 0 || sum.Strays != 0 || sum.Sessions < 380 {
			t.Errorf("%+v", sum)
		}
	})
}

func (w *world) bytes() map[siteLink]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := make(map[siteLink]int64, len(w.sent))
	for k, v := range w.sent {
		m[k] = v
	}
	return m
}

// checkAccuracy compares the map with the emulated truth.
func (w *world) checkAccuracy(cfg gridnet.Config) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var worst float64
	var worstRTT time.Duration
	// A pair has been measured once, and now and then something else is on the link just then:
	// in 3 of 24 runs one pair of 380 was off, by 10 to 21 %, and once in CI by 28 %. One is let pass.
	disturbed := 0
	for k, e := range w.est {
		from, to := w.site(k[0]), w.site(k[1])
		var rate gridnet.Rate
		var latency time.Duration
		for _, l := range cfg.Links {
			if l.From == from && l.To == to {
				rate, latency = l.Rate, l.Latency
			}
		}
		for _, s := range cfg.Sites {
			if s.Name == from && from == to {
				rate, latency = s.Rate, s.Latency
			}
		}
		off := math.Abs(float64(e.Bandwidth/truth(rate)) - 1)
		if off > 0.05 {
			w.t.Logf("%v: off by %.0f %%: %+v", k, 100*off, e)
		}
		worst = max(worst, off)
		// A link's first bulk probe may meet the last of the first trains, and its like borrow what it read.
		const tolerance = 0.08
		if off > tolerance {
			disturbed++
			if disturbed > 1 || off > 0.35 {
				w.t.Errorf("%v: %.3f Mbit/s, want %.3f", k, e.Bandwidth.Mbps(), truth(rate).Mbps())
			}
		}
		late := (e.Latency - latency).Abs()
		worstRTT = max(worstRTT, 2*late)
		ser := time.Duration(140 * float64(time.Second) / float64(rate) / 2) // ping and answer take 70 bytes each
		if late > max(latency/33, 500*time.Microsecond)+ser {
			w.t.Errorf("%v: latency %v, want %v", k, e.Latency, latency)
		}
	}
	w.t.Logf("worst error of bandwidth %.2f %%, of round trip %v", 100*worst, worstRTT)
}

// small is a grid of three sites of two hosts with fast handshakes.
func small() gridnet.Config {
	cfg := gridnet.Config{}
	for _, s := range []string{"a", "b", "c"} {
		cfg.Sites = append(cfg.Sites, gridnet.Site{Name: s, Hosts: gridtest.Hosts(s, 2), Rate: 100 * gridnet.Mbps, Latency: 50 * time.Microsecond})
		for _, d := range []string{"a", "b", "c"} {
			if d != s {
				cfg.Links = append(cfg.Links, gridnet.Link{From: s, To: d, Rate: 10 * gridnet.Mbps, Latency: 10 * time.Millisecond})
			}
		}
	}
	return cfg
}

// While an exchange runs nothing is sent or granted; afterwards all is measured.
func TestProbesYieldToExchanges(t *testing.T) {
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var busy, one atomic.Bool // all hosts, host b0
		busy.Store(true)
		one.Store(true)
		ms := w.joinAll(n, cfg, func(c *Config) {
			name := c.Self.Name
			c.Busy = func() bool { return busy.Load() || name == "b0" && one.Load() }
		})
		measured := func() (sum int) {
			for _, k := range w.pairs(netmap.FieldBandwidth) {
				sum += k
			}
			return sum
		}
		w.run(ms, true, func(ctx context.Context) {
			time.Sleep(20 * time.Second)
			if b := w.bytes(); len(b) != 0 {
				t.Errorf("trains during an exchange: %v", b)
			}
			if got := len(w.est); got != 30 {
				t.Errorf("%d of 30 pairs have a latency: pings are small enough to go on", got)
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var b *BusyError
			if _, err := ms[0].prober.ProbeOnce(short, ms[1].peer, KindBandwidth, nil); !errors.As(err, &b) {
				t.Errorf("an operator's probe during an exchange: %v", err)
			}
			busy.Store(false)
			time.Sleep(20 * time.Second)
			// b0 keeps the links of its site, which its exchange uses: 4 pairs from b1
			// across are left alone besides its own 10.
			if got := measured(); got != 16 {
				t.Errorf("%d bandwidths while b0 is busy, want those of 16 pairs", got)
			}
			if w.past["b0"] != nil {
				t.Error("trains reached b0")
			}
			one.Store(false)
			time.Sleep(20 * time.Second)
			if got := measured(); got != 30 {
				t.Errorf("%d of 30 bandwidths 20 s after the exchange", got)
			}
		})
	})
}

// While small operations follow one another no trains begin that can wait; afterwards they go on.
func TestTrainsYieldToSmallOperations(t *testing.T) {
	if gridtest.Race {
		t.Skip("a world of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var hurried atomic.Bool
		ms := w.joinAll(n, cfg, func(c *Config) { c.Hurried = hurried.Load })
		trains := func() (sum int64) {
			for _, b := range w.bytes() {
				sum += b
			}
			return sum
		}
		w.run(ms, true, func(context.Context) {
			time.Sleep(time.Minute)
			hurried.Store(true)
			time.Sleep(5 * time.Second) // what was under way
			before := trains()
			time.Sleep(2 * time.Minute)
			if got := trains(); got != before || before == 0 {
				t.Errorf("%d bytes of trains in two minutes of small operations, %d before", got-before, before)
			}
			hurried.Store(false)
			time.Sleep(2 * time.Minute)
			if got := trains(); got == before {
				t.Error("no trains in the two minutes after small operations")
			}
		})
	})
}

// The keeper of a site is cut off, but the membership has not noticed. The other host
// of the site still measures its links, and nobody waits for ever.
func TestSilentKeeper(t *testing.T) {
	if gridtest.Race {
		t.Skip("a world of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		if err := n.CutHost("a0"); err != nil {
			t.Fatal(err)
		}
		w.run(ms, true, func(context.Context) {
			time.Sleep(3 * time.Minute)
			for _, to := range []string{"b0", "b1", "c0", "c1"} {
				if e, ok := w.known("a1", to); !ok || !e.Has(netmap.FieldBandwidth) {
					t.Errorf("a1→%s is not measured", to)
				}
			}
			if e, ok := w.known("a1", "a0"); ok {
				t.Errorf("a1→a0, which is cut off, is known: %+v", e)
			}
		})
		if f := ms[1].prober.Stats().Failed; f == 0 {
			t.Error("no failure was counted")
		}
	})
}

// Hosts without a label share nothing that is known, and are measured all the same.
// One host, and hosts that come later, are no special cases.
func TestUnlabelledHosts(t *testing.T) {
	cfg := small()
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		var shown atomic.Int32
		shown.Store(1)
		ms := w.joinAll(n, cfg, func(c *Config) {
			c.Self.Site = ""
			c.Peers = func() []Peer {
				var ps []Peer
				for _, p := range w.peers[:shown.Load()] {
					ps = append(ps, Peer{Name: p.Name})
				}
				return ps
			}
		})
		w.run(ms, true, func(context.Context) {
			time.Sleep(20 * time.Second)
			for k := range w.pairs(netmap.FieldBandwidth) {
				if k.from == "" {
					t.Error("a host that is no member yet was measured")
				}
			}
			shown.Store(int32(len(w.peers)))
			time.Sleep(30 * time.Second)
			sum := 0
			for _, k := range w.pairs(netmap.FieldBandwidth) {
				sum += k
			}
			if sum != 30 {
				t.Errorf("%d of 30 bandwidths", sum)
			}
		})
	})
}

// A link that falls to a quarter is read so after two more trains.
func TestChangedLink(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 10 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		w.run(ms, false, func(ctx context.Context) {
			read := func() float64 {
				e, err := ms[0].prober.train(ctx, ms[1].peer)
				if err != nil {
					t.Fatal(err)
				}
				return float64(e.Bandwidth / truth(20*gridnet.Mbps))
			}
			for range 3 {
				read()
			}
			if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
				t.Fatal(err)
			}
			read()
			if got := read(); math.Abs(got-0.25) > 0.02 {
				t.Errorf("reads %.2f of the old rate, want 0.25", got)
			}
		})
	})
}

// Over real sockets the answer need not be exact, but it must come, be finite and
// say how far it can be trusted.
func TestLoopback(t *testing.T) {
	w := newWorld(t)
	var ms []*member
	for _, name := range []string{"l0", "l1"} {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Skip("no loopback:", err)
		}
		ms = append(ms, w.join(conn, Peer{Name: name, Site: "here"}, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	for _, m := range ms {
		go func() { done <- m.endpoint.Run(ctx) }()
	}
	got := 0
	for range 5 {
		e, err := ms[0].prober.train(ctx, ms[1].peer)
		if err != nil {
			t.Log(err) // a loaded machine may lose a train
			continue
		}
		got++
		t.Logf("%.0f Mbit/s, spread %.2f", e.Bandwidth.Mbps(), e.Spread)
		if mbps := e.Bandwidth.Mbps(); !(mbps > 1 && mbps < 1e6) {
			t.Errorf("%g Mbit/s on loopback", mbps)
		}
	}
	if got == 0 {
		t.Error("no train of 5 gave a rate")
	}
	a, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindRTT, nil)
	if err != nil || a.RTT <= 0 || a.RTT > time.Second {
		t.Errorf("round trip %v, %v", a.RTT, err)
	}
	t.Logf("round trip %v, %+v", a.RTT, ms[0].prober.Stats())
	cancel()
	for range ms {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := func() Config {
		return Config{
			Self: Peer{Name: "a"}, Peers: func() []Peer { return nil }, Endpoint: &spy{},
			Record: func(string, string, netmap.Estimate) {},
		}
	}
	c := good()
	if err := c.complete(); err != nil || c.Interval != time.Minute || c.Share != 0.01 {
		t.Errorf("defaults: %+v, %v", c, err)
	}
	// The numbers alone, as a command line has them: 0 stands for the defaults, which are good.
	if err := (Config{}).Check(); err != nil {
		t.Error(err)
	}
	if err := (Config{Share: 0.5}).Check(); err == nil || !strings.Contains(err.Error(), "0.5") {
		t.Errorf("%v, want an error that says 0.5", err)
	}
	tests := []struct {
		change func(*Config)
		quotes string
	}{
		{func(c *Config) { c.Self.Name = "" }, "name"},
		{func(c *Config) { c.Record = nil }, "record"},
		{func(c *Config) { c.RTTInterval = time.Millisecond }, "1ms"},
		{func(c *Config) { c.RTTInterval = -time.Hour }, "-1h0m0s"},
		{func(c *Config) { c.Interval = time.Second }, "1s"},
		{func(c *Config) { c.Share = 0.5 }, "0.5"},
		{func(c *Config) { c.Share = math.NaN() }, "NaN"},
		{func(c *Config) { c.HostBurst = 7 }, "7"},
	}
	for _, tt := range tests {
		c := good()
		tt.change(&c)
		if err := c.complete(); err == nil || !strings.Contains(err.Error(), tt.quotes) {
			t.Errorf("%v, want an error that says %q", err, tt.quotes)
		}
	}
}
