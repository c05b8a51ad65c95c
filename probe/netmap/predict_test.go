package netmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// predictSlowly is Predict as its comment says it, pair by pair.
func predictSlowly(s *Snapshot, i, j int) (BytesPerSec, bool) {
	e := s.Estimate(i, j)
	if !e.Has(FieldLatency) {
		return 0, false
	}
	var like []BytesPerSec
	for a := range s.N() {
		for b := range s.N() {
			o := s.Estimate(a, b)
			if a == b || !o.Has(FieldLatency|FieldBandwidth) || o.Source == SourcePredicted ||
				s.Host(a).Site != s.Host(i).Site || s.Host(b).Site != s.Host(j).Site {
				continue
			}
			reach := max(2*time.Millisecond, time.Duration(0.3*float64(e.Latency)))
			if o.Latency <= e.Latency+reach && (o.Latency >= e.Latency-reach || float64(o.Latency) >= 0.25*float64(e.Latency)) {
				like = append(like, o.Bandwidth)
			}
		}
	}
	if len(like) == 0 {
		return 0, false
	}
	slices.Sort(like)
	k := len(like)
	return like[(k-1)/2] + (like[k/2]-like[(k-1)/2])/2, true
}

// capacitySlowly is what Predict does to e, of i→j, once its bandwidth is known.
func capacitySlowly(s *Snapshot, i, j int, e Estimate) Estimate {
	own := e.Has(FieldCapacity | FieldLanes)
	if i == j || s.Host(i).Site == s.Host(j).Site || !e.Has(FieldLatency|FieldBandwidth) || !own && (e.Has(FieldCapacity) || e.Has(FieldLanes)) {
		return e
	}
	var capacities, lanes []BytesPerSec
	flow := BytesPerSec(0)
	for a := range s.N() {
		for b := range s.N() {
			o := s.Estimate(a, b)
			if a == b || s.Host(a).Site != s.Host(i).Site || s.Host(b).Site != s.Host(j).Site || o.Source == SourcePredicted || !o.Has(FieldLatency) {
				continue
			}
			if o.Has(FieldBandwidth | FieldLine) {
				flow = max(flow, o.Bandwidth)
			}
			if !o.Has(FieldCapacity | FieldLanes) {
				continue
			}
			if low, high := alike(e.Latency); o.Latency >= low && o.Latency <= high {
				capacities, lanes = append(capacities, o.Capacity), append(lanes, BytesPerSec(o.Lanes))
			}
		}
	}
	if len(lanes) == 0 {
		return e
	}
	slices.Sort(capacities)
	slices.Sort(lanes)
	capacity := median(capacities)
	if !own {
		if each := capacity / max(median(lanes), 1); e.Bandwidth > 2*each && !e.Has(FieldLine) && flow > 0 && flow <= 2*each {
			e.Bandwidth = flow
		}
		e.Capacity, e.Lanes = max(capacity, e.Bandwidth), int(median(lanes)+0.5)
		if median(lanes) <= 1 && !e.Has(FieldLine) {
			e.Capacity = e.Bandwidth
		}
		e.Known |= FieldCapacity | FieldLanes
	}
	if out, in := insideSlowly(s, i, -1), insideSlowly(s, -1, j); out > 0 && e.Capacity >= 0.9*out || in > 0 && e.Capacity >= 0.9*in {
		return e
	}
	read, _ := predictSlowly(s, i, j)
	if e.Lanes > 1 && capacity > e.Capacity && capacity <= 2*e.Capacity {
		e.Capacity = capacity
	}
	if e.Lanes <= 1 && read <= 2*e.Capacity {
		if e.Bandwidth >= 0.75*e.Capacity && e.Bandwidth < read {
			e.Bandwidth = read
		}
		e.Capacity = max(e.Capacity, read, e.Bandwidth)
	}
	return e
}

// insideSlowly is what a host gets at most to, or from, others of its site; one of the two is -1.
func insideSlowly(s *Snapshot, a, b int) (rate BytesPerSec) {
	for x := range s.N() {
		from, to := max(a, b), x
		if a < 0 {
			from, to = x, b
		}
		e := s.Estimate(from, to)
		if from != to && s.Host(from).Site == s.Host(to).Site && s.Host(to).Site != "" && e.Has(FieldLatency|FieldBandwidth) {
			rate = max(rate, e.Bandwidth)
		}
	}
	return rate
}

// carriedSlowly is what Predict does to e, of i→j, at last.
func carriedSlowly(s *Snapshot, i, j int, e Estimate) Estimate {
	most, searched, byPorts := BytesPerSec(0), false, false
	for a := range s.N() {
		for b := range s.N() {
			o := s.Estimate(a, b)
			if s.Host(i).Site == s.Host(j).Site || s.Host(a).Site != s.Host(i).Site || s.Host(b).Site != s.Host(j).Site {
				continue
			}
			if o.Has(FieldCarried) {
				most = max(most, o.Carried)
			}
			if !o.Has(FieldLatency|FieldCapacity|FieldLanes) || o.Source == SourcePredicted {
				continue
			}
			if out, in := insideSlowly(s, a, -1), insideSlowly(s, -1, b); out > 0 && o.Capacity >= 0.9*out || in > 0 && o.Capacity >= 0.9*in {
				byPorts = true
			} else {
				searched = true
			}
		}
	}
	switch {
	case s.Host(i).Site == s.Host(j).Site:
	case byPorts && !searched && e.Has(FieldCapacity|FieldBandwidth):
		e.Carried, e.Known = min(max(most, e.Capacity), 64*e.Bandwidth), e.Known|FieldCarried
	case most == 0, searched, byPorts, e.Has(FieldCapacity), !e.Has(FieldBandwidth):
		e.Carried, e.Known = 0, e.Known&^FieldCarried
	default:
		e.Carried, e.Known = min(most, 64*e.Bandwidth), e.Known|FieldCarried
	}
	return e
}

func TestPredictAgreesWithThePlainVersion(t *testing.T) {
	filled, left, shared, carried, raised := 0, 0, 0, 0, 0
	for seed := range uint64(260) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(14)
		s := randomSnapshot(rng, n)
		for i := range s.est { // latencies that do resemble each other, bandwidths that repeat
			s.est[i].Latency = time.Duration(rng.IntN(30)) * time.Millisecond // on the edge of alike, too
			s.est[i].Bandwidth = BytesPerSec(1+rng.IntN(5)) * Mbps
			if rng.IntN(8) == 0 {
				s.est[i].Source = SourcePredicted
			}
			if rng.IntN(3) > 0 || seed%3 == 0 {
				s.est[i].Known &^= FieldCapacity | FieldLanes
			}
			s.est[i].Capacity = s.est[i].Bandwidth * BytesPerSec(1+rng.IntN(2))
			if seed%3 == 1 {
				s.est[i].Lanes = 1
			}
			if k := i / n; seed%2 == 1 && s.hosts[k].Site == s.hosts[i%n].Site { // ports hold nobody
				s.est[i].Bandwidth *= 20
			}
			s.est[i] = s.est[i].clean()
		}
		before := slices.Clone(s.est)
		p := Predict(s)
		if !slices.Equal(before, s.est) {
			t.Fatalf("seed %d: Predict changed its input", seed)
		}
		for i := range n {
			for j := range n {
				got, was := p.Estimate(i, j), s.Estimate(i, j)
				want := was
				if i == j || was.Has(FieldBandwidth) {
					want = carriedSlowly(s, i, j, capacitySlowly(s, i, j, want))
					if got != want {
						t.Fatalf("seed %d: %d→%d was known: %+v became %+v, want %+v", seed, i, j, was, got, want)
					}
					if got.Bandwidth > was.Bandwidth && got.Lanes == 1 || was.Has(FieldCapacity) && got.Capacity > was.Capacity {
						raised++
					}
					continue
				}
				if b, ok := predictSlowly(s, i, j); ok {
					want.Bandwidth, want.Source = b, SourcePredicted
					want.Known |= FieldBandwidth
					filled++
				} else {
					left++
				}
				want = carriedSlowly(s, i, j, capacitySlowly(s, i, j, want))
				if got != want {
					t.Fatalf("seed %d: %d→%d is %+v, want %+v", seed, i, j, got, want)
				}
				if want.Has(FieldCapacity) && !was.Has(FieldCapacity) {
					shared++
				}
				if want.Has(FieldCarried) && !was.Has(FieldCarried) {
					carried++
				}
			}
		}
	}
	if filled < 1000 || left < 1000 || shared < 200 || carried < 200 || raised < 15 {
		t.Fatalf("only %d filled, %d left, %d capacities, %d of exchanges and %d corrected: the test tries too little", filled, left, shared, carried, raised)
	}
}

func BenchmarkPredict256(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 4))
	s := randomSnapshot(rng, 256)
	b.ReportAllocs()
	for b.Loop() {
		Predict(s)
	}
}

// A Predictor answers for each pair what Predict fills in for all of them.
func TestPredictorAgreesWithPredict(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 31))
		n := 2 + rng.IntN(8)
		hosts := make([]Host, n)
		sites := map[string]string{}
		for i := range hosts {
			hosts[i] = Host{Name: fmt.Sprintf("h%d", i), Site: []string{"A", "B", ""}[rng.IntN(3)]}
			sites[hosts[i].Name] = hosts[i].Site
		}
		m := reportedGrid(t, n, t0, func(i, from, to int) Estimate {
			e := Estimate{Known: FieldLatency, Latency: time.Duration(1+rng.IntN(20)) * time.Millisecond, Measured: t0}
			if rng.IntN(3) == 0 {
				e.Known |= FieldBandwidth
				e.Bandwidth, e.Source = BytesPerSec(1+rng.IntN(1e6)), SourceProbed
				if rng.IntN(3) == 0 {
					e.Known |= FieldCapacity | FieldLanes
					e.Capacity, e.Lanes = e.Bandwidth*BytesPerSec(1+rng.IntN(9)), 1+rng.IntN(9)
					if seed%4 == 0 {
						e.Lanes = 1
					}
				}
			}
			if rng.IntN(4) == 0 {
				return Estimate{}
			}
			return e
		})
		if gone := rng.IntN(n - 1); seed%2 == 1 { // what it told does not count, as in snapshots
			for _, h := range hosts[:gone] {
				delete(sites, h.Name)
			}
			hosts = hosts[gone:]
			n = len(hosts)
		}
		s := m.Snapshot(hosts, t0)
		whole, one := Predict(s), m.Predictor(sites, t0)
		for i := range n {
			for j := range n {
				if i != j {
					if got, want := one.Fill(s.Estimate(i, j), hosts[i], hosts[j]), whole.Estimate(i, j); got != want {
						t.Fatalf("seed %d: %d→%d\n%+v\nwant %+v", seed, i, j, got, want)
					}
				}
			}
		}
	}
}

// The error of predictions is that of a rate left out and predicted from its like.
func TestPredictionError(t *testing.T) {
	const n = 6
	rates := []float64{10, 10, 10, 10, 10, 20} // Mbit/s by sender
	est := make([]Estimate, n*n)
	for i := range n {
		for j := range n {
			est[i*n+j] = bandwidthOf(rates[i], t0)
			est[i*n+j].Known |= FieldLatency
			est[i*n+j].Latency = time.Millisecond
		}
	}
	hosts := make([]Host, n)
	for i := range hosts {
		hosts[i].Name = fmt.Sprint(i)
	}
	// 25 pairs are predicted rightly; the 5 of the fast sender as 10 instead of 20.
	median, p90, count := PredictionError(NewSnapshot(1, hosts, est))
	if median != 0 || p90 != 0.5 || count != n*(n-1) {
		t.Errorf("%v, %v of %d; want 0, 0.5 of %d", median, p90, count, n*(n-1))
	}
	if _, _, count := PredictionError(NewSnapshot(1, hosts, make([]Estimate, n*n))); count != 0 {
		t.Errorf("%d pairs of an empty map", count)
	}
}

// The error is what leaving out one pair after another finds.
func TestPredictionErrorLeavesOneOut(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		samples := make([]sample, 1+rng.IntN(40))
		for i := range samples {
			samples[i] = sample{at: i, latency: time.Duration(rng.IntN(12)) * time.Millisecond, bandwidth: BytesPerSec(1 + rng.IntN(6))}
		}
		got := make(map[int]BytesPerSec)
		eachMedian(slices.Clone(samples), slices.Clone(samples), true, func(g sample, m BytesPerSec) { got[g.at] = m })
		for i, s := range samples {
			want, ok := medianOf(slices.Delete(slices.Clone(samples), i, i+1), s.latency)
			if m, has := got[i]; has != ok || m != want {
				t.Fatalf("seed %d: sample %d of %d: %v, %v; want %v, %v", seed, i, len(samples), m, has, want, ok)
			}
		}
	}
}

// A pair that only trains have measured gets what bulk probes have found a flow to get where like pairs need many lanes, and keeps what it has where
// their words contradict each other.
func TestPredictWhatLanesTell(t *testing.T) {
	const all = FieldLatency | FieldBandwidth
	est := func(bandwidth BytesPerSec, of Field) Estimate {
		return Estimate{Known: all | of, Latency: 50 * time.Millisecond, Bandwidth: bandwidth * Mbps, Line: 20 * Mbps, Capacity: 20 * Mbps, Lanes: 16, Source: SourceProbed}.clean()
	}
	hosts := []Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	for _, tt := range []struct {
		name        string
		flow, other BytesPerSec // Mbit/s that bulk probes of a0→b0 and of a1→b1 found, 0 none
		want        BytesPerSec // of a0→b1, which trains have measured at 20
	}{
		{"one bulk probe", 1.3, 0, 1.3},
		{"two", 1.3, 1.2, 1.3},
		{"the other fills the link", 1.3, 19, 20},
		{"none", 0, 0, 20},
		{"the searcher contradicts itself", 19, 0, 20},
	} {
		pairs := make([]Estimate, 16)
		pairs[2] = est(tt.flow, FieldLine|FieldCapacity|FieldLanes)
		if tt.flow == 0 {
			pairs[2] = est(20, FieldCapacity|FieldLanes)
		}
		pairs[3], pairs[7] = est(20, 0), est(20, 0)
		if tt.other > 0 {
			pairs[7] = est(tt.other, FieldLine)
		}
		got := Predict(NewSnapshot(1, hosts, pairs)).Estimate(0, 3)
		if got.Bandwidth != tt.want*Mbps || got.Capacity != 20*Mbps || got.Lanes != 16 {
			t.Errorf("%s: %.2f Mbit/s of %.2f with %d lanes, want %v", tt.name, got.Bandwidth.Mbps(), got.Capacity.Mbps(), got.Lanes, float64(tt.want))
		}
	}
}

// Where one lane reaches the capacity, a pair that has a lower reading of the link, and no bulk probe, has no flows that something holds: a link that was
// taken to have fallen at the end of an exchange would be sent to at a pace in all that follow.
func TestPredictOfOneLane(t *testing.T) {
	hosts := []Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	pairs := make([]Estimate, 16)
	pairs[2] = Estimate{Known: FieldLatency | FieldBandwidth | FieldLine | FieldCapacity | FieldLanes, Latency: 50 * time.Millisecond, Bandwidth: 1.34 * Mbps, Line: 1.34 * Mbps, Capacity: 1.34 * Mbps, Lanes: 1, Source: SourceProbed}
	fallen := Estimate{Known: FieldLatency | FieldBandwidth, Latency: 50 * time.Millisecond, Bandwidth: 0.76 * Mbps, Source: SourceObserved}
	held := Estimate{Known: fallen.Known | FieldLine, Latency: 50 * time.Millisecond, Bandwidth: 0.5 * Mbps, Line: 1.34 * Mbps, Source: SourceProbed}
	pairs[3], pairs[7] = fallen, held
	s := Predict(NewSnapshot(1, hosts, pairs))
	for _, tt := range []struct {
		name     string
		from, to int
		want     BytesPerSec
	}{
		{"fallen", 0, 3, 0.76 * Mbps},
		{"held, says a bulk probe", 1, 3, 1.34 * Mbps},
	} {
		if got := s.Estimate(tt.from, tt.to); got.Capacity != tt.want || got.Lanes != 1 {
			t.Errorf("%s: capacity %.2f Mbit/s with %d lanes, want %.2f", tt.name, got.Capacity.Mbps(), got.Lanes, tt.want.Mbps())
		}
	}
}

// All pairs of two sites read one link. One that has read less than the others in the median is believed to get that, be it one flow or several lanes, unless a port
// may hold it, or it has read less than half.
func TestPredictOfPairsThatReadLess(t *testing.T) {
	hosts := []Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "a2", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	n := len(hosts)
	for _, tt := range []struct {
		name      string
		port      BytesPerSec // Mbit/s that a2 gets inside its site
		read      BytesPerSec // Mbit/s, of a2→b0
		searched  bool        // by a2→b0 as well
		lanes     int         // of all that have searched
		flow, all BytesPerSec // Mbit/s, as believed of a2→b0
	}{
		{"a sixth less", 100, 10, false, 1, 11.5, 11.5},
		{"a sixth less, searched", 100, 10, true, 1, 11.5, 11.5},
		{"two fifths less", 100, 7, false, 1, 11.5, 11.5},
		{"less than half", 100, 5.5, false, 1, 5.5, 5.5},
		{"less than half, searched", 100, 5.5, true, 1, 5.5, 5.61},
		{"more", 100, 14, false, 1, 14, 14},
		{"held by its port", 7.5, 7, false, 1, 7, 7},
		{"held by its port, searched", 7.5, 7, true, 1, 7, 7.14},
		{"not by its port", 9, 7, false, 1, 11.5, 11.5},
		{"a flow of two lanes", 100, 10, false, 2, 10, 22},
		{"two lanes", 100, 10, true, 2, 10, 21},
		{"two lanes that got two thirds", 100, 6, true, 2, 6, 17},
	} {
		pairs := make([]Estimate, n*n)
		read := func(from, to int, rate BytesPerSec, searched bool) {
			e := &pairs[from*n+to]
			*e = Estimate{Known: FieldLatency | FieldBandwidth, Latency: 50 * time.Millisecond, Bandwidth: rate * Mbps, Source: SourceObserved}
			if searched {
				e.Known |= FieldCapacity | FieldLanes
				e.Capacity, e.Lanes = BytesPerSec(tt.lanes)*e.Bandwidth, tt.lanes
			}
			if searched && from == 2 && tt.lanes == 1 { // as searches are: the flow was read at another time
				e.Capacity *= 1.02
			}
		}
		read(0, 3, 12, false)
		read(1, 3, 12.5, false)
		read(1, 4, 11, true)
		read(2, 3, tt.read, tt.searched)
		for a := range 2 {
			read(2, a, tt.port, false)
			pairs[2*n+a].Latency = 50 * time.Microsecond
		}
		got := Predict(NewSnapshot(1, hosts, pairs)).Estimate(2, 3)
		if got.Bandwidth != tt.flow*Mbps || got.Capacity != tt.all*Mbps || got.Lanes != tt.lanes {
			t.Errorf("%s: %.2f Mbit/s of %.2f with %d lanes, want %v of %v", tt.name, got.Bandwidth.Mbps(), got.Capacity.Mbps(), got.Lanes, tt.flow, tt.all)
		}
	}
}

// What a pair of hosts got of a link is no more than the ports of the two take. If it is that, many pairs get what exchanges were seen to carry, or as much at least; a
// search that no port held tells what all get.
func TestPredictBehindPorts(t *testing.T) {
	hosts := []Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	for _, tt := range []struct {
		name          string
		out, in       BytesPerSec // of the ports of a0 and b0, 0: not known
		carried, want BytesPerSec
	}{
		{"faster ports", 100, 100, 20, 9},
		{"nobody knows of ports", 0, 0, 20, 9},
		{"the sender's", 9.5, 100, 20, 20},
		{"the receiver's", 0, 9.5, 20, 20},
		{"nothing else was seen", 9.5, 9.5, 0, 9},
	} {
		pairs := make([]Estimate, 16)
		link := Estimate{Known: FieldLatency | FieldBandwidth, Latency: 50 * time.Millisecond, Bandwidth: 9 * Mbps, Source: SourceProbed}
		for _, k := range []int{2, 3, 6, 7, 8, 9, 12, 13} {
			pairs[k] = link
		}
		pairs[2].Capacity, pairs[2].Lanes, pairs[2].Known = 9*Mbps, 1, pairs[2].Known|FieldCapacity|FieldLanes
		if tt.carried > 0 {
			pairs[7].Carried, pairs[7].Known = tt.carried*Mbps, pairs[7].Known|FieldCarried
		}
		lan := func(k int, rate BytesPerSec) {
			if rate > 0 {
				pairs[k] = Estimate{Known: FieldLatency | FieldBandwidth, Latency: time.Millisecond, Bandwidth: rate * Mbps, Source: SourceProbed}
			}
		}
		lan(1, tt.out) // a0→a1
		lan(14, tt.in) // b1→b0
		s := Predict(NewSnapshot(1, hosts, pairs))
		for _, k := range [][2]int{{0, 2}, {1, 3}} {
			if got, _ := s.Link(k[0], k[1]); got != tt.want*Mbps {
				t.Errorf("%s: the link from %d to %d carries %.2f Mbit/s, want %v", tt.name, k[0], k[1], got.Mbps(), float64(tt.want))
			}
			if got, _ := s.Capacity(k[0], k[1]); got != 9*Mbps {
				t.Errorf("%s: %.2f Mbit/s from %d to %d, want 9", tt.name, got.Mbps(), k[0], k[1])
			}
		}
	}
}

// What exchanges were seen to carry is what all pairs of the two sites get together, until somebody has searched for more.
func TestPredictWhatExchangesCarried(t *testing.T) {
	const all = FieldLatency | FieldBandwidth
	est := func(of Field) Estimate {
		return Estimate{Known: all | of, Latency: 50 * time.Millisecond, Bandwidth: Mbps, Carried: 7 * Mbps, Capacity: 9 * Mbps, Lanes: 8, Source: SourceProbed}.clean()
	}
	hosts := []Host{{Name: "a0", Site: "a"}, {Name: "a1", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}}
	for _, tt := range []struct {
		name    string
		at, say Field // what is known of a0→b0 beside the rate of a flow, and of a1→b1
		want    BytesPerSec
	}{
		{"nothing", 0, 0, 1},
		{"seen", FieldCarried, 0, 7},
		{"seen by another", 0, FieldCarried, 7},
		{"searched", FieldCapacity | FieldLanes, FieldCarried, 9},
		{"searched by another", FieldCarried, FieldCapacity | FieldLanes, 9},
		{"declared", FieldCapacity, FieldCarried, 9},
		{"a lie", 0, 0, 64},
	} {
		pairs := make([]Estimate, 16)
		for _, k := range []int{3, 6, 8, 9, 12, 13} { // the back is another link
			pairs[k] = est(0)
		}
		pairs[2], pairs[7] = est(tt.at), est(tt.say)
		if tt.name == "a lie" {
			pairs[7].Carried, pairs[7].Known = MaxRate, pairs[7].Known|FieldCarried
		}
		s := Predict(NewSnapshot(1, hosts, pairs))
		if got, _ := s.Capacity(0, 2); got != tt.want*Mbps {
			t.Errorf("%s: %.2f Mbit/s, want %v", tt.name, got.Mbps(), float64(tt.want))
		}
		if back, _ := s.Capacity(2, 0); back != Mbps {
			t.Errorf("%s: %.2f Mbit/s back", tt.name, back.Mbps())
		}
	}
}
