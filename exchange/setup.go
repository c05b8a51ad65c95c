package exchange

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// newRun checks part and data and builds the state.
func newRun(ctx context.Context, e *Engine, part *Part, data Data) (*run, error) {
	if err := part.Validate(); err != nil {
		return nil, err
	}
	if name := part.Hosts[part.Self]; name != e.cfg.Self {
		return nil, fmt.Errorf("exchange %v: part of host %q at host %q", part.ID, name, e.cfg.Self)
	}
	x := &run{
		eng: e, part: part, data: data, start: time.Now(), began: time.Since(e.made),
		done:    make(chan struct{}),
		landed:  make(chan struct{}),
		stopped: make(chan struct{}),
		number:  make(map[int]*block, len(part.Blocks)),
		peers:   make(map[string]*peer),
		waiting: make(map[milestone][]*send),
		tokens:  make(map[milestone]*incoming),
	}
	x.sites = sitesOf(part.Hosts, e.cfg.Self, e.cfg.Site)
	x.sites.sendsTo(part)
	x.claims = sync.NewCond(&x.mu)
	if x.data.Progress == nil {
		x.data.Progress = new(Progress)
	}
	x.data.Progress.Incoming.Store(part.Incoming())
	if err := x.addBlocks(); err != nil {
		return nil, fmt.Errorf("exchange %v: %w", part.ID, err)
	}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.addRecvs()
	x.addSends()
	x.toLand, x.toGet = len(x.recvs)+len(x.sends), len(x.recvs)
	// Here, as streams are served from begin on: all may have come before execute goes on.
	x.doubt.unsure, x.doubt.shown = data.Sure != nil, make(chan struct{})
	if x.left == 0 {
		close(x.done)
	}
	return x, nil
}

func (x *run) addBlocks() error {
	result, own := newBuffers(x.data.Results...), newBuffers(x.data.Send)
	if x.data.Results == nil {
		result = newBuffers(x.data.Result)
	}
	if x.data.Send == nil {
		own = result
	}
	var results []Segment
	for i, pb := range x.part.Blocks {
		b := &block{Block: pb, index: i, number: x.part.Number(pb.Block), chunks: int(x.part.chunks(pb.Size))}
		b.have = newBitmap(b.chunks + 1)
		b.claimed = newBitmap(b.chunks + 1)
		if pb.Role != Forward {
			bufs := result
			if pb.Role == Origin {
				bufs = own
			}
			if x.data.Layout == nil {
				return errors.New("no layout")
			}
			segs, err := x.data.segments(pb)
			if err != nil {
				return err
			}
			if b.mem, err = newMemory(pb, bufs, segs); err != nil {
				return err
			}
			if pb.Role == Want || x.data.Send == nil {
				results = append(results, segs...)
			}
		}
		if pb.Role == Origin {
			b.have.setAll(b.chunks)
			b.left = b.chunks
			if b.chunks == 0 {
				b.have.set(0) // the checksum of nothing is known
			}
		} else {
			b.left = b.chunks + 1
		}
		x.blocks = append(x.blocks, b)
		x.number[b.number] = b
	}
	return checkDisjoint(results)
}

// peer returns the state of host i.
func (x *run) peer(i int) *peer {
	name := x.part.Hosts[i]
	p := x.peers[name]
	if p == nil {
		p = x.newPeer(i)
		x.peers[name] = p
	}
	return p
}

func (x *run) newPeer(i int) *peer {
	p := &peer{name: x.part.Hosts[i], index: i, cond: sync.NewCond(&x.mu), out: make(map[int]*sendBlock), in: make(map[int]Stream)}
	p.ctx, p.cancel = context.WithCancel(x.ctx)
	return p
}

func (x *run) addRecvs() {
	for i := range x.part.Recvs {
		pr := &x.part.Recvs[i]
		r := &recv{Recv: pr, from: x.peer(pr.Src), left: len(pr.Blocks)}
		for _, b := range pr.Blocks {
			x.blocks[b].recv = r
			r.missing += x.blocks[b].Size
		}
		r.from.recvs = append(r.from.recvs, r)
		x.recvs = append(x.recvs, r)
		x.left++
		x.addTokens(milestone{pr.ID, false}, pr.Notify)
	}
}

// addTokens notes that hosts are to be told of m.
func (x *run) addTokens(m milestone, hosts []int) {
	for _, h := range hosts {
		p := x.peer(h)
		p.tokens = append(p.tokens, &token{milestone: m})
		p.open++
		x.left++
	}
}

func (x *run) addSends() {
	here := make(map[milestone]bool, 2*len(x.part.Sends)+len(x.part.Recvs)) // what is known without a token
	for _, r := range x.part.Recvs {
		here[milestone{r.ID, false}] = true
	}
	for _, s := range x.part.Sends {
		here[milestone{s.ID, false}] = true
		here[milestone{s.ID, true}] = true
	}
	for i := range x.part.Sends {
		ps := &x.part.Sends[i]
		p := x.peer(ps.Dst)
		s := &send{Send: ps, to: p, waits: len(ps.Waits)}
		for _, w := range ps.Waits {
			m := w.milestone()
			x.waiting[m] = append(x.waiting[m], s)
			if !here[m] && x.tokens[m] == nil {
				from := x.peer(w.Host)
				from.incomingTokens++
				x.tokens[m] = &incoming{from: from}
			}
		}
		for _, bi := range ps.Blocks {
			b := x.blocks[bi]
			sb := newSendBlock(b, s)
			s.blocks = append(s.blocks, sb)
			s.ready += sb.ready
			s.unsent += b.chunks + 1
			b.sends = append(b.sends, sb)
			b.open++
			p.out[b.number] = sb
		}
		p.sends = append(p.sends, s)
		p.open++
		x.sends = append(x.sends, s)
		x.left++
		x.addTokens(milestone{ps.ID, true}, ps.Notify)
	}
}
