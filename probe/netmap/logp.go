package netmap

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// A modelRow is what a host measured of LogP towards the hosts of a site, "@" and the name of one without a label, which is a site
// of its own to probers. In a file "" is the LAN of all hosts without labels.
type modelRow struct {
	host  int
	site  string
	model logp.Model
}

// logpWitnesses is of how many hosts of a site, in rank order, the model in the middle is taken.
const logpWitnesses = 15

// logpSizes are those at which models are compared, in bytes: what a message costs whatever its size, and
// what a long one does.
var logpSizes = [...]int64{64 << 10, 1}

// compare is below 0 if r is of a faster path than o: by long messages, then by short ones, then by rank.
func (r modelRow) compare(o modelRow) int {
	for _, size := range logpSizes {
		if c := cmp.Compare(r.model.At(size).Gap, o.model.At(size).Gap); c != 0 {
			return c
		}
	}
	return cmp.Compare(r.host, o.host)
}

// LogP returns the model of messages from→to: what from measured towards to's site, else of those of
// the other hosts of its site that have measured it the one in the middle, by its gap, of two the faster: one
// host that is slow, or lies, does not speak for its site. A class of pairs, the LAN of a site or a pair of
// sites, is measured by a few hosts and not for each pair. A host without a label is a site of its own, but where a file has models
// of the LAN of all such hosts.
func (s *Snapshot) LogP(from, to int) (logp.Model, bool) {
	target, site := s.hosts[to], s.hosts[from].Site
	var like [logpWitnesses]int // models, by gap
	n := 0
	for k, r := range s.models {
		alone := target.Site == "" && isAlone(r.site, target.Name)
		switch {
		case r.site != target.Site && !alone:
		case r.host == from:
			return r.model, true
		case site == "" && r.site != "": // a host without a label shares its site with nobody
		case s.hosts[r.host].Site == site && n < len(like):
			i := n
			for ; i > 0 && r.compare(s.models[like[i-1]]) < 0; i-- {
				like[i] = like[i-1]
			}
			like[i] = k
			n++
		}
	}
	if n == 0 {
		return logp.Model{}, false
	}
	return s.models[like[(n-1)/2]].model, true
}

// isAlone reports whether site is what probers call a host without a label.
func isAlone(site, host string) bool {
	return len(site) == len(host)+1 && site[0] == '@' && site[1:] == host
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

// maxShortMessage is what a message of a byte may cost a host or a link: at 0.1 Mbit/s a full packet takes
// 0.1 s. More is a broken clock, or malice: a plan adds it up for each block.
const maxShortMessage = time.Second

// checkModel refuses a model that no path has.
func checkModel(m logp.Model) error {
	if err := m.Check(); err != nil {
		return err
	}
	if p := m.At(1); max(p.Send, p.Receive, p.Gap) > maxShortMessage {
		return fmt.Errorf("%w: a message of a byte takes a LogP model's sender %v, its receiver %v and the link %v, want at most %v", ErrAbsurd, p.Send, p.Receive, p.Gap, maxShortMessage)
	}
	return nil
}
