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
