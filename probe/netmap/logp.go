package netmap

import (
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// A modelRow is what a host measured of LogP towards the hosts of a site.
type modelRow struct {
	host  int
	site  string
	model logp.Model
}

// LogP returns the model of messages from→to: what from measured towards to's site, else
// what the first host of its site in rank order did that has measured it. A class of pairs,
// the LAN of a site or a pair of sites, is measured once and not for each pair.
func (s *Snapshot) LogP(from, to int) (logp.Model, bool) {
	site := s.hosts[to].Site
	best := -1
	for k, r := range s.models {
		if r.site != site || r.host != from && s.hosts[r.host].Site != s.hosts[from].Site {
			continue
		}
		if best < 0 || r.host == from || s.models[best].host != from && r.host < s.models[best].host {
			best = k
		}
	}
	if best < 0 {
		return logp.Model{}, false
	}
	return s.models[best].model, true
}

// Gap returns g(size) for from→to: the gap of the estimate where it has one; else that of
// the model, held between size/B and g(0)+size/B, because a link's rate changes more often
// than a model is measured; else size/B alone, which is [Forever] without a bandwidth.
func (s *Snapshot) Gap(from, to int, size int64) time.Duration {
	e := s.Estimate(from, to)
	if e.Has(FieldGap) {
		return e.Gap
	}
	m, ok := s.LogP(from, to)
	switch {
	case !ok:
		return e.Bandwidth.Time(size)
	case !e.Has(FieldBandwidth):
		return m.At(size).Gap
	}
	wire := e.Bandwidth.Time(size)
	return max(wire, min(m.At(size).Gap, m.At(0).Gap+wire))
}

// SendOverhead returns os(size) for from→to: that of the estimate, else that of the model,
// 0 where none was measured.
func (s *Snapshot) SendOverhead(from, to int, size int64) time.Duration {
	e := s.Estimate(from, to)
	if e.Has(FieldSendOverhead) {
		return e.SendOverhead
	}
	if m, ok := s.LogP(from, to); ok {
		return m.At(size).Send
	}
	return 0
}

// subsetModels returns the models of the hosts at the indices, renumbered.
func (s *Snapshot) subsetModels(indices []int) []modelRow {
	var out []modelRow
	for _, r := range s.models {
		if k := slices.Index(indices, r.host); k >= 0 {
			r.host = k
			out = append(out, r)
		}
	}
	return out
}
