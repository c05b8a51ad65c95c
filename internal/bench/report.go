package bench

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// A Report is the outcome of a benchmark. Its JSON form is that of gridagent bench -o json
// (docs/formats.md).
type Report struct {
	Ranks      int      `json:"ranks"`
	Hosts      []string `json:"hosts"` // of each rank
	Sites      []string `json:"sites"` // of each rank's host, "" where it has no label
	Collective string   `json:"collective"`
	Algorithm  string   `json:"algorithm"`       // that was asked for
	Shape      Shape    `json:"shape,omitempty"` // absent where blocks are alike
	Warmup     int      `json:"warmup"`
	Apart      bool     `json:"apart,omitempty"` // ranks began when they left the barrier, not all at the same moment
	Sizes      []Size   `json:"sizes"`
}

// A Size is the outcome for one size.
type Size struct {
	Bytes     int64  `json:"size_bytes"` // of the largest block
	Algorithm string `json:"algorithm"`  // that ran; several, with commas, where they differ
	// Of the iterations, each as long as its slowest rank took.
	Mean float64 `json:"mean_seconds"`
	Min  float64 `json:"min_seconds"`
	Max  float64 `json:"max_seconds"`
	// Bound is the mean of the iterations' bounds, Ratio is Mean/Bound; both are 0 where no
	// iteration has a bound.
	Bound float64 `json:"bound_seconds"`
	Ratio float64 `json:"bound_ratio"`
	// Direct is the mean of the iterations' direct bounds, over those that have one; 0 where none has.
	Direct float64 `json:"direct_bound_seconds,omitempty"`
	// Mbps is what each rank receives from the others in the mean, Bytes×(ranks−1) where blocks are alike, over Mean, Mbit/s.
	Mbps       float64     `json:"bus_mbps"`
	WAN        []Crossing  `json:"wan"` // mean of the iterations
	Iterations []Iteration `json:"iterations"`
}

// An Iteration is one operation that counts.
type Iteration struct {
	Seconds   float64    `json:"seconds"` // of the slowest rank
	Algorithm string     `json:"algorithm"`
	Bound     float64    `json:"bound_seconds"`                  // by the agents' map; 0 where unknown
	Direct    float64    `json:"direct_bound_seconds,omitempty"` // of an alltoall across sites, without relays
	Predicted float64    `json:"predicted_seconds"`
	WAN       []Crossing `json:"wan"`
	// By rank: of the call, by the rank's own clock, and from the group's start to the rank's
	// completion, as its agent reports it.
	RankSeconds  []float64 `json:"rank_seconds"`
	AgentSeconds []float64 `json:"agent_seconds"`
}

// A Crossing is the payload that the hosts of one site sent to those of another.
type Crossing struct {
	From  string  `json:"from"`
	To    string  `json:"to"`
	Bytes float64 `json:"bytes"` // whole, but for a mean
}

// iteration makes an iteration of what the ranks saw.
func (b *run) iteration(seen []observation) Iteration {
	it := Iteration{Algorithm: seen[0].Algorithm, Bound: seen[0].Bound, Direct: seen[0].Direct, Predicted: seen[0].Predicted, WAN: []Crossing{}}
	for r, o := range seen {
		it.Seconds = max(it.Seconds, o.Seconds)
		it.RankSeconds = append(it.RankSeconds, o.Seconds)
		it.AgentSeconds = append(it.AgentSeconds, o.Agent)
		for to, n := range o.Sent {
			it.WAN = addCrossing(it.WAN, b.sites[r], to, float64(n))
		}
	}
	return it
}

// addCrossing adds bytes to the entry of the pair in list, which is sorted.
func addCrossing(list []Crossing, from, to string, bytes float64) []Crossing {
	c := Crossing{from, to, bytes}
	i, ok := slices.BinarySearchFunc(list, c, func(a, b Crossing) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	if ok {
		list[i].Bytes += bytes
		return list
	}
	return slices.Insert(list, i, c)
}

// summarise fills in what the iterations come to, in which each rank gets so many bytes in the mean.
func (s *Size) summarise(bytes float64) {
	s.Min, s.WAN = math.Inf(1), []Crossing{}
	n := float64(len(s.Iterations))
	var names []string
	bounds, directs := 0.0, 0.0
	for _, it := range s.Iterations {
		s.Mean += it.Seconds / n
		s.Min, s.Max = min(s.Min, it.Seconds), max(s.Max, it.Seconds)
		if it.Bound > 0 {
			s.Bound += it.Bound
			bounds++
		}
		if it.Direct > 0 {
			s.Direct += it.Direct
			directs++
		}
		if !slices.Contains(names, it.Algorithm) {
			names = append(names, it.Algorithm)
		}
		for _, c := range it.WAN {
			s.WAN = addCrossing(s.WAN, c.From, c.To, c.Bytes/n)
		}
	}
	s.Algorithm = strings.Join(names, ",")
	if bounds > 0 {
		s.Bound /= bounds
		s.Ratio = s.Mean / s.Bound
	}
	if directs > 0 {
		s.Direct /= directs
	}
	if s.Mean > 0 {
		s.Mbps = 8 * bytes / s.Mean / 1e6
	}
}
