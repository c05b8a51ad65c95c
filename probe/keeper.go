package probe

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// leaseTime ends the lease of a holder that says nothing. A holder that dies loses
	// its lease with its connection, which is sooner.
	leaseTime = 15 * time.Second
	// longLease is the same where a long probe may follow, an operator's or a scheduled one.
	longLease = 2 * time.Minute
	// leaseQueue is how long a request waits for a lease that is held: handing over
	// beats asking again. One for a turn waits no longer than until the next turns: see [patience].
	leaseQueue   = 5 * time.Second
	leaseWaiters = 64   // a link
	leaseAsks    = 4    // of them of one host: a turn, a second opinion, a long probe, an operator's
	leaseLinks   = 4096 // bounds the memory that requests can take, whatever sites come and go, see [keeper.forget]
	// leaseFree is how much of each lease that was used is not held against its host's ration: a session
	// of trains over the longest paths takes that. What remains are long probes, and hosts that hold a
	// link for nothing.
	leaseFree = 3 * time.Second

	// watchGap is the least time between two trains that watch a link. On a link of
	// 12 Mbit/s and more it decides, on slower ones the budget does.
	watchGap = 2500 * time.Millisecond
	// urgentGap is the same for second opinions while an exchange runs. Those that found another
	// rate, or nothing, are followed by others sooner: see [alarms].
	urgentGap = 10 * time.Second
	// urgentMost is how many there may be in urgentGap. A train of 8 packets is 0.7 % of what
	// 1.2 Mbit/s carry in that time.
	urgentMost = 4
	// urgentRetry is after how long one follows another that was lost in a full queue.
	urgentRetry = 500 * time.Millisecond
	// outdated is how far what a host last read of a link must lie off what others have
	// read since for its next train to be urgent: more than trains differ by.
	outdated = 0.25

	// searchClear is how long the first search of a link waits after a long probe, which is one that has held the link for longHeld. A bulk probe ends with half a second of packets before a ceiling of
	// 1 Mbit/s, and a search takes what is left beside them for what the link has: on one of 1.66 Mbit/s that holds each flow to 1 two lanes got 1.05 so, and nobody looked again. Trains need not wait.
	searchClear = time.Second
	longHeld    = 500 * time.Millisecond

	// sessionCost is what a session costs a link beside its trains, each way: the
	// messages, their acknowledgements and the packets' headers.
	sessionCost = 900
	// packetCost is what a link carries of a packet beside its payload: UDP and IPv4.
	packetCost = 28
	// answerCost is what comes back for each byte of a long probe: acknowledgements of every second packet, and reports. Of a
	// session of trains that is its messages, [sessionCost] at most. Where the way back is a small part of the way there, a host's
	// uplink, the answers decide how often the link may be measured.
	answerCost = 0.03
	// mostBack is how many times as much as the way back a link may carry before the answers to long probes decide.
	mostBack = answeringLong / (accounted * partAgain) / answerCost

	// substituteShare is the part of a link's ration that keepers have who lend it in the place of one that does not answer or has refused
	// for long: that one may be honest, and lend it as well.
	substituteShare = 0.25

	// youth is for how long a link is young: new grids are measured at once, on bursts that no hour of a later
	// day may have.
	youth = 10 * time.Minute
)

// A siteLink is the way from one site to another.
type siteLink struct{ from, to string }

// A request is what a host asks a keeper for.
type request struct {
	host string // that asks, "" for the keeper's own
	use  use
	cost int64              // bytes that it will send, about
	read netmap.BytesPerSec // what its last train over the link read, 0 if none
	// The keeper adds:
	back       netmap.BytesPerSec // what the link the other way carries, 0 unknown
	substitute bool               // another one is the site's keeper, and has a ration of its own
	busy       bool               // an exchange runs at the keeper
}

// A keeper leases the links that leave its host's site: at most one probe a link at a
// time, within the link's budget. The keeper of a site is the member with the lowest
// name that carries its label, as each asker sees it: while views differ there may be
// two, and two trains may meet on a link. That spoils two samples and harms nobody,
// so nothing is done to rule it out.
type keeper struct {
	terms terms

	mu    sync.Mutex // guards the fields below; never held while waiting
	links map[siteLink]*leased
	holds map[string]*hold // by host of the site
}

type leased struct {
	began   time.Time // when somebody first asked for it
	reverse float64   // bytes a second that the link the other way carries, 0 unknown
	held    bool
	since   time.Time      // when the holder got it
	waiters map[string]int // requests that wait, by host
	freed   chan struct{}  // closed and replaced when the lease is given back
	rations rations        // of the time for which hosts hold it
	rate    linkReadings
	budget  budget
	account account
	watched time.Time // when a watch was granted last
	filled  time.Time // when a probe ended last that had filled the link
	alarms  alarms    // urgent trains that were granted while an exchange ran
	alarm   bool      // the holder's is one of them

	back     chan struct{} // closed when the lease is wanted back
	recalled bool          // it is
}

func newKeeper(t terms) *keeper {
	return &keeper{terms: t, links: make(map[siteLink]*leased), holds: make(map[string]*hold)}
}

// acquire waits for the lease of l, at most as long as patience says. It returns a [BusyError] if
// the lease cannot be had now: it is held, or the link's budget is spent. On success
// the caller must call release once with the bytes it sent and the rate it read, 0 if none.
func (k *keeper) acquire(ctx context.Context, l siteLink, q request) (release func(bytes int64, rate netmap.BytesPerSec), err error) {
	most, retry := patience(q, time.Now())
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		freed, u, err := k.try(l, q)
		if err != nil {
			return nil, err
		}
		if freed == nil {
			return func(bytes int64, rate netmap.BytesPerSec) { k.release(l, q, u, bytes, rate) }, nil
		}
		select {
		case <-freed:
			k.leave(l, q.host)
		case <-ctx.Done():
			k.leave(l, q.host)
			return nil, &BusyError{Retry: retry, Why: "queue for the link"}
		}
	}
}

// patience returns how long a request waits at most for a lease that is held, and after how long its host may ask again. A train of
// a turn waits until shortly before the next turns: its host may have one with another site then, and this link is another host's.
func patience(q request, now time.Time) (most, retry time.Duration) {
	if q.use == watch || q.use == first && q.cost <= firstCost {
		_, into := roundAt(now)
		return mod64(insideTime/2-into, roundTime), slotRetry
	}
	return leaseQueue, time.Second
}

// try takes the lease, or returns what to wait for; the caller then owes a call of leave.
// It also returns what the lease is charged to: an asker whose last reading is
// outdated gets a second opinion.
func (k *keeper) try(l siteLink, q request) (freed <-chan struct{}, u use, err error) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	if e == nil {
		if len(k.links) >= leaseLinks {
			return nil, 0, &BusyError{Retry: time.Minute, Why: "too many links"}
		}
		e = &leased{began: now, freed: make(chan struct{}), waiters: make(map[string]int)}
		k.links[l] = e
	}
	e.reverse = float64(q.back)
	if q.busy = q.busy || k.isHeld(); q.busy {
		if u = q.use; u == watch && e.outdates(q) {
			u = urgent
		}
		if u != urgent {
			return nil, 0, &BusyError{Retry: busyRetry, Why: "exchange"}
		}
		if d := e.alarms.wait(now); d > 0 {
			// What the other one finds may entitle this host to its own: it asks again.
			return nil, 0, &BusyError{Retry: min(d, time.Second), Why: "another second opinion during an exchange"}
		}
	}
	if q.host != "" {
		if d := e.rations.wait(q.host, now); d > 0 {
			return nil, 0, &BusyError{Retry: d, Why: "you have held this link for long"}
		}
	}
	u, err = e.afford(now, q, k.termsOf(e, q, now))
	if err != nil {
		return nil, 0, err
	}
	freed = e.freed
	if d := e.filled.Add(searchClear).Sub(now); d > 0 && q.use == searching && !e.held {
		gone := make(chan struct{})
		time.AfterFunc(d, func() { close(gone) })
		freed = gone
	} else if !e.held {
		e.held, e.since = true, now
		e.back, e.recalled = make(chan struct{}), false
		if u == watch {
			e.watched = now
		}
		if e.alarm = q.busy; q.busy {
			e.alarms.grant(now)
			e.recall()
		}
		return nil, u, nil
	}
	all := 0
	for _, n := range e.waiters {
		all += n
	}
	if all >= leaseWaiters || e.waiters[q.host] >= leaseAsks {
		return nil, 0, &BusyError{Retry: time.Second, Why: "queue for the link"}
	}
	e.waiters[q.host]++
	return freed, u, nil
}

func (k *keeper) leave(l siteLink, host string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	if e.waiters[host]--; e.waiters[host] <= 0 {
		delete(e.waiters, host)
	}
}

func (k *keeper) release(l siteLink, q request, u use, bytes int64, rate netmap.BytesPerSec) {
	host := q.host
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	held := now.Sub(e.since)
	if bytes > 0 && held >= longHeld {
		e.filled = now
	}
	free := time.Duration(0)
	if bytes >= slowTrain*trainPayload { // which the budget allows seldom; other leases are held for nothing
		free = leaseFree
	}
	if host != "" && held > free {
		e.rations.take(host, e.since.Add(free), now)
	}
	changed := rate > 0 && e.rate.said(host, max(float64(rate), 1), now)
	if most := mostSent(e.rate.rate(), held); u == searching || u == glancing || u == together { // lanes may get many times what trains read, and the others' budget is not this one's
		bytes = min(bytes, max(most, int64(k.terms.burst)))
	} else {
		bytes = min(bytes, most)
	}
	if e.held = false; bytes == 0 {
		e.watched = time.Time{} // the holder found its peer taken
	}
	if e.alarm {
		e.alarms.ended(now, bytes > 0, rate > 0, changed)
	}
	link, more := netmap.BytesPerSec(e.rate.rate()), int64(0)
	charged := min(bytes, mostCharged(float64(link), held, u))
	if u == watch {
		// What goes beyond one train has found a change and asked for second opinions. Charged to
		// watching it would leave a link that has just fallen unwatched for most of a minute.
		more = max(charged-q.cost, 0)
		charged -= more
	}
	t := k.termsOf(e, q, now)
	if q.cost > firstCost {
		charged = e.longCost(charged)
	}
	e.budget.spend(now, u, charged, link, t)
	e.budget.spend(now, urgent, more, link, t)
	e.account.add(now, bytes)
	close(e.freed)
	e.freed = make(chan struct{})
}

// forget drops the links to sites that have no member any more, or 4096 of them in the life of an agent would be all that it ever lends: a
// host without a label is a site. What the last hour's probes have cost is kept, so a site that is away for a minute is no new one.
func (k *keeper) forget(members map[string]bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l, e := range k.links {
		if !members[l.to] && !e.held && len(e.waiters) == 0 && e.account.total(now) == 0 {
			delete(k.links, l)
		}
	}
}

// mostSent returns how many bytes the holder of a lease can have sent over a link of a rate. Who
// claims more is wrong or lies; to believe it would end the measuring of the link. Twice what the
// link carries, since a train may be lost in a full queue, and what a first session begins with.
func mostSent(rate float64, held time.Duration) int64 {
	if rate <= 0 {
		return maxSessionBytes
	}
	return min(maxSessionBytes, 2*firstCost) + int64(2*rate*held.Seconds())
}

// mostCharged returns how many bytes the budget of a link of a rate is charged at most for a lease: what the link carries in twice the time, of a second at
// least, and many lanes many times what trains read. More has shown that the rate is wrong, which may be the word of
// one host where few read the link: a debt of 10 kB of a link that is said to carry 1 B/s would stay for weeks, and as so much of the link's time also when others read it.
func mostCharged(rate float64, held time.Duration, u use) int64 {
	if rate <= 0 {
		return math.MaxInt64
	}
	most := 2 * rate * max(held, time.Second).Seconds()
	if u == searching || u == glancing || u == together {
		most *= maxLanes
	}
	return int64(most)
}

// costs returns what the links that were leased here have cost, by name.
func (k *keeper) costs(now time.Time) []LinkCost {
	k.mu.Lock()
	defer k.mu.Unlock()
	cs := make([]LinkCost, 0, len(k.links))
	for l, e := range k.links {
		cs = append(cs, LinkCost{From: l.from, To: l.to, Capacity: netmap.BytesPerSec(e.budget.rate), LastHour: e.account.total(now)})
	}
	slices.SortFunc(cs, func(a, b LinkCost) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return cs
}
