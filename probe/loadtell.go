package probe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Who says what to whom of the loads of links, see [load]:
//
//	host → its site's keeper           what arrives from each site, and what stood in a queue to it (opLoad)
//	keeper → keeper of the site that   what arrives from there is far less than it was (opArrives)
//	         the packets come from
//	keeper → its site's hosts          the link to a site has fallen to that (opFallen)
//	keeper → the map                   what the link from a site carries at least (loadcarried.go)
//
// Hosts and keepers of one site talk on the streams of holds (hold.go), so nothing is said but
// during an exchange between sites, and on links between sites only when one seems to have fallen.

const (
	opLoad    op = "load"    // Bytes came from Site in Span, and Pressed went there through a queue, of pairs that get Rate
	opArrives op = "arrives" // of all that your site sends here, no more arrives than Rate; Steady: it is always that
	opFallen  op = "fallen"  // the link to Site carries Rate
)

const (
	// loadQuiet is after how long a host with nothing to tell shows that it is there.
	loadQuiet = 2 * time.Second
	// tellEvery is the time between two words of a keeper to another one that say the same.
	tellEvery = time.Second
	// tellTime bounds what a keeper says to another one: later it is no news.
	tellTime = 3 * time.Second
	// maxListeners bounds the holds whose hosts are told.
	maxListeners = leaseLinks
)

// loadMessage puts l into words; [message.load] is its inverse.
func loadMessage(l load) message {
	return message{Op: opLoad, Site: l.Site, Bytes: l.Bytes, SpanNS: int64(min(l.Span, maxLoadSpan)), Pressed: l.Pressed, Rate: float64(l.Line)}
}

func (m message) load() load {
	return load{Site: m.Site, Bytes: m.Bytes, Span: time.Duration(m.SpanNS), Pressed: m.Pressed, Line: netmap.BytesPerSec(m.Rate)}
}

// A meterLoad counts what has come from each host, and what has gone there through a queue.
type meterLoad struct {
	seen    map[string]uint64    // by host
	sent    map[string]uint64    // by host
	pressed map[string]time.Time // by site: when a lane there was last
	at      time.Time
}

// loads returns what this host has to tell its keeper now: nothing of sites of which there is nothing to say. It
// is called by one goroutine at a time for each m.
func (p *Prober) loadsOf(m *meterLoad, now time.Time) []load {
	span, first := now.Sub(m.at), m.at.IsZero()
	seen, sent := make(map[string]uint64), make(map[string]uint64)
	bySite := make(map[string]*load)
	for _, q := range p.cfg.Peers() {
		site := q.site()
		if site == p.cfg.Self.site() {
			continue
		}
		l := bySite[site]
		if l == nil {
			l = &load{Site: site, Span: span}
			bySite[site] = l
		}
		bytes, packets := p.cfg.Endpoint.Received(q.Name)
		if bytes += packets * packetCost; bytes > 0 {
			seen[q.Name] = bytes
		}
		if before, ok := m.seen[q.Name]; ok && bytes > before { // else one of its connections has ended
			l.Bytes = min(l.Bytes+int64(min(bytes-before, maxBulkBytes)), maxBulkBytes)
		}
		pressed := p.cfg.Pressed(q.Name)
		if pressed > 0 {
			sent[q.Name] = pressed
		}
		if before := m.sent[q.Name]; pressed > before && !first {
			l.Pressed = min(l.Pressed+int64(min(pressed-before, maxBulkBytes)), maxBulkBytes)
			l.Line = max(l.Line, min(p.rec.pressed(q.Name, now), netmap.MaxRate))
		}
	}
	m.seen, m.sent, m.at = seen, sent, now
	if first {
		m.pressed = make(map[string]time.Time)
		return nil
	}
	var ls []load
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		l := bySite[site]
		if l.Pressed > 0 {
			m.pressed[site] = now
		}
		if l.Bytes > 0 || l.Pressed > 0 {
			ls = append(ls, *l)
		}
	}
	return ls
}

// A word is what a keeper tells the hosts of its site.
type word struct {
	site string
	rate netmap.BytesPerSec
}

// words hands what a keeper says to those who hold its links.
type words struct {
	mu   sync.Mutex // guards subs
	subs map[chan word]bool
}

// listen returns a channel of words; the caller must call quit once. Who does not read misses them.
func (w *words) listen() (ch chan word, quit func()) {
	ch = make(chan word, 4)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs == nil {
		w.subs = make(map[chan word]bool)
	}
	if len(w.subs) < maxListeners {
		w.subs[ch] = true
	}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs, ch)
	}
}

func (w *words) say(x word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.subs {
		select {
		case ch <- x:
		default:
		}
	}
}

// takeLoad takes what a host of this site, of whose links this host is the keeper, tells.
func (p *Prober) takeLoad(host string, l load, now time.Time) {
	p.book.take(host, l, now)
	if l.Bytes > 0 {
		select {
		case p.loads <- struct{}{}:
		default: // tells knows
		}
	}
	if l.Pressed > 0 {
		p.judgeLink(l.Site, now)
	}
}

// judgeLink tells the hosts of this site if the link to another has fallen.
func (p *Prober) judgeLink(site string, now time.Time) {
	if !p.book.open(site, now) {
		return
	}
	link := known{
		line:  p.rec.linkTo(site),
		alone: !slices.ContainsFunc(p.cfg.Peers(), func(q Peer) bool { return q.site() == p.cfg.Self.site() }),
		back:  func(rate float64) bool { return p.fallenBack(site, rate, now) },
	}
	if rate, ok := p.book.verdict(site, link, now); ok {
		p.cfg.Log.Debug("a link has fallen during an exchange", "to", site, "mbps", netmap.BytesPerSec(rate).Mbps())
		p.words.say(word{site, netmap.BytesPerSec(rate)})
	}
}

// fallenBack reports whether hosts of site have just found that the link from there carries about rate. Of large sites only those
// are asked that probe between sites now: each host of a site asks at each load.
func (p *Prober) fallenBack(site string, rate float64, now time.Time) bool {
	round, _ := roundAt(now)
	r := p.roster()
	there, here := r.team(site), r.team(p.cfg.Self.site())
	return there >= 0 && here >= 0 && p.rec.fallenBack(r.teams[there].players(round), r.teams[here].players(round), rate, now)
}

// A told is what a keeper has told another one.
type told struct {
	dip
	since time.Time // when the first time of this fall
	at    time.Time // when the last
}

// tells says to the keepers of other sites what arrives from them, until ctx ends, as long as this host is the keeper of
// its own and hosts tell it.
func (p *Prober) tells(ctx context.Context) error {
	said := make(map[string]told) // by site
	for {
		if len(said) == 0 && !p.book.hears() {
			select {
			case <-p.loads:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := sleep(ctx, loadsEvery); err != nil {
			return err
		}
		now := time.Now()
		p.brings(now)
		dips := p.book.fallen(now)
		for site, d := range dips {
			d.rate = carried(d.rate)
			last, ok := said[site]
			again := ok && now.Sub(last.at) < tellEvery && apart(d.rate, last.rate) <= loadAlike && d.steady == last.steady
			if again || !(d.rate < loadFallen*p.rec.linkFrom(site)) {
				delete(dips, site)
				continue
			}
			dips[site] = d
			p.book.dipped(site, now)
			p.rec.bringsLess(keeperOf(site, p.cfg.Peers()), d.rate, now)
			if !ok || d.rate < (1-loadAlike)*last.rate {
				last.since = now
			}
			said[site] = told{d, last.since, now}
		}
		for site, last := range said {
			if now.Sub(last.since) > followAge {
				delete(said, site)
			} else if _, less := dips[site]; !less && p.book.paused(site, onWire(last.rate), now) {
				delete(said, site)
				dips[site] = dip{} // takes it back
			} else if rate := carried(p.book.more(site, last.since, now)); rate > (1+loadMore)*max(last.rate, dips[site].rate) {
				d := dip{rate, true}
				dips[site], said[site] = d, told{d, last.since, now}
			}
		}
		var telling sync.WaitGroup
		for _, site := range slices.Sorted(maps.Keys(dips)) {
			telling.Go(func() {
				if err := p.tellKeeper(ctx, site, dips[site]); err != nil && ctx.Err() == nil {
					p.cfg.Log.Debug("keeper is not told that less arrives", "site", site, "err", err)
				}
			})
		}
		telling.Wait()
	}
}

// tellKeeper says to the keeper of site what arrives from there; no rate takes back what was said.
func (p *Prober) tellKeeper(ctx context.Context, site string, d dip) error {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	keeper := keeperOf(site, p.cfg.Peers())
	if keeper == "" {
		return nil
	}
	s, err := p.cfg.Endpoint.Open(ctx, keeper, 0, lane.StreamProbe)
	if err != nil {
		return err
	}
	s.SetDeadline(time.Now().Add(tellTime))
	if err := writeMessage(s, message{Op: opArrives, Rate: min(d.rate, maxRate), Steady: d.steady}); err != nil {
		s.Abort()
		return err
	}
	return finish(s)
}

// serveArrives takes what the keeper of another site says that arrives there.
func (p *Prober) serveArrives(from string, m message) {
	site := p.siteOf(from)
	if site == "" || site == p.cfg.Self.site() || keeperOf(site, p.cfg.Peers()) != from || m.Rate < 0 {
		return // views may differ for a moment: it is no offence
	}
	if m.Rate == 0 {
		p.book.unsay(site)
		return
	}
	now := time.Now()
	p.book.hear(site, dip{m.Rate, m.Steady}, now)
	p.judgeLink(site, now)
}
