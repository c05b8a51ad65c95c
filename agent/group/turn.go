package group

import (
	"sync"
	"time"
)

const (
	// turnBytes is what all hosts of a site together may say to another site at one instant. Every message is a packet, so
	// it is 32 packets, half of what the queue of a slow link has room for.
	turnBytes = 4 << 10
	// leastSaid is what a message counts as at least, in bytes: a packet's headers and a short word.
	leastSaid = 128
	// saidHeader is what it has beside its part and rows.
	saidHeader = 200
	// maxTurn bounds a wait: the rate of a way may be believed by mistake.
	maxTurn = 250 * time.Millisecond
	// maxTurns bounds the sites that are remembered.
	maxTurns = 1024
)

// A Way is what is believed of the way to another host.
type Way struct {
	Site string  // its hosts share the way
	Rate float64 // bytes a second of the slowest link; 0: unknown, or too short to matter
	// Mates is how many hosts use it like this one, itself included.
	Mates int
}

// turns spreads what this host says to another site over time, at the rate at which the way there carries it.
//
// Why it is here: hosts of many groups that call at the same time tell their coordinators so in one packet each. Eight hosts of
// twelve groups threw 96 packets at a link whose queue held 64. Those that were lost came 0.3 to 1.1 s
// later, behind the data of the groups that had begun meanwhile, and so the last groups began a second after the first.
// A message alone, and the first few of many, wait for nothing.
type turns struct {
	mu   sync.Mutex           // guards free
	free map[string]time.Time // by site: when what was said so far is over the way
}

// take returns how long a message of so many bytes waits, from now. Of the mates so many are taken to speak at once, this host among
// them: all that are of the group, as members do, or only this one.
func (t *turns) take(w Way, bytes, mates int, now time.Time) time.Duration {
	if !(w.Rate > 0) {
		return 0
	}
	said := float64(max(bytes, leastSaid)) * float64(max(min(w.Mates, mates), 1))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free == nil || len(t.free) >= maxTurns {
		t.free = make(map[string]time.Time)
	}
	ahead := time.Duration(min(turnBytes/w.Rate*1e9, float64(maxTurn)))
	free := t.free[w.Site]
	if free.Before(now) {
		free = now
	}
	wait := min(max(free.Sub(now)-ahead, 0), maxTurn) // for what was said before: a long message alone waits for nothing
	free = free.Add(time.Duration(min(said/w.Rate*1e9, float64(maxTurn))))
	if most := now.Add(ahead + maxTurn); free.After(most) {
		free = most
	}
	t.free[w.Site] = free
	return wait
}

// turn returns what an outbox to host asks before each message, see take.
func (g *Groups) turn(host string, mates int) func(message) time.Duration {
	if g.cfg.Way == nil || host == g.cfg.Self {
		return nil
	}
	return func(m message) time.Duration {
		return g.turns.take(g.cfg.Way(host), saidHeader+len(m.Part)+len(m.Rows), mates, time.Now())
	}
}
