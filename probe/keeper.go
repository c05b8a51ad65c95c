package probe

import (
	"context"
	"sync"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// leaseTime ends the lease of a holder that says nothing. A holder that dies loses
	// its lease with its connection, which is sooner.
	leaseTime = 15 * time.Second
	// leaseQueue is how long a request waits for a lease that is held: handing over
	// beats asking again.
	leaseQueue   = 5 * time.Second
	leaseWaiters = 64   // a link
	leaseLinks   = 4096 // bounds the memory that requests for invented sites can take
)

// A siteLink is the way from one site to another.
type siteLink struct{ from, to string }

// A keeper leases the links that leave its host's site: at most one train a link at a
// time, within the link's budget. The keeper of a site is the member with the lowest
// name that carries its label, as each asker sees it: while views differ there may be
// two, and two trains may meet on a link. That spoils two samples and harms nobody,
// so nothing is done to rule it out.
type keeper struct {
	share float64
	burst int64

	mu    sync.Mutex // guards links; never held while waiting
	links map[siteLink]*leased
}

type leased struct {
	held    bool
	waiters int
	freed   chan struct{} // closed and replaced when the lease is given back
	budget  budget
}

func newKeeper(share float64, burst int64) *keeper {
	return &keeper{share: share, burst: burst, links: make(map[siteLink]*leased)}
}

// acquire waits for the lease of l, at most leaseQueue. It returns a [BusyError] if
// the lease cannot be had now: it is held, or the link's budget is spent. On success
// the caller must call release once with the bytes it sent and the rate it read, 0 if none.
func (k *keeper) acquire(ctx context.Context, l siteLink, u use) (release func(bytes int64, rate netmap.BytesPerSec), err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseQueue)
	defer cancel()
	for {
		freed, err := k.try(l, u)
		if err != nil {
			return nil, err
		}
		if freed == nil {
			return func(bytes int64, rate netmap.BytesPerSec) { k.release(l, u, bytes, rate) }, nil
		}
		select {
		case <-freed:
			k.leave(l)
		case <-ctx.Done():
			k.leave(l)
			return nil, &BusyError{Retry: time.Second, Why: "queue for the link"}
		}
	}
}

// try takes the lease, or returns what to wait for; the caller then owes a call of leave.
func (k *keeper) try(l siteLink, u use) (freed <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	if e == nil {
		if len(k.links) >= leaseLinks {
			return nil, &BusyError{Retry: time.Minute, Why: "too many links"}
		}
		e = &leased{freed: make(chan struct{})}
		k.links[l] = e
	}
	if d := e.budget.wait(time.Now(), u, firstTrain*trainPayload, k.share, k.burst); d > 0 {
		return nil, &BusyError{Retry: d, Why: "budget of the link"}
	}
	if !e.held {
		e.held = true
		return nil, nil
	}
	if e.waiters >= leaseWaiters {
		return nil, &BusyError{Retry: time.Second, Why: "queue for the link"}
	}
	e.waiters++
	return e.freed, nil
}

func (k *keeper) leave(l siteLink) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.links[l].waiters--
}

func (k *keeper) release(l siteLink, u use, bytes int64, rate netmap.BytesPerSec) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.links[l]
	e.held = false
	e.budget.spend(time.Now(), u, bytes, rate, k.share)
	close(e.freed)
	e.freed = make(chan struct{})
}

// keeperOf returns the member that leases the links that leave site.
func keeperOf(site string, members []Peer) string {
	name := ""
	for _, m := range members {
		if m.site() == site && (name == "" || m.Name < name) {
			name = m.Name
		}
	}
	return name
}
