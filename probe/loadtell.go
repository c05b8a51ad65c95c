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
//	host → its site's keeper           what arrives from each site, and what lanes that have fallen had (opLoad)
//	keeper → keeper of the site that   what arrives from there is far less than it was (opArrives)
//	         the packets come from
//	keeper → its site's hosts          the link to a site has fallen to that (opFallen)
//
// Hosts and keepers of one site talk on the streams of holds (hold.go), so nothing is said but
// during an exchange between sites, and on links between sites only when one seems to have fallen.

const (
	opLoad    op = "load"    // Bytes came from Site in Span; lanes to it that have fallen had Rate
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
	return message{Op: opLoad, Site: l.Site, Bytes: l.Bytes, SpanNS: int64(min(l.Span, maxLoadSpan)), Rate: float64(l.Fallen)}
}

func (m message) load() load {
	return load{Site: m.Site, Bytes: m.Bytes, Span: time.Duration(m.SpanNS), Fallen: netmap.BytesPerSec(m.Rate)}
}

// A meterLoad counts what has come from each host.
type meterLoad struct {
	seen map[string]uint64 // by host
	at   time.Time
}

// loads returns what this host has to tell its keeper now: nothing of sites of which there is nothing to say. It
// is called by one goroutine at a time for each m.
func (p *Prober) loadsOf(m *meterLoad, now time.Time) []load {
	span := now.Sub(m.at)
	seen, bySite := make(map[string]uint64), make(map[string]int64)
	sites := make(map[string]bool)
	for _, q := range p.cfg.Peers() {
		if q.site() == p.cfg.Self.site() {
			continue
		}
		sites[q.site()] = true
		bytes, packets := p.cfg.Endpoint.Received(q.Name)
		if bytes += packets * packetCost; bytes == 0 {
			continue
		}
		seen[q.Name] = bytes
		if before, ok := m.seen[q.Name]; ok && bytes > before { // else one of its connections has ended
			bySite[q.site()] += int64(min(bytes-before, maxBulkBytes))
		}
	}
	first := m.at.IsZero()
	m.seen, m.at = seen, now
	if first {
		return nil
	}
	var ls []load
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		l := load{Site: site, Bytes: min(bySite[site], maxBulkBytes), Span: span}
		if l.Fallen = netmap.BytesPerSec(min(p.drops.had(site, now), maxRate)); l.Bytes > 0 || l.Fallen > 0 {
			ls = append(ls, l)
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

// drop notes whether a lane to another site gets far less than it did, the network being its limit. Of one
// lane of many that says little, of many of them at once a lot.
func (p *Prober) drop(o Observation) {
	site := p.siteOf(o.Peer)
	if site == "" || site == p.cfg.Self.site() || o.Duration < observeTime || o.Bytes < 0 || !rateOK(o.Usual) {
		return
	}
	l, rate := laneName{o.Peer, o.Lane}, float64(o.Bytes)/o.Duration.Seconds()
	if o.Network && rate < observeFallen*float64(o.Usual) {
		p.drops.note(site, l, float64(o.Usual), time.Now())
	} else {
		p.drops.recovered(site, l, rate)
	}
}

// takeLoad takes what a host of this site, of whose links this host is the keeper, tells.
func (p *Prober) takeLoad(host string, l load, now time.Time) {
	p.book.take(host, l, now)
	if l.Fallen > 0 {
		p.judgeLink(l.Site, now)
	}
}

// judgeLink tells the hosts of this site if the link to another has fallen.
func (p *Prober) judgeLink(site string, now time.Time) {
	if !p.book.open(site, now) {
		return
	}
	if rate, ok := p.book.verdict(site, p.rec.linkTo(site), now); ok {
		p.cfg.Log.Debug("a link has fallen during an exchange", "to", site, "mbps", netmap.BytesPerSec(rate).Mbps())
		p.words.say(word{site, netmap.BytesPerSec(rate)})
	}
}

// tells says to the keepers of other sites what arrives from them, until ctx ends, as long as this host is the keeper of
// its own and hosts tell it.
func (p *Prober) tells(ctx context.Context) error {
	said := make(map[string]hearsay) // by site
	for {
		if err := sleep(ctx, loadsEvery); err != nil {
			return err
		}
		now := time.Now()
		dips := p.book.fallen(now)
		var told sync.WaitGroup
		for _, site := range slices.Sorted(maps.Keys(dips)) {
			d, last := dips[site], said[site]
			d.rate = carried(d.rate)
			again := now.Sub(last.at) < tellEvery && apart(d.rate, last.rate) <= loadAlike && d.steady == last.steady
			if again || !(d.rate < loadFallen*p.rec.linkFrom(site)) {
				continue
			}
			said[site] = hearsay{dip: d, at: now}
			told.Go(func() {
				if err := p.tellKeeper(ctx, site, d); err != nil && ctx.Err() == nil {
					p.cfg.Log.Debug("keeper is not told that less arrives", "site", site, "err", err)
				}
			})
		}
		told.Wait()
		maps.DeleteFunc(said, func(_ string, h hearsay) bool { return now.Sub(h.at) > dropAge })
	}
}

// tellKeeper says to the keeper of site what arrives from there.
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
	if site == "" || site == p.cfg.Self.site() || keeperOf(site, p.cfg.Peers()) != from || m.Rate <= 0 {
		return // views may differ for a moment: it is no offence
	}
	now := time.Now()
	p.book.hear(site, dip{m.Rate, m.Steady}, now)
	p.judgeLink(site, now)
}
