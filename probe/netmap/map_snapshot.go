package netmap

import "time"

// Which end of a pair is believed first. Bytes are counted where they arrive, since what a
// sender's socket accepts measures its buffer; what the sender's processor and clock see
// is the sender's to say.
const (
	receiverFields = FieldBandwidth | FieldCapacity | FieldLanes | FieldLoss
	senderFields   = FieldLatency | FieldGap | FieldSendOverhead
)

// outdated is how much older the better placed host's report must be before the other
// end's is believed instead.
const outdated = 5 * time.Minute

// Snapshot returns what is believed at now of the pairs of hosts, in their order. A pair
// that both ends reported takes rates and loss from the receiver, delays and overheads
// from the sender, unless the other end knows more or is more than 5 min newer. Pairs that
// nobody reported are unknown. Times of measuring that lie ahead of now, by a clock that
// differs, become now. The epoch is [Map.Epoch]: equal epochs and hosts, equal values.
func (m *Map) Snapshot(hosts []Host, now time.Time) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(hosts)
	own := make([]Host, n)
	copy(own, hosts)
	est := make([]Estimate, n*n)
	for i, from := range own {
		sent := m.reports[from.Name]
		for j, to := range own {
			if i == j {
				continue
			}
			var s, r Estimate
			if sent != nil {
				s = sent.entries[peer{name: to.Name}].est
			}
			if got := m.reports[to.Name]; got != nil {
				r = got.entries[peer{name: from.Name, incoming: true}].est
			}
			e := join(s, r)
			if e.Measured.After(now) {
				e.Measured = now.Round(0)
			}
			est[i*n+j] = e
		}
	}
	return NewSnapshot(m.epoch, own, est)
}

// join makes one belief of the sender's and the receiver's reports of a pair. Either may
// be the zero Estimate, where there is no report.
func join(sender, receiver Estimate) Estimate {
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
