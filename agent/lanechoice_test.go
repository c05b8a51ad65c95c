package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestChooseLane goes through the reasons, in the order in which they count.
func TestChooseLane(t *testing.T) {
	now := time.Now()
	failed, refused := laneRecord{err: "refused", retry: now.Add(time.Second)}, laneRecord{err: "refused", retry: now}
	slow, fast := laneRate{rate: 1 * netmap.Mbps, samples: 3}, laneRate{rate: 3 * netmap.Mbps, samples: 3}
	near, far := way{listens: true, rtt: time.Millisecond}, way{listens: true, rtt: 100 * time.Millisecond}
	lossy := way{listens: true, rtt: 100 * time.Millisecond, loss: 0.01, flow: 2 * netmap.Mbps, all: 200 * netmap.Mbps} // as the loss lets it
	wide := way{listens: true, rtt: 30 * time.Millisecond, flow: 90 * netmap.Mbps, all: 95 * netmap.Mbps}
	still := way{listens: true, rtt: 30 * time.Millisecond, flow: 50 * netmap.Mbps, all: 60 * netmap.Mbps}
	held, shared := lossy, lossy
	shared.pairs = 4
	held.flow = 0.5 * netmap.Mbps
	alike, most, ports := near, near, near
	alike.one, alike.pair = 10*netmap.Mbps, 60*netmap.Mbps
	most.one, most.pair = 10*netmap.Mbps, 15*netmap.Mbps
	ports.flow, ports.all, ports.one, ports.pair = 90*netmap.Mbps, 400*netmap.Mbps, 90*netmap.Mbps, 95*netmap.Mbps
	for _, c := range []struct {
		name, mode string
		noBBR      bool
		way        way
		history    laneHistory
		want, why  string
	}{
		{"quic is forced", LaneQUIC, false, near, laneHistory{}, "quic", "operator"},
		{"tcp is forced", LaneTCP, false, far, laneHistory{}, "tcp/bbr", "operator"},
		{"tcp is forced, and the kernel has no bbr", LaneTCP, true, far, laneHistory{}, "tcp", "operator"},
		{"tcp is forced, and the host is near", LaneTCP, false, near, laneHistory{}, "tcp", "operator"},
		{"forced, and nobody listens", LaneTCP, false, way{rtt: time.Millisecond}, laneHistory{}, "quic", "takes no TCP"},
		{"forced, and failed", LaneTCP, false, far, laneHistory{tcp: failed}, "quic", "TCP failed: refused"},
		{"near", LaneAuto, false, near, laneHistory{}, "tcp", "round trip of 1ms"},
		{"near, and each flow is held", LaneAuto, false, alike, laneHistory{}, "quic", "round trip of 1ms"},
		{"near, and several flows get somewhat more", LaneAuto, false, most, laneHistory{}, "tcp", "round trip of 1ms"},
		{"near, and several flows got much more", LaneAuto, false, most, laneHistory{several: true}, "quic", "round trip of 1ms"},
		{"near, and ports hold each pair", LaneAuto, false, ports, laneHistory{}, "tcp", "round trip of 1ms"},
		{"near, and nobody listens", LaneAuto, false, way{rtt: time.Millisecond}, laneHistory{}, "quic", "takes no TCP"},
		{"near, and TCP failed", LaneAuto, false, near, laneHistory{tcp: failed}, "quic", "TCP failed"},
		{"near, and both failed", LaneAuto, false, near, laneHistory{tcp: failed, quic: failed}, "quic", "TCP failed"},
		{"near, and TCP may be tried again", LaneAuto, false, near, laneHistory{tcp: refused}, "quic", "tried first"},
		{"near, QUIC failed, and TCP may be tried again", LaneAuto, false, near, laneHistory{tcp: refused, quic: failed}, "tcp", "round trip"},
		{"forced, and may be tried again", LaneTCP, true, far, laneHistory{tcp: refused}, "tcp", "operator"},
		{"lossy, and may be tried again", LaneAuto, false, lossy, laneHistory{tcp: refused}, "quic/bbr", "tried first"},
		{"stays near", LaneAuto, false, way{listens: true, rtt: 3 * time.Millisecond}, laneHistory{near: true}, "tcp", "round trip of 3ms"},
		{"was never near", LaneAuto, false, way{listens: true, rtt: 3 * time.Millisecond}, laneHistory{}, "quic", "round trip of 3ms"},
		{"not measured", LaneAuto, false, way{listens: true}, laneHistory{}, "quic", "not measured"},
		{"not measured, and QUIC failed", LaneAuto, false, way{listens: true}, laneHistory{quic: failed}, "tcp", "QUIC failed"},
		{"far", LaneAuto, false, far, laneHistory{}, "quic", "round trip of 100ms"},
		{"far, and QUIC failed", LaneAuto, false, far, laneHistory{quic: failed}, "tcp", "QUIC failed"},
		{"lossy", LaneAuto, false, lossy, laneHistory{}, "tcp/bbr", "loss of 1 %"},
		{"lossy, and the lanes of some pairs fill it", LaneAuto, false, shared, laneHistory{}, "quic", "round trip of 100ms"},
		{"lossy, but each flow is held to less", LaneAuto, false, held, laneHistory{}, "quic", "round trip of 100ms"},
		{"fast", LaneAuto, false, wide, laneHistory{}, "tcp", "cheaper"},
		{"fast, and QUIC is forced", LaneQUIC, false, wide, laneHistory{}, "quic", "operator"},
		{"fast, and TCP failed", LaneAuto, false, wide, laneHistory{tcp: failed}, "quic", "TCP failed"},
		{"not that fast", LaneAuto, false, still, laneHistory{}, "quic", "round trip of 30ms"},
		{"was fast, and is somewhat slower", LaneAuto, false, still, laneHistory{fast: true}, "tcp", "cheaper"},
		{"lossy without bbr", LaneAuto, true, lossy, laneHistory{}, "quic", "no bbr"},
	} {
		got := chooseLane(c.mode, !c.noBBR, c.way, &c.history, &linkHistory{through: true}, now)
		kind := got.kind
		if got.congestion != "" {
			kind += "/" + got.congestion
		}
		if kind != c.want || !strings.Contains(got.why, c.why) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, kind, got.why, c.want, c.why)
		}
	}
	for _, c := range []struct {
		name string
		link linkHistory
		want string
		why  string
	}{
		{"measured better", linkHistory{quic: slow, tcp: fast}, LaneTCP, "measured 3 Mbit/s"},
		{"measured worse", linkHistory{quic: fast, tcp: slow}, LaneQUIC, "measured 3 Mbit/s, TCP with bbr 1"},
		{"hardly measured", linkHistory{quic: fast, tcp: laneRate{rate: 1, samples: 2}}, LaneTCP, "loss of 1 %"},
	} {
		c.link.through = true
		if got := chooseLane(LaneAuto, true, lossy, new(laneHistory), &c.link, now); got.kind != c.want || !strings.Contains(got.why, c.why) {
			t.Errorf("lossy, and %s: %s (%s), want %s (%s)", c.name, got.kind, got.why, c.want, c.why)
		}
	}
}

// TestFastLink: TCP is for links that carry much, of which one flow gets much, and whose bytes under way its windows hold.
func TestFastLink(t *testing.T) {
	for _, c := range []struct {
		rtt       time.Duration
		flow, all netmap.BytesPerSec // Mbit/s
		was, want bool
	}{
		{30 * time.Millisecond, 90, 95, false, true},
		{100 * time.Millisecond, 90, 95, false, true},
		{100 * time.Millisecond, 900, 1000, false, false}, // 12.5 MB under way
		{16 * time.Millisecond, 900, 1000, false, true},
		{30 * time.Millisecond, 900, 1000, false, false},
		{30 * time.Millisecond, 900, 1000, true, true},
		{30 * time.Millisecond, 46.86, 95.4, false, true}, // one of two flows through a port
		{30 * time.Millisecond, 35, 95, false, false},     // something holds each flow
		{30 * time.Millisecond, 35, 95, true, true},
		{30 * time.Millisecond, 25, 95, true, false},
		{30 * time.Millisecond, 18, 20, false, false},
		{30 * time.Millisecond, 60, 60, false, false},
		{30 * time.Millisecond, 60, 60, true, true},
		{30 * time.Millisecond, 35, 35, true, false},
		{30 * time.Millisecond, 90, 0, false, false}, // nobody knows what it carries
		{0, 90, 95, false, false},
	} {
		w := way{listens: true, rtt: c.rtt, flow: c.flow * netmap.Mbps, all: c.all * netmap.Mbps}
		if got := w.fast(c.was); got != c.want {
			t.Errorf("%+v, was %v: %v, want %v", w, c.was, got, c.want)
		}
	}
	fast := way{listens: true, rtt: 16 * time.Millisecond, flow: 900 * netmap.Mbps, all: 1000 * netmap.Mbps}
	l := &linkHistory{through: true, quic: laneRate{rate: 300 * netmap.Mbps, samples: 3}, tcp: laneRate{rate: 100 * netmap.Mbps, samples: 3}}
	if got := chooseLane(LaneAuto, true, fast, new(laneHistory), l, time.Now()); got.kind != LaneQUIC || !strings.Contains(got.why, "TCP 100") {
		t.Errorf("TCP measured worse: %s (%s), want %s", got.kind, got.why, LaneQUIC)
	}
}

// TestTriesTCP: fast links and lossy ones are left to QUIC until a connection over TCP has been made to one of the site's hosts.
func TestTriesTCP(t *testing.T) {
	t.Run("fast", func(t *testing.T) {
		testTriesTCP(t, way{listens: true, rtt: 30 * time.Millisecond, flow: 90 * netmap.Mbps, all: 95 * netmap.Mbps}, "cheaper")
	})
	t.Run("lossy", func(t *testing.T) {
		testTriesTCP(t, way{listens: true, rtt: 100 * time.Millisecond, loss: 0.01, flow: 2 * netmap.Mbps, all: 200 * netmap.Mbps}, "loss of 1 %")
	})
}

func testTriesTCP(t *testing.T, w way, why string) {
	synctest.Test(t, func(t *testing.T) {
		l := &laneChooser{mode: LaneAuto, bbr: true, site: func(host string) string { return host[:1] }, log: slog.New(slog.DiscardHandler),
			way: func(string) way { return w }}
		want := func(host, kind string, try bool, why string) {
			t.Helper()
			if c, _ := l.choice(host); c.kind != kind || c.try != try || !strings.Contains(c.why, why) {
				t.Errorf("%s after %v: %+v, want %s, try %v, because %q", host, time.Now(), c, kind, try, why)
			}
		}
		want("b1", LaneQUIC, true, "tried first")
		l.tried("b1", errors.New("no connection"))
		want("b2", LaneQUIC, false, "does not get through: no connection")
		want("c1", LaneQUIC, true, "tried first")
		time.Sleep(firstRetry)
		want("b2", LaneQUIC, true, "tried first")
		l.tried("b2", errors.New("no connection"))
		time.Sleep(firstRetry)
		want("b1", LaneQUIC, false, "does not get through") // the second pause is longer
		time.Sleep(firstRetry)
		want("b1", LaneQUIC, true, "tried first")
		l.tried("b1", nil)
		want("b1", LaneTCP, false, why)
		want("b2", LaneTCP, false, why)
		want("c1", LaneQUIC, true, "tried first")
	})
}

// TestLinkDecides: pairs of the same two sites choose alike, whatever chance each of them has met.
func TestLinkDecides(t *testing.T) {
	now := time.Now()
	lossy := link{losses: losses{of: 10_000, lost: 200}, flow: 1.4 * netmap.Mbps, all: 100 * netmap.Mbps} // 2 %, and what that leaves of a flow
	held := link{losses: losses{of: 10_000, lost: 20}, flow: 1 * netmap.Mbps}                             // 0.2 % would leave 4.5 Mbit/s
	few := link{losses: losses{of: 100, lost: 2}}                                                         // says nothing yet
	pairs := map[string]way{
		"no losses":   {listens: true, rtt: 100 * time.Millisecond, flow: 15 * netmap.Mbps},
		"many losses": {listens: true, rtt: 100 * time.Millisecond, loss: 0.05, flow: 0.2 * netmap.Mbps},
		"unknown":     {listens: true, rtt: 100 * time.Millisecond},
	}
	for name, w := range pairs {
		for _, c := range []struct {
			name string
			link link
			want string
		}{{"lossy", lossy, LaneTCP}, {"held", held, LaneQUIC}} {
			if got := chooseLane(LaneAuto, true, w.of(c.link), new(laneHistory), &linkHistory{through: true}, now); got.kind != c.want {
				t.Errorf("a pair with %s on a link that is %s: %s (%s), want %s", name, c.name, got.kind, got.why, c.want)
			}
		}
		if got := w.of(few); got != w {
			t.Errorf("a pair with %s: %+v after two losses of others, was %+v", name, got, w)
		}
	}
}

// TestTunnelLanes: where UDP is blocked it takes fewer flows for losses to matter.
func TestTunnelLanes(t *testing.T) {
	w := way{listens: true, rtt: 100 * time.Millisecond, loss: 0.02, flow: 1.4 * netmap.Mbps, all: 20 * netmap.Mbps} // 17 flows
	for tunnel, want := range map[bool]string{false: LaneQUIC, true: LaneTCP} {
		w.tunnel = tunnel
		got := chooseLane(LaneAuto, true, w, new(laneHistory), &linkHistory{through: true}, time.Now())
		if got.kind != want || tunnel && got.congestion != lossless {
			t.Errorf("tunnel %v: %+v, want %s", tunnel, got, want)
		}
	}
}

// TestHeldByLoss: losses matter where it takes many flows to fill the link, however few they are.
func TestHeldByLoss(t *testing.T) {
	for _, c := range []struct {
		rtt       time.Duration
		loss      float64
		flow, all netmap.BytesPerSec // Mbit/s
		lanes     int
		want      bool
	}{
		{100 * time.Millisecond, 0.02, 1.4, 100, 63, true},
		{100 * time.Millisecond, 0.02, 1.4, 50, 63, false}, // 42 flows fill it
		{100 * time.Millisecond, 0.02, 1.4, 50, 10, true},
		{100 * time.Millisecond, 0.02, 1.4, 100, 126, false},
		{100 * time.Millisecond, 0.02, 1.4, 0, 10, false}, // nobody knows what it carries
		{100 * time.Millisecond, 0.02, 1.4, 5, 10, false},
		{100 * time.Millisecond, 0.001, 5, 500, 63, true},
		{152 * time.Millisecond, 0.00077, 4.75, 20, 10, false}, // five flows fill it
		{152 * time.Millisecond, 0.00077, 4.75, 0, 10, false},
		{152 * time.Millisecond, 0.00077, 4.75, 300, 63, true},
		{100 * time.Millisecond, 0.002, 0.1, 300, 63, false}, // something holds each flow to less
		{100 * time.Millisecond, 0.002, 0, 300, 63, false},
		{100 * time.Millisecond, 0, 100, 100, 10, false},
	} {
		w := way{listens: true, rtt: c.rtt, loss: c.loss, flow: c.flow * netmap.Mbps, all: c.all * netmap.Mbps}
		if got := w.heldByLoss(c.lanes); got != c.want {
			t.Errorf("%+v: %v, want %v", w, got, c.want)
		}
		young := way{listens: true, rtt: c.rtt, loss: c.loss, flow: w.flow}.of(link{read: w.all})
		if got := young.heldByLoss(c.lanes); got != c.want {
			t.Errorf("%+v, of which only trains tell: %v, want %v", young, got, c.want)
		}
	}
}

// TestLaneRatesOfASite: what hosts of one site get counts together, as they share a link.
func TestLaneRatesOfASite(t *testing.T) {
	l := &laneChooser{mode: LaneAuto, bbr: true, site: func(host string) string { return host[:1] }, log: slog.New(slog.DiscardHandler),
		way: func(string) way {
			return way{listens: true, rtt: 100 * time.Millisecond, loss: 0.01, flow: 2 * netmap.Mbps, all: 200 * netmap.Mbps}
		}}
	see := func(host, kind string, rate netmap.BytesPerSec) {
		l.mu.Lock()
		l.history(host).last = kind
		l.mu.Unlock()
		l.observe(exchange.Sample{Peer: host, Bytes: int64(rate), Duration: time.Second, Limit: exchange.Network})
	}
	l.tried("b1", nil)
	l.tried("c1", nil)
	for i, host := range []string{"b1", "b2", "b3"} {
		see(host, LaneQUIC, 8*netmap.Mbps)
		if c, _ := l.choice("b9"); c.kind != LaneTCP {
			t.Fatalf("after %d samples of QUIC alone: %s (%s)", i+1, c.kind, c.why)
		}
		see(host, LaneTCP, netmap.Mbps)
	}
	if c, _ := l.choice("b9"); c.kind != LaneQUIC {
		t.Errorf("TCP gets an eighth at the site: %s (%s), want QUIC", c.kind, c.why)
	}
	if c, _ := l.choice("c1"); c.kind != LaneTCP {
		t.Errorf("another site: %s (%s), want TCP", c.kind, c.why)
	}
}

// TestLaneChooserFallsBack: a kind that fails is passed over at once, tried again later, and later each time.
func TestLaneChooserFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tried []string
		var tcpErr, quicErr error
		l := &laneChooser{
			mode: LaneAuto, log: slog.New(slog.DiscardHandler),
			quic: func(context.Context, string, int) (exchange.Stream, error) {
				tried = append(tried, "quic")
				return nil, quicErr
			},
			tcp: func(ctx context.Context, _, _ string) (exchange.Stream, error) {
				tried = append(tried, "tcp")
				if tcpErr == nil {
					<-ctx.Done() // a firewall that drops
					return nil, context.Cause(ctx)
				}
				return nil, tcpErr
			},
			way: func(string) way { return way{listens: true, rtt: time.Millisecond} },
		}
		want := func(err error, words string) {
			t.Helper()
			tried = nil
			if _, got := l.open(t.Context(), "b", 0); !errors.Is(got, err) {
				t.Errorf("at %v: error %v, want %v", time.Now(), got, err)
			}
			if got := strings.Join(tried, " "); got != words {
				t.Errorf("at %v: tried %s, want %s", time.Now(), got, words)
			}
		}
		began := time.Now()
		want(nil, "tcp quic")
		if d := time.Since(began); d < tcpPatience || d > 2*tcpPatience {
			t.Errorf("TCP was given %v, want %v", d, tcpPatience)
		}
		want(nil, "quic")
		// Beside the exchanges it is tried again; they do not wait for it any more.
		tries := func(want bool) {
			t.Helper()
			if c, _ := l.choice("b"); c.try != want {
				t.Errorf("at %v: %+v, want try %v", time.Now(), c, want)
			}
		}
		for pause := firstRetry; pause <= 4*firstRetry; pause *= 2 {
			time.Sleep(pause - time.Second)
			tries(false)
			time.Sleep(time.Second)
			tries(true)
			want(nil, "quic")
			l.tried("b", errors.New("no connection"))
		}
		quicErr = errors.New("no answer")
		want(quicErr, "quic")
		want(quicErr, "quic") // both are down: nothing else is left to try
		time.Sleep(8 * firstRetry)
		l.tried("b", nil)
		tries(false)
		tcpErr = errors.New("refused")
		want(quicErr, "tcp quic")
		want(quicErr, "quic")
		// What was chosen stays for a while, whatever is measured meanwhile, and no longer because it is in use.
		l.peers, tcpErr, quicErr = nil, errors.New("refused"), nil
		l.way = func(string) way { return way{listens: true, rtt: 50 * time.Millisecond} }
		want(nil, "quic")
		l.way = func(string) way { return way{listens: true, rtt: time.Millisecond} }
		for range 3 {
			time.Sleep(holds/3 - time.Second)
			want(nil, "quic")
		}
		time.Sleep(4 * time.Second)
		want(nil, "tcp quic")
		// A call that was given up says nothing of the way.
		l.way = func(string) way { return way{listens: true, rtt: 50 * time.Millisecond} }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if l.open(ctx, "c", 0); l.peers["c"].quic.err != "" {
			t.Error("an open that was cancelled counts as a failure of QUIC")
		}
	})
}

// TestLaneKinds runs exchanges of two hosts over loopback and looks where the bytes went.
func TestLaneKinds(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want string // kind that a chooses
	}{
		{"", "", LaneTCP}, {LaneQUIC, "", LaneQUIC}, {"", LaneQUIC, LaneQUIC}, {LaneTCP, LaneTCP, LaneTCP},
	} {
		t.Run(fmt.Sprintf("%s-%s", c.a, c.b), func(t *testing.T) {
			t.Parallel()
			first := newCluster(t, "a")
			a := startHost(t, first, func(o *Options) { o.Lane = c.a })
			b := startHost(t, admit(t, first, "b"), func(o *Options) { o.Lane = c.b }, a)
			waitMembers(t, a, b)
			eventually(t, 30*time.Second, "lane to b", func() error {
				if got, w := a.lanes.choice("b"); got.kind != c.want || w.rtt == 0 {
					return fmt.Errorf("over %s: %s", got.kind, got.why)
				}
				if got, w := b.lanes.choice("a"); got.kind != c.want || w.rtt == 0 {
					return fmt.Errorf("back over %s: %s", got.kind, got.why)
				}
				return nil
			})
			blocks := randomBlocks(7, 300_000, 400_000)
			for r, g := range gather(t, "job", []*testHost{a, b}, blocks, client.Options{}) {
				if g.err != nil || !bytes.Equal(g.data, bytes.Join(blocks, nil)) {
					t.Errorf("rank %d: %d bytes, %v", r, len(g.data), g.err)
				}
			}
			over := a.endpoint.TCPTraffic("b")
			if c.want == LaneTCP && (over.Sent < 300_000 || over.Received < 400_000 || over.Conns == 0) {
				t.Errorf("%+v went over TCP, want all", over)
			}
			if c.want == LaneQUIC && over != (a.endpoint.TCPTraffic("nobody")) {
				t.Errorf("%+v went over TCP, want nothing", over)
			}
		})
	}
}
