package planner

import (
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// twoSites is a problem over two sites of so many hosts each, and what the map says of pairs between them.
func twoSites(t *testing.T, each int, far netmap.Estimate) *Problem {
	t.Helper()
	n := 2 * each
	hosts := make([]netmap.Host, n)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		hosts[i] = netmap.Host{Name: string(rune('a' + i)), Site: string(rune('A' + i/each))}
		for j := range n {
			est[i*n+j] = netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 100 * time.Microsecond, Bandwidth: 10_000 * netmap.Mbps}
			if i/each != j/each {
				est[i*n+j] = far
			}
		}
	}
	p := &Problem{Collective: plan.Alltoall, Snapshot: netmap.NewSnapshot(1, hosts, est)}
	var err error
	if p.Tree, err = pools.Build(p.Snapshot, pools.Config{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// far sends bytes from each of the first pairs hosts of one site to its like in the other.
func far(p *Problem, pairs int, bytes int64) *plan.Plan {
	n := p.Snapshot.N()
	out := &plan.Plan{Collective: plan.Alltoall, Hosts: p.Hosts(), MessageBytes: bytes}
	for i := range pairs {
		out.Transfers = append(out.Transfers, plan.Transfer{ID: i, Src: i, Dst: n/2 + i, Phase: -1, Blocks: []plan.Block{{Origin: i, Dest: n/2 + i}}})
	}
	return out
}

func forecastOf(t *testing.T, p *Problem, made *plan.Plan) float64 {
	t.Helper()
	_, seconds, err := Forecast(p, made, 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// TestForecastLanes: where the network holds each flow to an eighth of the link, the lanes of one pair get all of it,
// eight pairs an eighth each, and a capacity that is not measured is that of one flow. A few KiB of one pair go over one lane.
func TestForecastLanes(t *testing.T) {
	const bytes = 4 << 20
	held := netmap.Estimate{
		Known: netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity, Latency: 10 * time.Millisecond,
		Bandwidth: 1e6, Capacity: 8e6, Lanes: 8,
	}
	single := held
	single.Known, single.Capacity = netmap.FieldLatency|netmap.FieldBandwidth, 0
	slow := held
	slow.Bandwidth, slow.Capacity = 1e5, 8e5
	for _, test := range []struct {
		name  string
		far   netmap.Estimate
		pairs int
		bytes int64   // of a pair
		rate  float64 // of all pairs together
	}{
		{"one pair", held, 1, bytes, 8e6}, {"eight pairs", held, 8, bytes, 8e6},
		{"one pair of one flow", single, 1, bytes, 1e6}, {"eight pairs of one flow", single, 8, bytes, 1e6},
		{"a pair with less than a lane's fill", slow, 1, 3 << 10, 1e5}, {"one with that of three", slow, 1, 13 << 10, 3e5}, {"eight pairs with less", slow, 8, 3 << 10, 8e5},
	} {
		p := twoSites(t, 8, test.far)
		got := forecastOf(t, p, far(p, test.pairs, test.bytes))
		if want := payloadShare*float64(test.bytes)*float64(test.pairs)/test.rate + 0.01; math.Abs(got/want-1) > 0.1 {
			t.Errorf("%s: %.3f s, want %.3f s", test.name, got, want)
		}
	}
}

// TestForecastOpens: of 1 MB over a long fast path, four round trips pass before the last 430 KB may leave (RFC 9002: the
// window is 41 kB at first and doubles); a hundred times as much is a matter of the link alone, and so is a short path.
func TestForecastOpens(t *testing.T) {
	path := netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50 * time.Millisecond, Bandwidth: 1000 * netmap.Mbps}
	short := path
	short.Latency = 500 * time.Microsecond
	for _, test := range []struct {
		name  string
		far   netmap.Estimate
		bytes int64
		want  float64
	}{
		{"a window", path, 32 << 10, 0.05}, {"a megabyte", path, 1 << 20, 0.05 + 4*0.1 + 0.0036}, {"a gigabyte", path, 1 << 30, 9.0 + 0.8},
		{"a short path", short, 1 << 20, 0.0005 + 0.0088},
	} {
		p := twoSites(t, 2, test.far)
		if got := forecastOf(t, p, far(p, 1, test.bytes)); math.Abs(got/test.want-1) > 0.1 {
			t.Errorf("%s: %.4f s, want %.4f s", test.name, got, test.want)
		}
	}
}

// TestForecastHandsOut: a host begins when the coordinator has sent it its part, which for a plan of many transfers is later.
func TestForecastHandsOut(t *testing.T) {
	p := twoSites(t, 2, netmap.Estimate{Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: time.Millisecond, Bandwidth: 1e4})
	few := far(p, 2, 0)
	many := far(p, 2, 0)
	for range 50 { // between hosts of the other site, to whom the parts go over the slow link
		id := len(many.Transfers)
		many.Transfers = append(many.Transfers, plan.Transfer{ID: id, Src: 2, Dst: 3, Phase: -1, Blocks: []plan.Block{{Origin: 2, Dest: 3}}})
	}
	a, b := forecastOf(t, p, few), forecastOf(t, p, many)
	if more := 2 * 50 * partTransfer / 1e4; b-a < more/2 || b-a > 2*more {
		t.Errorf("%.4f s and %.4f s with 50 transfers more, want about %.4f s more", a, b, more)
	}
}

// TestForecastRepairs: a transfer over a way that loses packets ends later by what the repair of its last ones takes: next to nothing where that
// is one in a thousand of a few packets, nearly a round trip where many of the last round trip's are lost; and steps one behind the other pay each.
func TestForecastRepairs(t *testing.T) {
	const rtt = 100 * time.Millisecond
	way := func(loss float64) *Problem {
		return twoSites(t, 2, netmap.Estimate{
			Known: netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity | netmap.FieldLoss, Latency: rtt / 2,
			Bandwidth: 20 * netmap.Mbps, Capacity: 20 * netmap.Mbps, Lanes: 1, Loss: loss, LossOf: 10_000,
		})
	}
	late := func(loss float64, made func(p *Problem) *plan.Plan) float64 {
		clean, lossy := way(0), way(loss)
		return (forecastOf(t, lossy, made(lossy)) - forecastOf(t, clean, made(clean))) / rtt.Seconds()
	}
	bulk := func(p *Problem) *plan.Plan { return far(p, 1, 1<<20) }
	steps := func(p *Problem) *plan.Plan {
		made := far(p, 1, 1<<20)
		n := p.Snapshot.N()
		back := plan.Transfer{ID: 1, Src: n / 2, Dst: 0, Phase: -1, Blocks: []plan.Block{{Origin: n / 2, Dest: 0}}, After: []int{0}}
		made.Transfers = append(made.Transfers, back)
		return made
	}
	for _, c := range []struct {
		loss        float64
		least, most float64 // round trips
	}{{0, 0, 0}, {0.0001, 0.005, 0.05}, {0.01, 0.5, 0.8}, {0.2, 0.9, 1}} {
		one, two := late(c.loss, bulk), late(c.loss, steps)
		if one < c.least || one > c.most {
			t.Errorf("%g lost: a transfer ends %.3f round trips later, want %g to %g", c.loss, one, c.least, c.most)
		}
		if math.Abs(two-2*one) > 0.01 {
			t.Errorf("%g lost: two steps end %.3f round trips later, one %.3f", c.loss, two, one)
		}
	}
}
