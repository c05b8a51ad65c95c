package exchange

import (
	"cmp"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What a host whose way may have fallen finds out, and what it has others do.

// A helper is another site by which a way may be relieved.
type helper struct {
	stand
	hosts []int
	over  bool // they are through: all that they can do is to pass on
}

// relieved is relieve without its book-keeping. It returns the bytes that others took or may pass on, and whether the way of
// the whole site has fallen. With lent it gives back what it has from others, fallen or not.
func (x *run) relieved(w *route, lent bool) (given int64, fell bool) {
	x.mu.Lock()
	var mine, mayGive int64
	for _, p := range w.peers {
		n := p.backlog(x.part.Chunk)
		mine += n + p.under()
		mayGive += n
	}
	x.mu.Unlock()
	if mayGive == 0 {
		return 0, false
	}
	own := x.together(w.host)
	sure, fell, aside := x.judge(w, own)
	if fell {
		lent = false
	} else if !lent {
		return 0, false // chance: the site gets what it got
	}
	if float64(own.backlog) < own.rate*longWay.Seconds() {
		return 0, sure || lent
	}
	helpers := x.consult(w, own)
	if !sure && !lent {
		return 0, false // perhaps: all are asked again, and the others stand by until then
	}
	part := float64(mine) / float64(max(own.backlog, mine)) // what is this host's of what the site gives
	take, end := relieve(own, stands(helpers))
	for i, bytes := range take {
		if bytes = min(int64(float64(bytes)*part), mayGive-given); bytes > 0 && !helpers[i].over {
			given += x.give(w, helpers[i].hosts, bytes, lent, end)
		}
	}
	if lent {
		return given, true
	}
	// What they have taken they have left now, and what goes aside is theirs as well.
	own.backlog -= int64(float64(given) / part)
	for i := range helpers {
		h := &helpers[i]
		h.backlog += int64(float64(given) / part / float64(len(helpers)))
		h.rate += aside * float64(own.hosts) / float64(len(helpers))
		h.stand = tighter(own, h.stand, x.together(h.hosts[0]))
	}
	take, _ = relieve(own, stands(helpers))
	for i, bytes := range take {
		if x.part.Collective != plan.Alltoall && !helpers[i].over {
			continue // they take what they hold, and will hold the rest
		}
		if bytes = int64(float64(bytes) * part); bytes > 0 {
			given += x.divert(w, x.names(helpers[i].hosts), bytes)
		}
	}
	return given, true
}

// judge notes whether the way of the whole site has fallen, of which own is said, and returns that, whether it has for long enough to act
// on it, and the bytes a second that this host has sent by way of others since it was asked last. From now on nothing more goes so.
func (x *run) judge(w *route, own stand) (sure, fell bool, aside float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	share, wait := w.pace.share(), min(max(now.Sub(x.start)/sureShare, leastSure), mostSure)
	if x.part.Collective == plan.Alltoall {
		wait = relayedSure
	}
	if w.told > 0 { // the map says so too
		share, wait = fallShare, leastSure
	}
	switch fell = own.fell(share); {
	case !fell:
		w.fell = time.Time{}
	case w.fell.IsZero():
		w.fell = now
	}
	sure = fell && now.Sub(w.fell) >= wait
	w.narrow = w.narrow || sure
	x.stay(w)
	return sure, fell, w.asideRate(x.carriedAside(w), now)
}

// consult asks a host of each other site what it has left for w's. own is what this host's has.
func (x *run) consult(w *route, own stand) (helpers []helper) {
	for _, hosts := range x.acquainted(w) {
		help := helper{hosts: hosts}
		site := x.siteOf(hosts[0])
		for _, h := range hosts[:min(len(hosts), 2)] {
			last, _, err := x.confer(h, []frame{{kind: frameTogether, host: w.host}}, frameStands)
			if err == nil {
				help.stand, help.over = standOf(&last), false
				w.theirs[site] = help.rate
				break
			}
			if err == errOver {
				help.stand, help.over = stand{rate: cmp.Or(w.theirs[site], own.usual), hosts: 1}, true
				continue
			}
			x.eng.cfg.Log.Debug("no answer about what is left", "peer", x.part.Hosts[h], "exchange", x.part.ID, "error", err)
		}
		if help.stand.hosts > 0 {
			helpers = append(helpers, help)
		}
	}
	return helpers
}

func stands(helpers []helper) []stand {
	all := make([]stand, len(helpers))
	for i, h := range helpers {
		all[i] = h.stand
	}
	return all
}
