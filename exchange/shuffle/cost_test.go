package shuffle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// packet is the payload of a packet in the paper's measurements, in bytes (§4).
const packet = 1492

// table1 is Table 1 of the paper for p hosts on the input-buffered switch 326 (base
// 149 µs, slope 0.3387) or the shared-buffered 416 (264, 0.3413). The table writes L
// as a function of p without a word on it; p is the number of hosts everywhere else.
func table1(base, slope float64, p int) CostModel {
	us := func(v float64) time.Duration { return time.Duration(math.Round(v * 1000)) }
	return CostModel{Os: us(12.5), Gs: us(122), Gr: us(123), Or: us(20), Ur: us(7), L: us(base + float64(slope*float64(p)))}
}

// TestTable1 works the formulas out by hand for the cluster of the paper: p = 16 and, as
// in §4.3, fan-out 5. Tw is 12.5 + 154.4192 − 123 + 20 + 7 = 70.9192 µs on the 326 and
// 185.9608 µs on the 416; a slot of k packets takes k·123 µs.
func TestTable1(t *testing.T) {
	const p, fanout = 16, 5
	m326, m416 := table1(149, 0.3387, p), table1(264, 0.3413, p)
	tests := []struct {
		name string
		got  time.Duration
		want float64 // µs
	}{
		{"message of 1", m326.Optimum(2, 1), 12.5 + 154.4192 + 20 + 7},
		{"message of 4", m326.Optimum(2, 4), 4*123 + 70.9192},
		{"optimum, 4", m326.Optimum(p, 4), 7380 + 70.9192},
		{"sync-shuffle, 4", m326.Synchronous(p, 4), 7380 + 70.9192},
		{"group-shuffle, 4", m326.Group(p, 4, fanout), 7380 + 3*70.9192},
		{"pairwise, 4", m326.Pairwise(p, 4), 7380 + 15*70.9192},
		{"shift, 4", m326.Shift(p, 4), 7380 + 15*70.9192},
		{"sync-shuffle, 768", m326.Synchronous(p, 768), 1416960 + 70.9192},
		{"group-shuffle on the 416, 4", m416.Group(p, 4, fanout), 7380 + 3*185.9608},
		{"shift on the 416, 768", m416.Shift(p, 768), 1416960 + 15*185.9608},
		{"fan-out 4 of 15: four rounds", m326.Group(p, 4, 4), 7380 + 4*70.9192},
		{"15 hosts: 15 slots, three rounds", table1(149, 0, 15).Group(15, 4, fanout), 7380 + 3*65.5},
	}
	for _, tt := range tests {
		if got := float64(tt.got) / 1000; math.Abs(got-tt.want) > 0.02 { // L is a whole number of ns here
			t.Errorf("%s: %.4f µs, want %.4f", tt.name, got, tt.want)
		}
	}
}

// TestPaperClaims checks what the text says in numbers against the model.
func TestPaperClaims(t *testing.T) {
	m := table1(149, 0.3387, 16)
	// §3: (Os + Or + Ur) < g < L.
	if o, g := m.Os+m.Or+m.Ur, max(m.Gs, m.Gr); o >= g || g >= m.L {
		t.Errorf("overheads %v, gap %v, latency %v", o, g, m.L)
	}
	// §4.3: 512 packets are 746 KB and 2304 are 3357 KB: payload, in units of 1024 bytes.
	for k, kb := range map[int64]int64{512: 746, 2304: 3357} {
		if got := k * packet / 1024; got != kb {
			t.Errorf("%d packets are %d KB, want %d", k, got, kb)
		}
	}
	// Abstract: the synchronous shuffle reaches 97 % of the bandwidth. Of 100 Mbit/s, that is
	// what the gap leaves: the model gives it for the longest messages of figure 2.
	const p, k = 16, 768
	bits := 8 * float64(packet*k*(p-1))
	if share := bits / m.Synchronous(p, k).Seconds() / 100e6; math.Abs(share-0.97) > 0.005 {
		t.Errorf("synchronous shuffle: %.1f %% of 100 Mbit/s, want 97", 100*share)
	}
	// §4.1: short messages suffer in shift and pairwise, long ones hardly.
	if short := float64(m.Shift(p, 4)) / float64(m.Synchronous(p, 4)); short < 1.13 {
		t.Errorf("shift takes %.3f times as long as synchronous shuffle for 4 packets", short)
	}
	if long := float64(m.Shift(p, 768)) / float64(m.Synchronous(p, 768)); long > 1.001 {
		t.Errorf("shift takes %.4f times as long as synchronous shuffle for 768 packets", long)
	}
	// §4.2: the higher latency of store and forward shows in short messages of group shuffle more than of synchronous shuffle.
	slow := table1(264, 0.3413, 16)
	if g, s := slow.Group(p, 4, 5)-m.Group(p, 4, 5), slow.Synchronous(p, 4)-m.Synchronous(p, 4); g != 3*s {
		t.Errorf("the slower switch costs %v and %v", g, s)
	}
}

// TestCostRelations: what §3 derives, over all p and fan-outs.
func TestCostRelations(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		// In the assumption Os + Or + Ur < g < L.
		g := time.Duration(1000 + rng.IntN(1e6))
		m := CostModel{Gs: g, Gr: g - time.Duration(rng.IntN(1000)), L: g + 1 + time.Duration(rng.IntN(1e6))}
		m.Os, m.Or, m.Ur = g/4, g/5, g/6
		p, k := 2+rng.IntN(100), 1+rng.Int64N(2000)
		message := m.Optimum(2, k)
		opt, shift, pair := m.Optimum(p, k), m.Shift(p, k), m.Pairwise(p, k)
		if m.Synchronous(p, k) != opt {
			t.Fatalf("seed %d: synchronous %v, optimum %v", seed, m.Synchronous(p, k), opt)
		}
		if shift != time.Duration(p-1)*message {
			t.Fatalf("seed %d: shift %v, %d messages of %v", seed, shift, p-1, message)
		}
		if odd := time.Duration(p%2) * message; pair != shift+odd {
			t.Fatalf("seed %d: p=%d pairwise %v, shift %v", seed, p, pair, shift)
		}
		last := pair
		for w := 1; w <= p+1; w++ {
			got := m.Group(p, k, w)
			if got > last || got < opt {
				t.Fatalf("seed %d: p=%d fan-out %d: %v, one less %v, optimum %v", seed, p, w, got, last, opt)
			}
			// Equation 5 under its assumption.
			if p%2 == 0 && (p-1)%w == 0 {
				n := time.Duration(p - 1)
				if want := n / time.Duration(w) * (m.Os + time.Duration(k)*g*time.Duration(w) + m.L - g + m.Or + m.Ur); got != want {
					t.Fatalf("seed %d: p=%d fan-out %d: %v, equation 5 gives %v", seed, p, w, got, want)
				}
			}
			last = got
		}
		if p%2 == 0 && last != opt {
			t.Fatalf("seed %d: p=%d: one round takes %v, the optimum is %v", seed, p, last, opt)
		}
	}
}

func TestCostEdges(t *testing.T) {
	m := table1(149, 0.3387, 2)
	for _, p := range []int{-1, 0, 1} {
		if a, b, c, d := m.Optimum(p, 5), m.Shift(p, 5), m.Pairwise(p, 5), m.Group(p, 5, 3); a+b+c+d != 0 {
			t.Errorf("p=%d: %v %v %v %v", p, a, b, c, d)
		}
	}
	if got := m.Shift(9, 0) + m.Optimum(2, -1); got != 0 {
		t.Errorf("no packets take %v", got)
	}
	if a, b := m.Shift(2, 7), m.Optimum(2, 7); a != b || m.Pairwise(2, 7) != b || m.Group(2, 7, 9) != b || m.Group(2, 7, 0) != b {
		t.Errorf("two hosts: %v, one message: %v", a, b)
	}
	if got := m.Shift(4096, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("too long for a Duration: %v", got)
	}
}

// TestSimulatorAgrees: for equal hosts and blocks the flow simulator gives equations 3 to
// 5 to the nanosecond, where they hold, and equation 2 is its bound. It knows a rate and a way, so the gap is that
// of the rate, overheads are 0, and the paper's L, which holds the packet's own time, is
// g plus the way.
func TestSimulatorAgrees(t *testing.T) {
	const rate, way, k = netmap.BytesPerSec(packet * 1e4), 3 * time.Millisecond, 20 // g = 100 µs
	g := 100 * time.Microsecond
	m := CostModel{Gs: g, Gr: g, L: g + way}
	for n := 2; n <= 17; n++ {
		net := network(n, rate, way, nil)
		bound, err := net.AlltoallBound(plan.AlltoallSizes{Uniform: k * packet})
		if err != nil {
			t.Fatal(err)
		}
		if got := bound.Seconds + way.Seconds(); math.Abs(got-m.Optimum(n, k).Seconds()) > 1e-9 {
			t.Errorf("n=%d: the bound and the way are %.9f s, equation 2 gives %v", n, got, m.Optimum(n, k))
		}
		for _, tt := range []struct {
			make func([]string, plan.AlltoallSizes) (*plan.Plan, error)
			want time.Duration
			odd  bool // holds for odd n too
		}{
			{Shift, m.Shift(n, k), true},
			{Synchronous, m.Synchronous(n, k), true},
			{Pairwise, m.Pairwise(n, k), false},
			{algorithms(2)[3].make, m.Group(n, k, 2), false},
			{algorithms(5)[3].make, m.Group(n, k, 5), false},
		} {
			if n%2 == 1 && !tt.odd {
				continue // who idles in a round does not wait for the others, and all drift apart
			}
			p, err := tt.make(names(n), plan.AlltoallSizes{Uniform: k * packet})
			if err != nil {
				t.Fatal(err)
			}
			for _, notice := range []bool{false, true} {
				sim, err := plan.Simulate(p, net, plan.SimOptions{Notice: notice})
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(sim.Makespan-tt.want.Seconds()) > 1e-9 {
					t.Errorf("%s n=%d notice %v: simulated %.9f s, predicted %.9f", p.Algorithm, n, notice, sim.Makespan, tt.want.Seconds())
				}
			}
		}
	}
}
