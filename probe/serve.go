package probe

import (
	"context"
	"errors"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// serve answers a peer's stream. It runs in a goroutine of the endpoint.
func (p *Prober) serve(ctx context.Context, s *lane.Stream) {
	s.SetDeadline(time.Now().Add(askTime))
	m, err := readMessage(s, opPing, opTrain, opBulk, opData, opLease, opHold, opLogP, opAsk, opArrives, opJoint, opJointly)
	if err == nil {
		switch m.Op {
		case opPing:
			err = pong(s)
		case opTrain, opBulk, opLogP, opJoint:
			err = p.serveSession(ctx, s, m)
		case opData:
			err = p.serveData(s, m)
		case opLease:
			err = p.serveLease(ctx, s, m)
		case opHold:
			err = p.serveHold(s)
		case opJointly:
			p.serveJointly(s.Peer.Name, m)
		case opArrives:
			p.serveArrives(s.Peer.Name, m)
		case opAsk:
			err = p.desk.serve(ctx, s, p.answer)
		}
	}
	if err != nil {
		s.Abort()
		if errors.Is(err, errInvalid) {
			p.count(func(s *Stats) { s.Invalid++ })
			p.cfg.Log.Warn("invalid probe request", "peer", s.Peer.Name, "err", err)
		}
		return
	}
	finish(s) // what a peer that was refused still sends, nobody will read
}

// serveSession grants a session, which holds this host's slot, if the peer has not held it for
// too much of the time.
func (p *Prober) serveSession(ctx context.Context, s *lane.Stream, m message) error {
	start := time.Now()
	if d := p.ration.wait(s.Peer.Name, start); d > 0 {
		return p.decline(s, d, "you have held this host for long")
	}
	defer func() { p.ration.take(s.Peer.Name, start, time.Now()) }()
	switch m.Op {
	case opTrain:
		return p.serveTrains(ctx, s, m)
	case opBulk:
		return p.serveBulk(ctx, s, m)
	case opJoint:
		return p.serveJoint(ctx, s, m)
	default:
		return p.serveLogP(ctx, s, m)
	}
}

func (p *Prober) serveTrains(ctx context.Context, s *lane.Stream, m message) error {
	busy := p.cfg.Busy
	now := busy()
	if now && m.Urgent && m.Count <= watchTrain && p.alarm(s.Peer.Name) {
		now, busy = false, butOnce(busy)
	}
	if now || p.stopped() {
		return p.decline(s, busyRetry, "exchange")
	}
	select {
	case p.slot <- struct{}{}:
	default:
		return p.decline(s, slotRetry, "another probe")
	}
	defer func() { <-p.slot }()
	p.count(func(s *Stats) { s.Served++ })
	return p.catch.respond(ctx, s, m, busy, func(r reading) {
		p.rec.received(s.Peer.Name, bandwidth(r.Rate), r.Spread)
	})
}

// butOnce returns busy, but that the first answer is no: what is let in during an exchange is one train.
func butOnce(busy func() bool) func() bool {
	asked := false
	return func() bool {
		if !asked {
			asked = true
			return false
		}
		return busy()
	}
}

// stopped reports whether Run has returned.
func (p *Prober) stopped() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// decline refuses a request.
func (p *Prober) decline(s control, retry time.Duration, why string) error {
	p.count(func(s *Stats) { s.Declined++ })
	return writeMessage(s, message{Op: opBusy, RetryMS: max(retry.Milliseconds(), 1), Why: why})
}
