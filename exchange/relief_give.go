package exchange

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What is left is given away in lots; see relief.go.

// reclaim has p asked about entries that others should have delivered by now. It needs run.mu.
func (p *peer) reclaim(now time.Time) {
	for _, s := range p.sends[p.first:] {
		if s.due.IsZero() || s.confirmed || now.Before(s.due) {
			continue
		}
		s.due = time.Time{}
		for _, sb := range s.blocks {
			for i, by := range sb.by {
				if by == byGiven {
					sb.by[i] = byLost
					p.needAsk = true
				}
			}
		}
		p.cond.Broadcast()
	}
}

// A lot is a run of entries that may be given away.
type lot struct {
	frame  frame
	bytes  int64
	origin int // of its block
}

// give offers about bytes of what is left on w to hosts, each a part, and what they do not hold to the next. It
// returns how many bytes they took. With lent it is what came from others only. They are expected to be through in end.
func (x *run) give(w *route, hosts []int, bytes int64, lent bool, end time.Duration) (given int64) {
	fits, turns := func(*block) bool { return true }, 3
	alltoall := x.part.Collective == plan.Alltoall
	if alltoall { // of its blocks only their origins have any for long
		site := x.site
		there := site(x.part.Hosts[hosts[0]])
		fits, turns = func(b *block) bool { return site(x.part.Hosts[b.Origin]) == there }, 1
	}
	lots := x.lots(w, bytes, lent, fits)
	if alltoall {
		hosts = nil
		for _, l := range lots {
			hosts = append(hosts, l.origin)
		}
	}
	hosts = slices.Compact(slices.Sorted(slices.Values(hosts)))
	for turn := 0; turn < min(len(hosts), turns) && len(lots) > 0 && given < bytes; turn++ {
		taken, offered := make([][]frame, len(hosts)), make([][]frame, len(hosts))
		var offers sync.WaitGroup
		for i, h := range hosts {
			for _, l := range lots {
				// What goes to one host comes from one, whoever gives it: few flows, each of some length.
				to := hosts[(l.frame.host+turn)%len(hosts)]
				if alltoall {
					to = l.origin
				}
				if to == h && len(offered[i]) < maxLots {
					offered[i] = append(offered[i], l.frame)
				}
			}
			if len(offered[i]) == 0 || h == w.host { // nobody is asked for the way to itself
				continue
			}
			say := append(slices.Clone(offered[i]), frame{kind: frameStanding, host: w.host})
			offers.Go(func() {
				var err error
				_, taken[i], err = x.confer(h, say, frameStands)
				if err != nil {
					x.eng.cfg.Log.Debug("no help", "peer", x.part.Hosts[h], "exchange", x.part.ID, "error", err)
				}
			})
		}
		offers.Wait()
		for i, h := range hosts {
			n, err := x.gave(taken[i], offered[i], end)
			if given += n; err != nil {
				x.mu.Lock()
				p := x.peer(h)
				x.mu.Unlock()
				x.misbehaved(p, err)
				return given
			}
		}
		lots = slices.DeleteFunc(lots, func(l lot) bool { return x.isGiven(l.frame) })
	}
	return given
}

// lots returns about bytes of what is left on w, of every peer its part, and of that the last: what came from others
// first, which is all of it with lent, and only of blocks that fit.
func (x *run) lots(w *route, bytes int64, lent bool, fits func(*block) bool) []lot {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all int64
	for _, p := range w.peers {
		all += p.backlog(x.part.Chunk)
	}
	var lots []lot
	for _, p := range w.peers {
		part := int64(float64(bytes) * float64(p.backlog(x.part.Chunk)) / float64(max(all, 1)))
		for k := len(p.sends) - 1; k >= p.first && part > 0; k-- {
			s := p.sends[k]
			if s.confirmed || lent && !s.extra || s.unsent == 0 {
				continue
			}
			for _, sb := range slices.Backward(s.blocks) {
				if !fits(sb.b) {
					continue
				}
				lots, part = sb.lots(lots, part, x.part.Chunk)
			}
		}
	}
	slices.SortStableFunc(lots, func(a, b lot) int { return a.frame.n - b.frame.n }) // larger ones can be split over more hosts later
	return lots
}

// lotBytes is the size of a lot: so that several hosts share what one gives.
const lotBytes = 32 << 10

// lots appends lots of about bytes of the end of sb, and returns how many bytes more are wanted. It needs run.mu.
func (sb *sendBlock) lots(lots []lot, bytes int64, chunk int) ([]lot, int64) {
	most := max(1, lotBytes/chunk)
	for i := sb.b.chunks - 1; i >= 0 && bytes > 0; {
		if sb.sent.has(i) {
			i--
			continue
		}
		l := lot{frame: frame{kind: frameOffer, host: sb.s.to.index, number: sb.b.number}, origin: sb.b.Origin}
		for ; i >= 0 && !sb.sent.has(i) && l.frame.n < most && bytes > 0; i-- {
			n := int64(sb.b.size(i, chunk))
			l.frame.index, l.frame.n, l.bytes, bytes = i, l.frame.n+1, l.bytes+n, bytes-n
		}
		lots = append(lots, l)
	}
	return lots, bytes
}

// isGiven reports whether nothing of f is left to give.
func (x *run) isGiven(f frame) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	sb := x.sending(f.host, f.number)
	if sb == nil || sb.s.confirmed {
		return true
	}
	for i := range f.n {
		if !sb.sent.has(f.index + i) {
			return false
		}
	}
	return true
}

// sending returns what this host sends of a block to host, nil if it is nothing. It needs x.mu.
func (x *run) sending(host, number int) *sendBlock {
	if sb := x.peer(host).out[number]; sb != nil {
		return sb
	}
	for _, p := range x.helped {
		if sb := p.out[number]; p.index == host && sb != nil && !sb.s.confirmed {
			return sb
		}
	}
	return nil
}

// pass marks an entry that is not sent as one that another way is to bring. It needs x.mu.
func (x *run) pass(sb *sendBlock, i int) {
	sb.sent.set(i)
	if sb.by[i] = byGiven; sb.s.extra {
		sb.by[i] = byHad
		sb.awaited--
		sb.once.clear(i)
	}
	sb.s.unsent--
	if sb.b.have.has(i) {
		sb.ready--
		sb.s.ready--
	}
}

// within reports whether the entries of f are among those of one of the offers.
func (f *frame) within(offers []frame) bool {
	return slices.ContainsFunc(offers, func(o frame) bool {
		return f.host == o.host && f.number == o.number && f.index >= o.index && f.n <= o.n && f.index-o.index <= o.n-f.n
	})
}

// gave notes what another host has taken of what it was offered, and returns the bytes that need not be sent any more. What lanes have been
// given in the meantime arrives twice. What is through meanwhile, of an extra send maybe forgotten, counts for nothing. The others are expected to be through in end. Its error is errMalformed.
func (x *run) gave(taken, offered []frame, end time.Duration) (bytes int64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, f := range taken {
		if !f.within(offered) {
			return bytes, fmt.Errorf("%w: has taken entries %d+%d of block %d for host %d, which were not offered", errMalformed, f.index, f.n, f.number, f.host)
		}
		sb := x.sending(f.host, f.number)
		if sb == nil || sb.s.confirmed {
			continue
		}
		s := sb.s
		for i := f.index; i < f.index+f.n; i++ {
			if sb.sent.has(i) {
				continue
			}
			x.pass(sb, i)
			bytes += int64(sb.b.size(i, x.part.Chunk))
		}
		if s.extra {
			x.through(s.to)
			continue
		}
		s.due = time.Now().Add(max(leastGiven, 2*time.Since(x.start), min(4*end, mostGiven)))
		if s.unsent == 0 && s.writing == 0 {
			x.departed(s)
		}
	}
	x.relief.Given += bytes
	return bytes, nil
}
