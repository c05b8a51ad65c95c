package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// What hosts ask each other about ways that fell, and what they answer.

// backlog returns the bytes for p that no lane has been given. It needs run.mu.
func (p *peer) backlog(chunk int) (n int64) {
	for _, s := range p.sends[p.first:] {
		if s.confirmed || s.unsent == 0 {
			continue
		}
		for _, sb := range s.blocks {
			left := sb.b.chunks - sb.sent.count(sb.b.chunks)
			n += int64(left) * int64(chunk)
			if k := sb.b.chunks - 1; left > 0 && !sb.sent.has(k) {
				n -= int64(chunk - sb.b.size(k, chunk))
			}
		}
	}
	return n
}

// under returns the bytes for p that lanes have been given and that are not answered. It needs run.mu.
func (p *peer) under() (n int64) {
	for _, l := range p.outs {
		n += l.taken - l.got
	}
	return n
}

// standing returns what this host has left for the site of host, and what it gets. It needs x.mu.
func (x *run) standing(host int) stand {
	st := stand{hosts: 1}
	site := x.site(x.part.Hosts[host])
	idle := true // it sends nothing, or waits for what it is to send
	if w := x.ways[site]; w != nil {
		var under int64
		for _, p := range w.peers {
			n := p.under()
			st.backlog += p.backlog(x.part.Chunk) + n
			under += n
		}
		st.rate, st.usual = w.pace.rate(), w.pace.usual()
		if idle = under == 0 && st.rate == 0; w.pace.n < 2 {
			st.rate, st.usual = w.pace.ending(under)
		}
	}
	if st.backlog == 0 || idle { // what it would get
		st.usual = 0
		if path := x.eng.cfg.Path(x.part.Hosts[host]); path.known() {
			if path.Flows <= 0 {
				path.Flows = x.sharing(x.peer(host))
			}
			st.rate = path.part()
		}
		if w := x.ways[site]; w != nil && w.pace.low > 0 { // the map may not know yet
			st.rate = min(st.rate, w.pace.low)
		}
	}
	return st
}

// frame returns s as an answer.
func (s stand) frame() *frame {
	n := func(v float64) int { return int(min(max(v, 0), maxNumber)) }
	return &frame{kind: frameStands, number: n(float64(s.backlog)), index: n(s.rate), n: n(s.usual)}
}

// standOf is the inverse.
func standOf(f *frame) stand {
	return stand{backlog: int64(f.number), rate: float64(f.index), usual: float64(f.n), hosts: 1}
}

// acquainted returns the hosts of each site that may help on w: where there are some, those that this host exchanges
// data with. To others it would have to connect first, over links that are full.
func (x *run) acquainted(w *route) [][]int {
	site := x.site
	home := site(x.part.Hosts[x.part.Self])
	x.mu.Lock()
	defer x.mu.Unlock()
	near, far := make(map[string][]int), make(map[string][]int)
	n := len(x.part.Hosts)
	for k := 1; k < n; k++ {
		h := (x.part.Self + k) % n // so that hosts turn to different ones first
		name := x.part.Hosts[h]
		s := site(name)
		if s == home || s == w.site {
			continue
		}
		if p := x.peers[name]; p != nil && len(p.sends)+len(p.recvs) > 0 {
			near[s] = append(near[s], h)
		} else if len(far[s]) < maxHelpers {
			far[s] = append(far[s], h)
		}
	}
	maps.Copy(far, near)
	var all [][]int
	for _, s := range slices.Sorted(maps.Keys(far)) {
		all = append(all, far[s][:min(len(far[s]), maxHelpers)])
	}
	return all
}

// together returns what all of this host's site have left for the site of to.
func (x *run) together(to int) stand {
	site := x.site
	home := site(x.part.Hosts[x.part.Self])
	var mates []int
	for h, name := range x.part.Hosts {
		if h != x.part.Self && h != to && len(mates) < maxAsked && site(name) == home { // where to is, if labels have changed, nobody is asked for the way to itself
			mates = append(mates, h)
		}
	}
	x.mu.Lock()
	all := x.standing(to)
	x.mu.Unlock()
	var active stand
	if all.backlog > 0 {
		active = all
	}
	for _, st := range x.poll(mates, to) {
		all.add(st)
		if st.backlog > 0 {
			active.add(st)
		}
	}
	// Those that send share the link already; of those that do not each says what it would get.
	if active.rate > 0 {
		all.rate = active.rate
	}
	all.hosts = max(active.hosts, 1)
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.ways[site(x.part.Hosts[to])]
	if w == nil || w.planned == 0 {
		return all
	}
	// Each host's usual rate is that of a time in which others may have paused. What the plan stands on is what the
	// map said then, and not what it says since it knows of a fall.
	if all.usual = min(all.usual, w.planned); w.told > 0 {
		all.usual = w.planned
		if all.rate == 0 {
			all.rate = w.told
		}
	}
	return all
}

// poll asks hosts what they have left for the site of to, in their order. Those that do not answer are left out.
func (x *run) poll(hosts []int, to int) []stand {
	answers := make([]stand, len(hosts))
	var asks sync.WaitGroup
	for i, h := range hosts {
		asks.Go(func() {
			last, _, err := x.confer(h, []frame{{kind: frameStanding, host: to}}, frameStands)
			if err == nil {
				answers[i] = standOf(&last)
			}
		})
	}
	asks.Wait()
	return slices.DeleteFunc(answers, func(s stand) bool { return s.hosts == 0 })
}

// openNews opens a stream for news to a host, by way of another one where its data go so or the last news got no answer.
func (x *run) openNews(ctx context.Context, to int) (Stream, error) {
	x.mu.Lock()
	p := x.peer(to)
	aside := p.away != p.deaf
	x.mu.Unlock()
	if aside {
		s, _, err := x.detour(ctx, p.name, x.vias(p))
		return s, err
	}
	return x.eng.cfg.Open(ctx, p.name, 0)
}

// wayOfNews has the next news to a host go the other way if these were not answered.
func (x *run) wayOfNews(to int, err error) {
	if err == nil || err == errOver || x.ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.peer(to)
	p.deaf = !p.deaf
}

var errOver = errors.New("its part is over")

// confer tells host to something on a stream of its own, and returns the answers up to the one of kind
// last.
func (x *run) confer(to int, say []frame, last byte) (end frame, answers []frame, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, newsTimeout)
	defer cancel()
	defer func() { x.wayOfNews(to, err) }()
	s, err := x.openNews(ctx, to)
	if err != nil {
		return end, nil, err
	}
	stop := context.AfterFunc(ctx, s.Abort)
	defer func() {
		if stop() && err == nil {
			s.Close()
			s.CloseRead()
		} else {
			s.Abort()
		}
	}()
	buf := header{id: x.part.ID, lane: newsLane}.appendTo(nil)
	for i := range say {
		buf = say[i].appendTo(buf)
	}
	if _, err = s.Write(buf); err != nil {
		return end, nil, err
	}
	r := newFrameReader(s)
	for {
		var f frame
		if err = r.next(&f); err != nil {
			return end, answers, err
		}
		switch {
		case f.kind == last:
			return f, answers, nil
		case f.kind == frameComplete, f.kind == frameFail:
			return end, answers, errOver
		case f.kind != frameTaken || len(answers) >= maxRuns:
			return end, answers, fmt.Errorf("%w: kind %#02x in news", errMalformed, f.kind)
		}
		answers = append(answers, f)
	}
}
