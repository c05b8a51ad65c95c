package netmap

import (
	"cmp"
	"slices"
	"time"
)

// Which end of a pair is believed first. Bytes are counted where they arrive, since what a
// sender's socket accepts measures its buffer; what the sender's processor and clock see
// is the sender's to say.
const (
	receiverFields = FieldBandwidth | FieldLine | FieldCapacity | FieldLanes | FieldLoss | FieldCarried
	senderFields   = FieldLatency | FieldVariation | FieldGap | FieldSendOverhead
)

// outdated is how much older the better placed host's report must be before the other
// end's is believed instead.
const outdated = 5 * time.Minute

// Lookup returns what is believed of from→to at now, as [Map.Snapshot] does, and whether
// anything is. It looks at two reports and no more.
func (m *Map) Lookup(from, to string, now time.Time) (Estimate, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from == to {
		return Estimate{}, false
	}
	doubted := m.lookForSuspects(now).doubts
	e := m.belief(from, to, doubted, now)
	return e, e.Known != 0
}

// belief returns what is believed of from→to where some hosts are doubted. The caller holds the lock.
func (m *Map) belief(from, to string, doubted doubts, now time.Time) Estimate {
	liars := doubted.liars
	e := believe(m.estimate(from, peer{to, sent}), m.estimate(to, peer{from, received}), liars[from], liars[to], now)
	if liars[from] && !liars[to] {
		e = e.roundTripOf(m.estimate(to, peer{from, sent}))
	}
	return doubted.temper(e, to)
}

// roundTripOf returns e with the latency that the other end has found, if it has: both
// are half of the same round trip.
func (e Estimate) roundTripOf(back Estimate) Estimate {
	measured := e.Measured
	if e.Known != 0 {
		e = e.overlay(back.only(FieldLatency | FieldVariation))
		e.Measured = measured
	}
	return e
}

// Claimed returns what from itself reports of from→to, whatever others say, and whether it
// reports anything.
func (m *Map) Claimed(from, to string) (Estimate, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.estimate(from, peer{to, sent})
	return e, e.Known != 0
}

// Snapshot returns what is believed at now of the pairs of hosts, in their order. A pair
// that both ends reported takes rates and loss from the receiver, delays and overheads
// from the sender, unless the other end knows more or is more than 5 min newer, or one of
// them is a suspect ([Map.Suspects]). Pairs that nobody reported are unknown. Times of
// measuring that lie ahead of now, by a clock that differs, become now. The epoch is
// [Map.Epoch]: equal epochs and hosts, equal values, but for suspicions that come and go.
//
// It takes time and memory for n² estimates: ask for the hosts that matter.
func (m *Map) Snapshot(hosts []Host, now time.Time) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(hosts)
	own := make([]Host, n)
	copy(own, hosts)
	index := make(map[string]int, n)
	for i, h := range own {
		index[h.Name] = i
	}
	doubted := m.lookForSuspects(now).doubts
	// Of n² pairs few may have been measured: each host's row is walked, not each pair.
	fromSender, fromReceiver := map[int]Estimate{}, map[int]Estimate{}
	s := NewSnapshot(m.epoch, own, make([]Estimate, n*n))
	s.turns = make([]turn, n*n)
	for i, h := range own {
		m.each(h.Name, func(e *entry) {
			j, ok := index[e.name]
			switch {
			case e.kind == overhead:
				s.models = append(s.models, modelRow{host: i, site: e.name, model: *e.model})
			case !ok || i == j:
			case e.kind == sent:
				fromSender[i*n+j] = e.est
				s.turns[i*n+j] = e.turn
			default:
				fromReceiver[j*n+i] = e.est
			}
		})
	}
	slices.SortFunc(s.models, func(a, b modelRow) int { return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.site, b.site)) })
	for at, e := range fromSender {
		i, j := at/n, at%n
		s.est[at] = believe(e, fromReceiver[at], doubted.liars[own[i].Name], doubted.liars[own[j].Name], now)
		if doubted.liars[own[i].Name] && !doubted.liars[own[j].Name] {
			s.est[at] = s.est[at].roundTripOf(fromSender[j*n+i])
		}
		s.est[at] = doubted.temper(s.est[at], own[j].Name)
	}
	for at, e := range fromReceiver {
		if _, both := fromSender[at]; !both {
			i, j := at/n, at%n
			s.est[at] = believe(Estimate{}, e, doubted.liars[own[i].Name], doubted.liars[own[j].Name], now)
			if doubted.liars[own[i].Name] && !doubted.liars[own[j].Name] {
				s.est[at] = s.est[at].roundTripOf(fromSender[j*n+i])
			}
			s.est[at] = doubted.temper(s.est[at], own[j].Name)
		}
	}
	return s
}

// believe makes one belief of the sender's and the receiver's reports of a pair. Either
// may be the zero Estimate, where there is no report. What a suspect says gives way.
func believe(sender, receiver Estimate, senderSuspect, receiverSuspect bool, now time.Time) Estimate {
	var e Estimate
	switch {
	case senderSuspect && !receiverSuspect:
		e = sender.only(^receiverFields).overlay(receiver)
	case receiverSuspect && !senderSuspect:
		e = receiver.only(^receiverFields).overlay(sender)
	case senderSuspect: // both
		e = join(sender, receiver).only(^receiverFields)
	default:
		e = join(sender, receiver)
	}
	if e.Measured.After(now) {
		e.Measured = now.Round(0)
	}
	return e
}

// join makes one belief of two honest reports.
func join(sender, receiver Estimate) Estimate {
	switch { // as for most pairs: receivers report where they object
	case receiver.Known == 0 && sender.Known == 0:
		return Estimate{}
	case receiver.Known == 0:
		return sender.clean()
	case sender.Known == 0:
		return receiver.clean()
	}
	return joinBoth(sender, receiver)
}

// joinBoth is join of two reports that both say something; it is true of any two.
func joinBoth(sender, receiver Estimate) Estimate {
	return prefer(receiver, sender, receiverFields).overlay(prefer(sender, receiver, senderFields))
}

// prefer returns fields from first, or from second where first lacks them or is outdated.
func prefer(first, second Estimate, fields Field) Estimate {
	a, b := first.only(fields), second.only(fields)
	if b.Known == 0 {
		b = Estimate{} // its age says nothing about these fields
	}
	if a.Known == 0 {
		return b
	}
	if b.Measured.Sub(a.Measured) > outdated {
		return a.overlay(b)
	}
	return b.overlay(a)
}
