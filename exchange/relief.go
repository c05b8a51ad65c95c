package exchange

import (
	"log/slog"
	"time"
)

// Re-planning under way. A host whose way to a site has fallen asks its mates whether theirs has as well, and all
// others that might help what they have left for that site (standing). If it pays that others deliver a part
// of what is not sent yet (relieve), it offers them that (offer); they take what they hold (taken), and
// it does not send that any more. It remains the one whom the receiver confirms its transfer to, and
// sends what has not arrived in time after all: what goes wrong on the way costs time and bytes, not the exchange.
//
// Everything that hosts say to each other for this travels on streams of its own (newsLane).

const (
	// reliefPause is how long a way is left alone after it was looked after, doubled while that leads to nothing.
	reliefPause    = 2 * time.Second
	maxReliefPause = 16 * time.Second
	// suspectPause is how long before the mates are asked again who saw no fall.
	suspectPause = 250 * time.Millisecond
	// The hosts of a site must say that their way has fallen for a sureShare-th of the time since the exchange began, between leastSure
	// and mostSure. What losses hold up comes all at once in the end: for 1.5 s all eight hosts of a site got 45 % of a link that was
	// full. Of a short exchange there is less time to lose.
	sureShare = 20
	leastSure = suspectPause
	mostSure  = time.Second
	// relayedSure is the same of an alltoall, unless the map says so too: rates of its ways change with what comes for them by relays, and
	// what goes aside wrongly loads two more links.
	relayedSure = 1500 * time.Millisecond
	// longWay is how long a way that fell must have left to carry at least: less is over before others are asked.
	longWay = 2 * time.Second
	// standBy is how long a host that is asked for help goes on if it is through. It is less than longWay: the
	// exchange does not take longer for it.
	standBy     = 1500 * time.Millisecond
	maxStandBys = 16
	// newsTimeout is what another host has to answer. News wait behind the data in the queue of a link.
	newsTimeout = 3 * time.Second
	// maxAsked bounds the hosts that are asked at a time, maxLots the offers to one of them.
	maxAsked = 64
	maxLots  = 256
	// maxHelpers is how many hosts of a site one offers something at a time.
	maxHelpers = 16
	// leastGiven is how long others have at least to deliver what they took, before it is asked about. It is for
	// those that break their word: whoever is only late would see its work done twice, over a link that is slow.
	leastGiven = 30 * time.Second
	// mostGiven bounds what a forecast adds to that.
	mostGiven = time.Hour
)

// A route is what this host sends to one site.
type route struct {
	site     string
	host     int // one of the site's
	peers    []*peer
	pace     pace
	asking   bool          // relief runs
	rest     time.Time     // until then it does not
	relieved bool          // others took a part before
	pause    time.Duration // after the last time
	fell     time.Time     // since then its hosts have said that the site's way has fallen; zero: it has not
	narrow   bool          // it has: few send at a time
	// planned is what the map said the site's way carries when the run began, bytes a second, and told what it says now if
	// that is far less; else 0.
	planned, told float64
	theirs        map[string]float64 // what other sites last said they get there, bytes a second; of relieved alone
	gone          int64              // bytes that had gone by way of others at the time of goneAt
	goneAt        time.Time
}

// told returns what the map says of the ways that this host has, by site. It takes x.mu for a moment only: a map is large, and may be
// in use for as long as all lanes of a busy machine would stand still.
func (x *run) told() map[string]Path {
	x.mu.Lock()
	hosts := make(map[string]string, len(x.ways))
	for site, w := range x.ways {
		hosts[site] = x.part.Hosts[w.host]
	}
	x.mu.Unlock()
	told := make(map[string]Path, len(hosts))
	for site, host := range hosts {
		told[site] = x.eng.cfg.Path(host)
	}
	return told
}

// watch looks at the ways of this host, of which the map says what told has, and starts what relieves one that has fallen. It needs x.mu.
func (x *run) watch(now time.Time, told map[string]Path) {
	if !x.adapts() || x.ended || x.ctx.Err() != nil {
		return
	}
	if x.ways == nil {
		x.ways = make(map[string]*route)
	}
	for _, w := range x.ways {
		w.peers = w.peers[:0]
	}
	x.eachPeer(func(p *peer) { x.heed(p, now) })
	x.eachPeer(func(p *peer) {
		if p.win == nil || p.main != nil {
			return
		}
		site := x.site(p.name)
		w := x.ways[site]
		if w == nil {
			w = &route{site: site, host: p.index, planned: float64(p.path.capacity()), theirs: make(map[string]float64)}
			x.ways[site] = w
		}
		w.peers = append(w.peers, p)
	})
	home := x.site(x.part.Hosts[x.part.Self])
	for _, w := range x.ways {
		var got int64
		busy := false
		for _, p := range w.peers {
			got += p.win.got
			busy = busy || p.ready()
			p.reclaim(now)
		}
		w.pace.look(got, busy)
		w.told = 0
		if path := told[w.site]; busy && path.known() && float64(path.capacity()) < fallShare*w.planned {
			w.told = float64(path.capacity())
		}
		w.tighten(now)
		lent := w.lent()
		slow := w.told > 0 || w.pace.suspect()
		if !slow && !w.asking {
			w.fell = time.Time{} // what was seen long ago does not bear out what is seen next
		}
		if w.asking || now.Before(w.rest) || !lent && !slow || w.site == home { // other sites do not carry what goes within this one
			continue
		}
		w.asking = true
		x.writers.Go(func() { x.relieve(w, lent) })
	}
}

// lent reports whether this host has taken from others what it has not sent. If their way recovers they may have it back. It
// needs run.mu.
func (w *route) lent() bool {
	for _, p := range w.peers {
		for _, s := range p.sends[p.first:] {
			if s.extra && !s.confirmed && s.unsent > 0 {
				return true
			}
		}
	}
	return false
}

// adapts reports whether this run takes part in re-planning.
func (x *run) adapts() bool { return x.eng.adapts }

// eachPeer needs x.mu.
func (x *run) eachPeer(f func(*peer)) {
	for _, p := range x.peers {
		f(p)
	}
	for _, p := range x.helped {
		f(p)
	}
}

// ready reports whether there is something to send to p. It needs run.mu.
func (p *peer) ready() bool {
	for _, s := range p.sends[p.first:] {
		if !s.confirmed && s.waits == 0 && s.ready > 0 {
			return true
		}
	}
	return false
}

// relieve finds out whether others can deliver a part of what is left on w, and gives it to them.
func (x *run) relieve(w *route, lent bool) {
	given, fell := x.relieved(w, lent)
	x.mu.Lock()
	defer x.mu.Unlock()
	w.asking = false
	if !fell {
		w.rest = time.Now().Add(suspectPause)
		return
	}
	if given > 0 {
		x.relief.Replanned++
		w.pause = reliefPause
		level := slog.LevelDebug
		if !w.relieved {
			w.relieved, level = true, slog.LevelInfo
		}
		x.eng.cfg.Log.Log(x.ctx, level, "a link fell: others take a part of what was left", "exchange", x.part.ID, "site", w.site, "bytes", given)
	} else {
		w.pause = min(max(2*w.pause, time.Second), maxReliefPause)
	}
	w.rest = time.Now().Add(w.pause)
}
