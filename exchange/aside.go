package exchange

import (
	"cmp"
	"slices"
	"time"
)

// What a host sends by way of a third one because the straight way has fallen, where nobody else holds it: the blocks of an
// alltoall. To the engine that is one more peer beside the plan's, with a window of its own, whose lane takes what
// the plan's would send last, as long as it may: how much that is, relieve says anew every two seconds.

// maxAside bounds the hosts of one site that one sends to so.
const maxAside = 4

// divert lets up to bytes of what is left on w go by way of vias, and returns them.
func (x *run) divert(w *route, vias []string, bytes int64) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := make(map[*peer]int64)
	var peers []*peer
	for _, p := range w.peers {
		if n := p.backlog(x.part.Chunk); n > 0 && p.path.known() {
			left[p] = n
			peers = append(peers, p)
		}
	}
	slices.SortStableFunc(peers, func(a, b *peer) int { return cmp.Compare(left[b], left[a]) })
	peers = peers[:min(len(peers), maxAside)]
	var all int64
	for _, p := range peers {
		all += left[p]
	}
	for i, p := range peers {
		turn := i % len(vias)
		d := x.aside(p, slices.Concat(vias[turn:], vias[:turn]))
		if d == nil {
			return 0
		}
		d.budget = int64(float64(bytes) * float64(left[p]) / float64(all))
		d.cond.Broadcast()
	}
	return bytes
}

// stay lets nothing more of w go by way of others. It needs x.mu.
func (x *run) stay(w *route) {
	for _, d := range x.helped {
		if d.main != nil && x.site(d.name) == w.site {
			d.budget = 0
		}
	}
}

// carriedAside returns the bytes for w's site that have arrived by way of others. It needs x.mu.
func (x *run) carriedAside(w *route) (got int64) {
	for _, d := range x.helped {
		if d.main != nil && d.win != nil && x.site(d.name) == w.site {
			got += d.win.got
		}
	}
	return got
}

// aside returns the peer beside main that is reached by way of vias, nil if there are too many. It needs x.mu.
func (x *run) aside(main *peer, vias []string) *peer {
	for _, d := range x.helped {
		if d.main == main && d.ctx.Err() == nil {
			return d
		}
	}
	if len(x.helped) >= maxHelped {
		return nil
	}
	d := x.newPeer(main.index)
	d.main, d.vias, d.path, d.loses = main, vias[:min(len(vias), maxVias)], main.path, main.loses
	if first := x.eng.cfg.Path(vias[0]); first.known() {
		d.path.RTT += first.RTT
		d.path.Rate, d.path.Capacity = min(d.path.Rate, first.Rate), min(d.path.capacity(), first.capacity())
	}
	d.opening = x.opens(d)
	d.lanes = 1
	d.open++ // until main is through
	x.helped = append(x.helped, d)
	x.writers.Go(func() { x.lane(d, newsLane, 0, nil) }) // a number that plans do not use
	return d
}

// endAside ends what goes beside main, which is through. It needs x.mu.
func (x *run) endAside(main *peer) {
	for _, d := range x.helped {
		if d.main == main && d.ctx.Err() == nil {
			d.budget = 0
			if d.open--; d.open == 0 {
				d.cancel()
				d.cond.Broadcast()
			}
		}
	}
}

// borrow moves an entry of what d's main peer would be sent last to d, if it may. It needs x.mu.
func (x *run) borrow(d *peer) bool {
	if d.main == nil || d.budget <= 0 {
		return false
	}
	for _, s := range slices.Backward(d.main.sends[d.main.first:]) {
		if s.confirmed || s.extra || s.waits > 0 || s.ready == 0 {
			continue
		}
		for _, sb := range slices.Backward(s.blocks) {
			for i := sb.b.chunks - 1; i >= 0 && sb.ready > 0; i-- {
				if sb.sent.has(i) || !sb.b.have.has(i) {
					continue
				}
				to := x.extraTo(d, sb.b)
				if to == nil {
					break
				}
				n := int64(sb.b.size(i, x.part.Chunk))
				x.pass(sb, i)
				s.due = time.Now().Add(max(leastGiven, 2*time.Since(x.start)))
				x.takes(to, i, 1)
				d.budget -= n
				return true
			}
		}
	}
	return false
}

// asideRate returns the bytes a second that went by way of others since the last time, of which there are got now. It
// needs run.mu.
func (w *route) asideRate(got int64, now time.Time) float64 {
	n, span := got-w.gone, now.Sub(w.goneAt).Seconds()
	w.gone, w.goneAt = got, now
	if n <= 0 || span <= 0 {
		return 0
	}
	return float64(n) / span
}

// siteOf returns the name of the site of a host.
func (x *run) siteOf(host int) string { return x.site(x.part.Hosts[host]) }

// names returns the names of hosts.
func (x *run) names(hosts []int) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = x.part.Hosts[h]
	}
	return names
}

// tighter returns which of two stands takes less of own: what goes by way of others loads both of their links.
func tighter(own, a, b stand) stand {
	took := func(s stand) int64 {
		take, _ := relieve(own, []stand{s})
		if take == nil {
			return 0
		}
		return take[0]
	}
	if took(b) < took(a) {
		return b
	}
	return a
}
