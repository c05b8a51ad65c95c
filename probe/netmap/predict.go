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
// is filled in has [SourcePredicted]; earlier predictions neither change nor count. A pair
// without latency, or without a like pair, stays unknown.
//
// What several lanes get, and how many it takes, is searched for between one pair of two sites at a
// time. Any other pair of them with a bandwidth gets the medians of the like pairs that know it,
// measured or not itself: it is of the link. Measurements are corrected in two cases only: a bandwidth of trains alone that contradicts those medians, and what a pair
// has read, searched or not, that is less than its like have read of the link. As long as no pair knows it, all get the most that exchanges were seen to carry ([Estimate.Carried]); so do they where the ports of hosts are what holds
// those that have searched ([PortHolds]), beside their capacity and no less than that. Inside a site there is nothing to predict.
//
// With n hosts it takes O(n² log n). The result keeps the epoch of s, which is not modified.
func Predict(s *Snapshot) *Snapshot {
	type direction struct{ from, to string }
	measured := map[direction][]sample{}
	missing := map[direction][]sample{}
	searched := map[direction][]sample{} // capacities
	searches := map[direction]search{}
	lan := newLANPorts[int]()
	flows := map[direction]BytesPerSec{} // the most that a bulk probe has found one flow to get
	carried := map[direction]BytesPerSec{}
	n := s.N()
	est := slices.Clone(s.est)
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			d := direction{s.hosts[i].Site, s.hosts[j].Site}
			if d.from != d.to && e.Has(FieldCarried) {
				carried[d] = max(carried[d], e.Carried)
			}
			if i == j || !e.Has(FieldLatency) {
				continue
			}
			if d.from == d.to && d.from != "" && e.Has(FieldBandwidth) {
				lan.inside(i, j, e.Bandwidth)
			}
			p := sample{at: i*n + j, latency: e.Latency, bandwidth: e.Bandwidth}
			switch {
			case !e.Has(FieldBandwidth):
				missing[d] = append(missing[d], p)
			case e.Source != SourcePredicted:
				measured[d] = append(measured[d], p)
			}
			if e.Has(FieldBandwidth|FieldLine) && e.Source != SourcePredicted {
				flows[d] = max(flows[d], e.Bandwidth)
			}
			if d.from != d.to && e.Source != SourcePredicted && e.Has(FieldCapacity|FieldLanes) {
				searched[d] = append(searched[d], sample{at: i*n + j, latency: e.Latency, bandwidth: e.Capacity, lanes: e.Lanes})
			}
		}
	}
	for d, gaps := range missing { // directions do not touch each other: order is free
		for at, bandwidth := range medians(measured[d], gaps) {
			est[at] = est[at].predicted(bandwidth)
		}
	}
	for d, s := range searched {
		for _, p := range s {
			searches[d] = searches[d].take(p.bandwidth, lan.out[p.at/n], lan.in[p.at%n])
		}
	}
	sharing := map[direction][]sample{}
	for at, e := range est {
		d := direction{s.hosts[at/n].Site, s.hosts[at%n].Site}
		if e.onLink() && len(searched[d]) > 0 {
			sharing[d] = append(sharing[d], sample{at: at, latency: e.Latency})
		}
	}
	for d, pairs := range sharing {
		capacities, read := medians(searched[d], pairs), medians(measured[d], pairs)
		for at, lanes := range medians(lanesOf(searched[d]), pairs) {
			of := linkOf{capacity: capacities[at], lanes: lanes, flow: flows[d], read: read[at]}
			est[at] = est[at].told(of, lan.out[at/n], lan.in[at%n])
		}
	}
	for at, e := range est {
		if d := (direction{s.hosts[at/n].Site, s.hosts[at%n].Site}); d.from != d.to {
			est[at] = e.carries(carried[d], searches[d])
		}
	}
	return s.With(est)
}

// mostCarried is how many times what one flow gets exchanges are believed to carry: nobody checks the host that says so.
const mostCarried = 64

// carries returns e, of a pair of whose sites exchanges were seen to carry c, with that as long as nobody has searched, or ports are what
// held those that have.
func (e Estimate) carries(c BytesPerSec, s search) Estimate {
	ports := s.pairs > 0 && !s.tells()
	if ports && e.Has(FieldCapacity) {
		c = max(c, e.Capacity)
	} else if s.pairs > 0 || e.Has(FieldCapacity) {
		c = 0
	}
	if c <= 0 || !e.Has(FieldBandwidth) {
		e.Known &^= FieldCarried
		return e.clean()
	}
	e.Carried, e.Known = min(c, mostCarried*e.Bandwidth), e.Known|FieldCarried
	return e
}

// onLink reports whether e is of a pair that its like can tell of their link: it knows neither the capacity nor the lanes, or both.
func (e Estimate) onLink() bool {
	return e.Has(FieldLatency|FieldBandwidth) && e.Has(FieldCapacity) == e.Has(FieldLanes)
}

// A linkOf is what like pairs know of the link that they share.
type linkOf struct {
	capacity, lanes BytesPerSec // in the median over those that have searched
	flow            BytesPerSec // the most that bulk probes of any pair have found one flow to get, 0 if there were none
	read            BytesPerSec // what one flow gets by all readings, in the median; 0 if there are none
}

// shared returns e with what like pairs know of their link: the capacity, which is no less than what one
// lane gets, and the lanes that reach it. Where nothing but trains has measured e, it may say that one flow gets the whole link, and like
// pairs that this takes many: then it gets k.flow. Where that is more
// than one of many lanes can get they contradict each other, and nothing is corrected: no host's word alone makes a link slow.
//
// Where one lane reaches the capacity a flow gets all that the link carries. If e has less, and no bulk probe of its own has said that something holds its flows, both are
// readings of one thing, and the one of e is later, or worse: were e left with both, something would seem to hold each of its flows.
func (e Estimate) shared(k linkOf) Estimate {
	most := crowded * k.capacity / max(k.lanes, 1)
	if !e.Has(FieldLine) && e.Bandwidth > most && 0 < k.flow && k.flow <= most {
		e.Bandwidth = k.flow
	}
	capacity := k.capacity
	if k.lanes <= 1 && !e.Has(FieldLine) {
		capacity = e.Bandwidth
	}
	e.Capacity, e.Lanes = max(capacity, e.Bandwidth), int(k.lanes+0.5)
	e.Known |= FieldCapacity | FieldLanes
	return e
}

// misread is how many times what a pair has read of a link is believed if like pairs have read it.
const misread = 2

// Follows is the share of a link from which on a flow is said to follow it when it changes. What is held by losses or by the network is held to less, mostly.
const Follows = 0.75

// corrected returns e, of a pair that knows its link's capacity, measured or not itself, with what like pairs have read of that in the median, if it is more. Beside other probes a
// pair reads two thirds of a link; its host then sent at that, in all exchanges for minutes, while others, of which each has its part of the link, had long ended. More than misread
// times as much is not believed, nor where a port may hold e's pair: out and in are those of its hosts, see [lanPorts]. A flow that gets less than [Follows] of what its pair knows to be there is
// held by something else, and stays so.
func (e Estimate) corrected(k linkOf, out, in BytesPerSec) Estimate {
	switch {
	case PortHolds(e.Capacity, out, in):
	case e.Lanes > 1 && k.capacity <= misread*e.Capacity:
		e.Capacity = max(e.Capacity, k.capacity)
	case e.Lanes <= 1 && k.read <= misread*e.Capacity: // one flow gets all
		if e.Bandwidth >= Follows*e.Capacity {
			e.Bandwidth = max(e.Bandwidth, k.read)
		}
		e.Capacity = max(e.Capacity, e.Bandwidth, k.read)
	}
	return e
}

// told returns e, of a pair that is [Estimate.onLink], by what its like know. out and in are the ports of its hosts.
func (e Estimate) told(k linkOf, out, in BytesPerSec) Estimate {
	if !e.Has(FieldCapacity) {
		e = e.shared(k)
	}
	return e.corrected(k, out, in)
}

// crowded is how many times what each of the lanes at the knee gets a flow may get alone.
const crowded = 2

// lanesOf returns searched with the numbers of lanes in the place of rates.
func lanesOf(searched []sample) []sample {
	out := slices.Clone(searched)
	for i := range out {
		out[i].bandwidth = BytesPerSec(out[i].lanes)
	}
	return out
}

// A Predictor answers what [Predict] would for one pair at a time, from a map of any size.
type Predictor struct {
	measured map[[2]string][]sample // by the sites of sender and receiver; by latency
	searched map[[2]string][]sample // of them those whose bandwidths are capacities
	flows    map[[2]string]BytesPerSec
	bulks    map[[2]string][]BytesPerSec // what bulk probes have found one flow to get
	losses   map[[2]string][2]float64    // packets, and how many of them were lost
	lines    map[[2]string][]BytesPerSec
	carried  map[[2]string]BytesPerSec
	searches map[[2]string]search
	lan      lanPorts[string]
}

// Predictor gathers the measured pairs of the map at now; sites is the label of each host that counts: pairs with others are left out.
// It takes one pass over what was reported, not n², and others may use the map between two reporters: what arrives meanwhile counts, or does not.
func (m *Map) Predictor(sites map[string]string, now time.Time) *Predictor {
	p := &Predictor{measured: map[[2]string][]sample{}, searched: map[[2]string][]sample{}, flows: map[[2]string]BytesPerSec{}, bulks: map[[2]string][]BytesPerSec{}, losses: map[[2]string][2]float64{}, lines: map[[2]string][]BytesPerSec{}, carried: map[[2]string]BytesPerSec{}, searches: map[[2]string]search{}}
	p.lan = newLANPorts[string]()
	type found struct {
		from, to string
		rate     BytesPerSec
	}
	var all []found
	m.mu.Lock()
	doubted, speakers := m.lookForSuspects(now).doubts, m.speakers()
	m.mu.Unlock()
	for _, reporter := range speakers {
		m.mu.Lock()
		m.each(reporter, func(e *entry) {
			if e.kind == overhead {
				return
			}
			from, to := e.pair(reporter)
			_, here := sites[from]
			if _, there := sites[to]; !here || !there {
				return
			}
			if e.kind == received && m.find(from, peer{to, sent}) != nil {
				return // seen at the sender
			}
			b := m.belief(from, to, doubted, now)
			if b.Has(FieldCarried) {
				d := [2]string{sites[from], sites[to]}
				p.carried[d] = max(p.carried[d], b.Carried)
			}
			if b.Has(FieldLatency | FieldBandwidth) {
				d := [2]string{sites[from], sites[to]}
				if d[0] == d[1] && d[0] != "" {
					p.lan.inside(from, to, b.Bandwidth)
				}
				if b.Has(FieldLoss) {
					n := p.losses[d]
					p.losses[d] = [2]float64{n[0] + float64(b.LossOf), n[1] + float64(b.LossOf)*b.Loss}
				}
				p.measured[d] = append(p.measured[d], sample{at: len(p.measured[d]), latency: b.Latency, bandwidth: b.Bandwidth})
				if b.Has(FieldLine) {
					p.flows[d] = max(p.flows[d], b.Bandwidth)
					p.lines[d] = append(p.lines[d], b.Line)
					p.bulks[d] = append(p.bulks[d], b.Bandwidth)
				}
				if d[0] != d[1] && b.Has(FieldCapacity|FieldLanes) {
					p.searched[d] = append(p.searched[d], sample{latency: b.Latency, bandwidth: b.Capacity, lanes: b.Lanes})
					all = append(all, found{from, to, b.Capacity})
				}
			}
		})
		m.mu.Unlock()
	}
	for _, f := range all {
		d := [2]string{sites[f.from], sites[f.to]}
		p.searches[d] = p.searches[d].take(f.rate, p.lan.out[f.from], p.lan.in[f.to])
	}
	for _, s := range p.measured {
		slices.SortStableFunc(s, func(a, b sample) int { return cmp.Compare(a.latency, b.latency) })
	}
	for _, s := range p.lines {
		slices.Sort(s)
	}
	for _, s := range p.bulks {
		slices.Sort(s)
	}
	return p
}

// Fill returns e, of a pair of hosts of two sites, with its bandwidth and its capacity predicted
// as [Predict] does it.
func (p *Predictor) Fill(e Estimate, from, to Host) Estimate {
	d := [2]string{from.Site, to.Site}
	if e.Has(FieldLatency) && !e.Has(FieldBandwidth) {
		if b, ok := medianOf(p.measured[d], e.Latency); ok {
			e = e.predicted(b)
		}
	}
	if e.onLink() {
		if lanes, ok := medianOf(lanesOf(p.searched[d]), e.Latency); ok {
			of := linkOf{lanes: lanes, flow: p.flows[d]}
			of.capacity, _ = medianOf(p.searched[d], e.Latency)
			of.read, _ = medianOf(p.measured[d], e.Latency)
			e = e.told(of, p.lan.out[from.Name], p.lan.in[to.Name])
		}
	}
	if from.Site == to.Site {
		return e
	}
	return e.carries(p.carried[d], p.searches[d])
}

// Losses returns how many packets from one site to another have been counted, over all pairs of them, and how many of these were lost.
func (p *Predictor) Losses(fromSite, toSite string) (of, lost float64) {
	n := p.losses[[2]string{fromSite, toSite}]
	return n[0], n[1]
}

// Line returns what trains read from one site to another, the median over the pairs of which a bulk probe has told what one flow gets; 0 if there
// are none.
func (p *Predictor) Line(fromSite, toSite string) BytesPerSec {
	s := p.lines[[2]string{fromSite, toSite}]
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}

// Flow returns what one flow gets from one site to another, the median over the pairs of which a bulk probe has told; 0 if there are none.
func (p *Predictor) Flow(fromSite, toSite string) BytesPerSec {
	s := p.bulks[[2]string{fromSite, toSite}]
	if len(s) == 0 {
		return 0
	}
	return median(s)
}

// Link returns what many flows get together from one site to another: the median over the pairs that searched for it, else what [Predictor.Line] says.
func (p *Predictor) Link(fromSite, toSite string) BytesPerSec {
	if s := p.searched[[2]string{fromSite, toSite}]; len(s) > 0 {
		return medianOfAll(s)
	}
	return p.Line(fromSite, toSite)
}

// Read returns the median of what is believed of one flow from one site to another, 0 if nothing is: before a bulk probe has told, that is what trains
// have read of the link.
func (p *Predictor) Read(fromSite, toSite string) BytesPerSec {
	return medianOfAll(p.measured[[2]string{fromSite, toSite}])
}

// medianOfAll returns the median bandwidth of samples, 0 if there are none.
func medianOfAll(samples []sample) BytesPerSec {
	if len(samples) == 0 {
		return 0
	}
	rates := make([]BytesPerSec, len(samples))
	for i, s := range samples {
		rates[i] = s.bandwidth
	}
	slices.Sort(rates)
	return median(rates)
}

// medianOf returns the median of the samples that are alike to latency; ok is false if there are none.
func medianOf(samples []sample, latency time.Duration) (_ BytesPerSec, ok bool) {
	low, high := alike(latency)
	var like []BytesPerSec
	for _, s := range samples {
		if s.latency >= low && s.latency <= high {
			like = append(like, s.bandwidth)
		}
	}
	if len(like) == 0 {
		return 0, false
	}
	slices.Sort(like)
	return median(like), true
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
// n is how many pairs could be predicted. With p pairs it takes O(p log² p).
func PredictionError(s *Snapshot) (median, p90 float64, n int) {
	byDirection := map[[2]string][]sample{}
	for i := range s.N() {
		for j := range s.N() {
			e := s.Estimate(i, j)
			if i == j || !e.Has(FieldLatency|FieldBandwidth) || e.Source == SourcePredicted {
				continue
			}
			d := [2]string{s.hosts[i].Site, s.hosts[j].Site}
			byDirection[d] = append(byDirection[d], sample{at: i*s.N() + j, latency: e.Latency, bandwidth: e.Bandwidth})
		}
	}
	var errs []float64
	for _, pairs := range byDirection {
		eachMedian(slices.Clone(pairs), pairs, true, func(of sample, predicted BytesPerSec) {
			errs = append(errs, math.Abs(float64(predicted/of.bandwidth)-1))
		})
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
	lanes     int // of a capacity
}

// medians returns, by place, the median bandwidth of the samples that are alike to each of
// gaps.
func medians(samples, gaps []sample) map[int]BytesPerSec {
	out := make(map[int]BytesPerSec, len(gaps))
	eachMedian(samples, gaps, false, func(g sample, m BytesPerSec) { out[g.at] = m })
	return out
}

// eachMedian tells of each of gaps the median bandwidth of the samples that are alike to it, if there are any; with others the gaps are
// samples themselves, and do not count for their own. Both are sorted.
//
// Sorted by latency, the samples alike to one gap after another form a window that
// only moves forward, since both its ends rise with the latency. A binary indexed tree
// over the ranks of the bandwidths holds what is in the window.
func eachMedian(samples, gaps []sample, others bool, tell func(gap sample, median BytesPerSec)) {
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

	first, end := 0, 0 // the window is samples[first:end]
	for _, g := range gaps {
		low, high := alike(g.latency)
		for ; end < len(samples) && samples[end].latency <= high; end++ {
			window.add(rank(samples[end].bandwidth), 1)
		}
		for ; first < end && samples[first].latency < low; first++ {
			window.add(rank(samples[first].bandwidth), -1)
		}
		k := end - first
		if others {
			k--
			window.add(rank(g.bandwidth), -1)
		}
		if k > 0 {
			a, b := values[window.nth((k-1)/2)], values[window.nth(k/2)]
			tell(g, a+(b-a)/2)
		}
		if others {
			window.add(rank(g.bandwidth), 1)
		}
	}
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
