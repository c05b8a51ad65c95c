package netmap

import (
	"fmt"
	"slices"
	"time"
)

// A Host is one row and column of a map. Name is unique; Site is the operator's label. PortMbps is what its port carries in each direction, Mbit/s, where
// somebody has declared that; 0: nobody has. Agents do not measure it.
type Host struct {
	Name     string  `json:"name"`
	Site     string  `json:"site,omitempty"`
	PortMbps float64 `json:"port_mbps,omitempty"`
}

// A Snapshot is an immutable copy of the network map: Hosts and an N×N matrix of
// estimates, row = sender. The diagonal is never read.
type Snapshot struct {
	epoch uint64
	hosts []Host
	est   []Estimate // row-major, n×n, [from*n+to]
	turns []turn     // of est; nil: nothing is known of them

	models []modelRow // LogP, by host and site
}

// NewSnapshot returns a snapshot over hosts with est, row-major n×n, [from*n+to].
// It takes ownership of both slices. It panics if their lengths do not fit.
func NewSnapshot(epoch uint64, hosts []Host, est []Estimate) *Snapshot {
	if len(est) != len(hosts)*len(hosts) {
		panic(fmt.Sprintf("netmap: %d estimates for %d hosts", len(est), len(hosts)))
	}
	return &Snapshot{epoch: epoch, hosts: hosts, est: est}
}

// Epoch numbers the snapshot; a later snapshot of the same [Map] whose values differ has
// a larger epoch. Epochs of different maps do not compare.
func (s *Snapshot) Epoch() uint64 { return s.epoch }

// N is the number of hosts.
func (s *Snapshot) N() int { return len(s.hosts) }

// Host returns host i.
func (s *Snapshot) Host(i int) Host { return s.hosts[i] }

// Hosts returns the hosts in rank order. The caller must not modify the slice.
func (s *Snapshot) Hosts() []Host { return s.hosts }

// Names returns the names of the hosts in rank order. The caller owns the slice.
func (s *Snapshot) Names() []string {
	names := make([]string, len(s.hosts))
	for i, h := range s.hosts {
		names[i] = h.Name
	}
	return names
}

// Index returns the position of the host called name, or -1.
func (s *Snapshot) Index(name string) int {
	for i, h := range s.hosts {
		if h.Name == name {
			return i
		}
	}
	return -1
}

// Estimate returns what is believed of from→to.
func (s *Snapshot) Estimate(from, to int) Estimate { return s.est[from*len(s.hosts)+to] }

// Bandwidth returns what one flow gets on from→to.
func (s *Snapshot) Bandwidth(from, to int) (BytesPerSec, bool) {
	e := s.Estimate(from, to)
	return e.Bandwidth, e.Has(FieldBandwidth)
}

// Capacity returns what many flows get together on from→to: the measured
// capacity, or where there is none the one-flow bandwidth, or what exchanges were seen to get if that is more.
func (s *Snapshot) Capacity(from, to int) (BytesPerSec, bool) {
	e := s.Estimate(from, to)
	switch {
	case e.Has(FieldCapacity):
		return e.Capacity, true
	case e.Has(FieldBandwidth | FieldCarried):
		return max(e.Bandwidth, e.Carried), true
	}
	return e.Bandwidth, e.Has(FieldBandwidth)
}

// Pair returns what one pair of hosts gets on from→to over as many flows as it likes: the measured capacity, or what one flow gets where
// there is none or that is more, and no more than is declared of the ports of the two. What exchanges were seen to get says nothing of it: several pairs got
// that together.
func (s *Snapshot) Pair(from, to int) (BytesPerSec, bool) {
	e := s.Estimate(from, to)
	if !e.Has(FieldBandwidth) {
		return 0, false
	}
	rate := e.Bandwidth
	if e.Has(FieldCapacity) && e.Capacity > rate {
		rate = e.Capacity
	}
	for _, h := range []int{from, to} {
		// Less by the last digits is the same rate, which went through Mbit/s.
		if port := BytesPerSec(s.hosts[h].PortMbps) * Mbps; port > 0 && port < rate*(1-1e-9) {
			rate = port
		}
	}
	return rate, true
}

// Link returns what all pairs of hosts of the two sites get together by what is known of from→to: its capacity, or what exchanges of several pairs
// were seen to get where that is more because a port holds each of them ([PortHolds]).
func (s *Snapshot) Link(from, to int) (BytesPerSec, bool) {
	all, ok := s.Capacity(from, to)
	if e := s.Estimate(from, to); ok && e.Has(FieldCarried) {
		all = max(all, e.Carried)
	}
	return all, ok
}

// TransferTime returns L + size/B for from→to, rounded to a nanosecond
// (Gupta & Vadhiyar, equation 1). It returns [ErrNotMeasured], wrapped with the
// pair, if latency or bandwidth is missing.
func (s *Snapshot) TransferTime(from, to int, size int64) (time.Duration, error) {
	e := s.Estimate(from, to)
	if !e.Has(FieldLatency | FieldBandwidth) {
		return 0, fmt.Errorf("transfer of %d bytes %s→%s: %w", size, s.hosts[from].Name, s.hosts[to].Name, ErrNotMeasured)
	}
	return e.Latency + e.Bandwidth.Time(size), nil
}

// With returns s with other estimates, row by row, of which it keeps the slice.
func (s *Snapshot) With(est []Estimate) *Snapshot {
	out := NewSnapshot(s.epoch, slices.Clone(s.hosts), est)
	out.models, out.turns = s.models, s.turns
	return out
}

// Subset returns the snapshot restricted to the hosts at the indices in order: s itself if these are all.
func (s *Snapshot) Subset(indices []int) *Snapshot {
	n := len(indices)
	if same := 0; n == len(s.hosts) { // n² estimates need no copy, since a snapshot does not change
		for same < n && indices[same] == same {
			same++
		}
		if same == n {
			return s
		}
	}
	hosts := make([]Host, n)
	est := make([]Estimate, n*n)
	for a, i := range indices {
		hosts[a] = s.hosts[i]
		for b, j := range indices {
			est[a*n+b] = s.Estimate(i, j)
		}
	}
	sub := NewSnapshot(s.epoch, hosts, est)
	sub.models = s.subsetModels(indices)
	if s.turns != nil {
		sub.turns = make([]turn, n*n)
		for a, i := range indices {
			for b, j := range indices {
				sub.turns[a*n+b] = s.turns[i*len(s.hosts)+j]
			}
		}
	}
	return sub
}
