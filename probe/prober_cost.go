package probe

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A Cost is what measuring costs, and what it may.
type Cost struct {
	Share     float64 // of a link's rate, in the long run
	HourlyCap int64   // bytes that this host may send in an hour; 0: no cap
	LastHour  int64   // bytes that it sent in the last one, UDP payload
	Links     []LinkCost
}

// A LinkCost is the cost of a link that leaves this host's site, as its keeper knows it.
type LinkCost struct {
	From, To string             // sites
	Capacity netmap.BytesPerSec // that the last train read, 0 unknown
	LastHour int64              // bytes of all hosts' probes in the last hour, of the trains' packets as the link carries them
}

// Cost returns what measuring has cost.
func (p *Prober) Cost() Cost {
	now := time.Now()
	c := Cost{Share: p.cfg.Share, HourlyCap: max(p.cfg.HourlyCap, 0), Links: p.keeper.costs(now)}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.LastHour = p.account.total(now)
	return c
}

// charge notes that bytes were sent.
func (p *Prober) charge(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Bytes += bytes
	p.account.add(time.Now(), bytes)
}

// capped returns a [BusyError] if cost bytes would exceed the hourly cap.
func (p *Prober) capped(cost int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sent := p.account.total(time.Now()); p.cfg.HourlyCap > 0 && sent+cost > p.cfg.HourlyCap {
		return &BusyError{Retry: time.Minute, Why: fmt.Sprintf("%d bytes of probes in the last hour, at most %d are allowed", sent, p.cfg.HourlyCap)}
	}
	return nil
}

// left returns how many bytes the hourly cap still allows.
func (p *Prober) left() int64 {
	if p.cfg.HourlyCap < 0 {
		return math.MaxInt64
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.cfg.HourlyCap-p.account.total(time.Now()), 0)
}

// Of what the hourly cap still leaves, trains to other sites may take half in an hour, and a part of paceBurst at once. Both fall with
// what is left: whatever is sent, some is left for the rest of the hour. Over a link of 1 Gbit/s and more one session of
// trains takes 0.6 MB, and the link's own share would pay for one each watchGap.
const (
	paceShare = 0.5
	paceBurst = 1.0 / 16
	// paceUrgent is how many times that burst second opinions and pairs that were never measured may owe.
	paceUrgent = 2
)

// A pace spreads over the hour what trains to other sites take of a host's cap. The zero value owes nothing.
type pace struct {
	owed float64 // bytes, at the time at
	at   time.Time
}

// leak brings what is owed up to now, where so many bytes are left of the cap.
func (c *pace) leak(now time.Time, left int64) {
	if passed := now.Sub(c.at); !c.at.IsZero() && passed > 0 {
		c.owed = max(c.owed-paceShare*float64(left)*passed.Hours(), 0)
	}
	c.at = now
}

// wait returns how long to wait until cost bytes may be sent for u, 0 if they may be now.
func (c *pace) wait(now time.Time, u use, cost, left int64) time.Duration {
	c.leak(now, left)
	burst := paceBurst * float64(left)
	if u == first || u == urgent {
		burst *= paceUrgent
	}
	over := min(c.owed+float64(cost)-burst, c.owed)
	switch {
	case over < 1:
		return 0
	case left <= 0:
		return time.Minute
	}
	hours := over / (paceShare * float64(left))
	return time.Duration(min(max(hours*3600, 1), 60) * float64(time.Second))
}

// spend notes that bytes were sent.
func (c *pace) spend(now time.Time, bytes, left int64) {
	c.leak(now, left)
	c.owed += float64(bytes)
}

// paced returns a [BusyError] while trains to other sites have to wait for what is left of the hourly cap.
func (p *Prober) paced(site string, u use, cost int64) error {
	if p.cfg.HourlyCap < 0 {
		return nil
	}
	left := p.left()
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[site]; l != nil { // one that is too short to time is followed by longer ones
		cost = max(cost, int64(min(float64(l.read)*minSpan.Seconds(), maxTrain*trainPayload)))
	}
	if d := p.abroad.wait(time.Now(), u, cost, left); d > 0 {
		return &BusyError{Retry: d, Why: "what is left of the hourly cap is for the whole hour"}
	}
	return nil
}

// hostTerms are [Config.hostTerms], and no more of what is left of the hourly cap than would last an hour. The caller holds the lock.
func (p *Prober) hostTerms() terms {
	t := p.cfg.hostTerms()
	if p.cfg.HourlyCap > 0 {
		left := max(p.cfg.HourlyCap-p.account.total(time.Now()), 1)
		t.ceiling = min(t.ceiling, float64(left)/time.Hour.Seconds())
	}
	return t
}
