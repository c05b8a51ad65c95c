package exchange

import (
	"cmp"
	"slices"
	"time"
)

// How a host notices that its way to a site has fallen, and how much of what it has left others
// should deliver. Both are pure; relief.go and its neighbours act on them, docs/design/adaptation.md says why.

const (
	// paceSpan is over how long a rate is taken: shorter, and the swings of flows that share a link look like falls.
	paceSpan = 1500 * time.Millisecond
	// paceEvery is how often a way is looked at.
	paceEvery = 250 * time.Millisecond
	// paceSlots is how many looks that are.
	paceSlots = int(paceSpan / paceEvery)
	// paceLead is how long a way is watched before its rate is believed: flows that have just begun are slow.
	paceLead = time.Second
	// fallShare is below which part of what it was a rate counts as fallen. Eight flows on one link differ by a
	// third over two seconds, all of a site together by a tenth.
	fallShare = 0.55
	// earlyShare is the same in the first earlyLooks: a link whose queue overflows when an exchange begins is half empty
	// for a second or two after that.
	earlyShare = 0.4
	earlyLooks = 3 * paceSlots
	// suspectShare is below which part a host asks the others of its site.
	suspectShare = 0.8
	// leastGain and leastShare are what others must save: less is not worth what is sent twice, nor
	// beyond what forecasts are good for.
	leastGain  = time.Second
	leastShare = 0.2
)

// A pace is what a way carries now and what it carried before, by looks at regular times.
type pace struct {
	slots  [paceSlots]int64 // bytes of the last looks at which there was something to send all the time
	n      int              // looks in slots
	next   int
	all    [paceSlots]int64 // the same of the last looks, whether there was something to send or not
	last   int              // the place in all of the next
	before int64            // bytes of earlier ones
	looks  int              // how many
	got    int64            // at the last look
	begun  bool
	early  int     // looks since the first that are not counted
	age    int     // looks with something to send, up to earlyLooks
	low    float64 // the rate when it was last full, if it had fallen then; else 0
}

// look notes that got bytes have been answered in all, and whether there was something to send.
func (p *pace) look(got int64, busy bool) {
	d := got - p.got
	p.got = got
	p.all[p.last] = max(d, 0)
	p.last = (p.last + 1) % paceSlots
	if !p.begun || !busy || d < 0 {
		p.begun = p.begun || busy
		p.n = 0 // a rate is of one stretch
		return
	}
	if p.early < int(paceLead/paceEvery) {
		p.early++
		return
	}
	p.age = min(p.age+1, earlyLooks)
	if p.n == paceSlots {
		if !p.suspect() { // what it fell from stays what is compared with
			p.before += p.slots[p.next]
			p.looks++
		}
	} else {
		p.n++
	}
	p.slots[p.next] = d
	p.next = (p.next + 1) % paceSlots
	if p.full() {
		if p.low = 0; p.fell() {
			p.low = p.rate()
		}
	}
}

// rate returns the bytes a second of the last paceSpan, or of the part of it in which there was something to send; 0
// if that is too short.
func (p *pace) rate() float64 {
	if p.n < 2 {
		return 0
	}
	var sum int64
	for i := range p.n {
		sum += p.slots[(p.next-1-i+2*paceSlots)%paceSlots]
	}
	return float64(sum) / (float64(p.n) * paceEvery.Seconds())
}

// ending returns the rate of a way to which nothing is left to send beyond under bytes that are under way, and what is to be
// expected of it: that all of these had arrived in the last paceSpan, at the usual rate at most. Such a host tells of a
// fall if what it has sent does not arrive, but not by sending less.
func (p *pace) ending(under int64) (rate, usual float64) {
	var sum int64
	for _, d := range p.all {
		sum += d
	}
	rate = float64(sum) / paceSpan.Seconds()
	return rate, min(p.usual(), rate+float64(under)/paceSpan.Seconds())
}

// full reports whether there was something to send all of the time.
func (p *pace) full() bool { return p.n == paceSlots }

// usual returns the bytes a second of before, 0 if there were too few looks.
func (p *pace) usual() float64 {
	if p.looks < paceSlots/2 {
		return 0
	}
	return float64(p.before) / (float64(p.looks) * paceEvery.Seconds())
}

// share is below which part of the usual rate one counts as fallen.
func (p *pace) share() float64 {
	if p.age < earlyLooks {
		return earlyShare
	}
	return fallShare
}

// suspect reports whether the rate is below the usual one: a reason to ask the mates for theirs.
func (p *pace) suspect() bool {
	return p.full() && p.usual() > 0 && p.rate() < suspectShare*p.usual()
}

// fell reports whether the rate is far below the usual one.
func (p *pace) fell() bool {
	return p.full() && p.usual() > 0 && p.rate() < p.share()*p.usual()
}

// A stand is what a host, or all hosts of a site, have left for a site, and what they get.
type stand struct {
	backlog int64   // bytes that are not handed to a lane
	rate    float64 // bytes a second
	usual   float64 // before, of those that know it
	hosts   int
}

// add counts another host of the same site.
func (s *stand) add(o stand) {
	s.backlog += o.backlog
	s.rate += o.rate
	s.usual += o.usual
	s.hosts += o.hosts
}

// fell reports whether the site's way has fallen: below share of what is usual.
func (s *stand) fell(share float64) bool { return s.usual > 0 && s.rate < share*s.usual }

// relieve returns how many bytes of own's backlog each of others is to take so that all end at the same time, and when
// that is; nil where it saves too little. Others of no rate take nothing.
func relieve(own stand, others []stand) (take []int64, end time.Duration) {
	if own.backlog <= 0 || len(others) == 0 {
		return nil, 0
	}
	// Without a rate nothing will ever end: any time is better.
	const never = 1e9
	alone := func(s stand) float64 {
		if s.rate <= 0 {
			return never
		}
		return min(float64(s.backlog)/s.rate, never)
	}
	order := make([]int, len(others))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(alone(others[a]), alone(others[b])) })
	// Those that end before the common time take part: the ones of the earliest ends.
	backlog, rate := float64(own.backlog), own.rate
	t := alone(own)
	for _, i := range order {
		o := others[i]
		if o.rate <= 0 || alone(o) >= t {
			break
		}
		backlog += float64(o.backlog)
		rate += o.rate
		t = backlog / rate
	}
	if saves := alone(own) - t; saves < max(leastGain.Seconds(), leastShare*alone(own)) {
		return nil, 0
	}
	take = make([]int64, len(others))
	for i, o := range others {
		if o.rate > 0 {
			take[i] = max(0, int64(t*o.rate)-o.backlog)
		}
	}
	return take, time.Duration(min(t, never) * float64(time.Second))
}
