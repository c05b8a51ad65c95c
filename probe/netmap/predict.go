package netmap

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// A measured pair is like the one to be predicted if its latency is higher by no more
// than the larger of the first two (the share is of the latency of the pair to be
// predicted), and lower by no more than that or down to the third. The third is wide
// because queues only ever add: while a link is busy, some of its pairs show a multiple
// of what others show. It stays far from the step between a LAN and a WAN, so that a
// host with a wrong site label is not given the rates of the site that it is not in.
const (
	alikeLatency = 2 * time.Millisecond
	alikeShare   = 0.30
	alikeQueued  = 0.25
)

// alike returns the bounds of the latencies that are like latency.
func alike(latency time.Duration) (low, high time.Duration) {
	reach := max(alikeLatency, time.Duration(alikeShare*float64(latency)))
	return min(latency-reach, time.Duration(alikeQueued*float64(latency))), latency + reach
}

// Predict returns s with the gaps in its bandwidths filled where the rest allows a guess: a
// pair whose latency is known gets the median over the measured pairs from the same site to
// the same site whose latency is alike (not above it by more than 2 ms or 30 %, nor under a
// quarter of it, which queues explain). Hosts without a site label count as one site. What
// is filled in has [SourcePredicted]; measurements are never changed, and earlier
// predictions neither change nor count. A pair without latency, or without a like pair,
// stays unknown.
//
// With n hosts it takes O(n² log n). The result keeps the epoch of s, which is not modified.
func Predict(s *Snapshot) *Snapshot {
	type direction struct{ from, to string }
	measured := map[direction][]sample{}
	missing := map[direction][]sample{}
	n := s.N()
	est := slices.Clone(s.est)
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			if i == j || !e.Has(FieldLatency) {
				continue
			}
			d := direction{s.hosts[i].Site, s.hosts[j].Site}
			p := sample{at: i*n + j, latency: e.Latency, bandwidth: e.Bandwidth}
			switch {
			case !e.Has(FieldBandwidth):
				missing[d] = append(missing[d], p)
			case e.Source != SourcePredicted:
				measured[d] = append(measured[d], p)
			}
		}
	}
	for d, gaps := range missing { // directions do not touch each other: order is free
		for at, bandwidth := range medians(measured[d], gaps) {
			est[at] = est[at].predicted(bandwidth)
		}
	}
	return s.with(est)
}

// A Predictor answers what [Predict] would for one pair at a time, from a map of any size.
type Predictor struct {
	measured map[[2]string][]sample // by the sites of sender and receiver; by latency
}

// Predictor gathers the measured pairs of the map at now; sites is the label of each host.
// It takes one pass over what was reported, not n².
func (m *Map) Predictor(sites map[string]string, now time.Time) *Predictor {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &Predictor{measured: map[[2]string][]sample{}}
	doubted := m.lookForSuspects(now).names
	for _, reporter := range m.speakers() {
		m.each(reporter, func(e *entry) {
			if e.kind == overhead {
				return
			}
			from, to := e.pair(reporter)
			if e.kind == received && m.find(from, peer{to, sent}) != nil {
				return // seen at the sender
			}
			b := believe(m.estimate(from, peer{to, sent}), m.estimate(to, peer{from, received}), doubted[from], doubted[to], now)
			if b.Has(FieldLatency | FieldBandwidth) {
				d := [2]string{sites[from], sites[to]}
				p.measured[d] = append(p.measured[d], sample{at: len(p.measured[d]), latency: b.Latency, bandwidth: b.Bandwidth})
			}
		})
	}
	for _, s := range p.measured {
		slices.SortStableFunc(s, func(a, b sample) int { return cmp.Compare(a.latency, b.latency) })
	}
	return p
}

// Fill returns e, of a pair between hosts of two sites, with its bandwidth predicted if it
// has a latency and no bandwidth, and like pairs were measured.
func (p *Predictor) Fill(e Estimate, fromSite, toSite string) Estimate {
	if e.Has(FieldBandwidth) || !e.Has(FieldLatency) {
		return e
	}
	low, high := alike(e.Latency)
	var like []BytesPerSec
	for _, s := range p.measured[[2]string{fromSite, toSite}] {
		if s.latency >= low && s.latency <= high {
			like = append(like, s.bandwidth)
		}
	}
	if len(like) == 0 {
		return e
	}
	slices.Sort(like)
	return e.predicted(median(like))
}

// predicted returns e with bandwidth b, marked as a guess.
func (e Estimate) predicted(b BytesPerSec) Estimate {
	e.Bandwidth, e.Spread, e.Readings, e.Source = b, 0, 0, SourcePredicted
	e.Known |= FieldBandwidth
	return e
}

// median returns that of sorted, non-empty v.
func median(v []BytesPerSec) BytesPerSec {
	a, b := v[(len(v)-1)/2], v[len(v)/2]
	return a + (b-a)/2
}

// PredictionError says how far [Predict] is off: every measured pair is predicted from the
// others, as if it had not been measured. The error of a pair is |predicted−measured|/measured;
// n is how many pairs could be predicted. With n pairs it takes O(n²) at worst: of more
// than 2,000 measured pairs of one direction, every k-th is tried.
func PredictionError(s *Snapshot) (median, p90 float64, n int) {
	const most = 2000
	byDirection := map[[2]string][]sample{}
	for i := range s.N() {
		for j := range s.N() {
			e := s.Estimate(i, j)
			if i == j || !e.Has(FieldLatency|FieldBandwidth) || e.Source == SourcePredicted {
				continue
			}
			d := [2]string{s.hosts[i].Site, s.hosts[j].Site}
			byDirection[d] = append(byDirection[d], sample{i*s.N() + j, e.Latency, e.Bandwidth})
		}
	}
	var errs []float64
	for _, pairs := range byDirection {
		p := &Predictor{measured: map[[2]string][]sample{}}
		for k := 0; k < len(pairs); k += 1 + len(pairs)/most {
			out := pairs[k]
			p.measured[[2]string{}] = slices.Delete(slices.Clone(pairs), k, k+1)
			if e := p.Fill(Estimate{Known: FieldLatency, Latency: out.latency}, "", ""); e.Has(FieldBandwidth) {
				errs = append(errs, math.Abs(float64(e.Bandwidth/out.bandwidth)-1))
			}
		}
	}
	if len(errs) == 0 {
		return 0, 0, 0
	}
	slices.Sort(errs) // of all directions: order is free
	return errs[(len(errs)-1)/2], errs[(len(errs)-1)*9/10], len(errs)
}

// A sample is one pair: its place in the matrix, and what is known of it.
type sample struct {
	at        int
	latency   time.Duration
	bandwidth BytesPerSec
}

// medians returns, by place, the median bandwidth of the samples that are alike to each of
// gaps. Sorted by latency, the samples alike to one gap after another form a window that
// only moves forward, since both its ends rise with the latency. A binary indexed tree
// over the ranks of the bandwidths holds what is in the window.
func medians(samples, gaps []sample) map[int]BytesPerSec {
	byLatency := func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.latency, b.latency), cmp.Compare(a.at, b.at))
	}
	slices.SortFunc(samples, byLatency)
	slices.SortFunc(gaps, byLatency)
	values := make([]BytesPerSec, len(samples))
	for i, p := range samples {
		values[i] = p.bandwidth
	}
	slices.Sort(values)
	values = slices.Compact(values)
	window := make(ranks, len(values)+1)
	rank := func(b BytesPerSec) int {
		i, _ := slices.BinarySearch(values, b)
		return i
	}

	out := make(map[int]BytesPerSec, len(gaps))
	first, end := 0, 0 // the window is samples[first:end]
	for _, g := range gaps {
		low, high := alike(g.latency)
		for ; end < len(samples) && samples[end].latency <= high; end++ {
			window.add(rank(samples[end].bandwidth), 1)
		}
		for ; first < end && samples[first].latency < low; first++ {
			window.add(rank(samples[first].bandwidth), -1)
		}
		if k := end - first; k > 0 {
			a, b := values[window.nth((k-1)/2)], values[window.nth(k/2)]
			out[g.at] = a + (b-a)/2
		}
	}
	return out
}

// ranks is a binary indexed tree (Fenwick): how many of each rank there are. Index 0 is unused.
type ranks []int

func (t ranks) add(rank, count int) {
	for i := rank + 1; i < len(t); i += i & -i {
		t[i] += count
	}
}

// nth returns the rank of the k-th smallest, from 0.
func (t ranks) nth(k int) int {
	sumTo := func(r int) (n int) {
		for i := r + 1; i > 0; i -= i & -i {
			n += t[i]
		}
		return n
	}
	return sort.Search(len(t)-1, func(r int) bool { return sumTo(r) > k })
}
