package group

import (
	"sync"
	"time"
)

// An outbox sends messages from a goroutine of its own, so that no one who holds
// state waits for the network. The queue is bounded: a coordinator closes a peer that does not read, and a member takes no more from its ranks.
type outbox struct {
	c      conn
	queue  chan *message   // of pointers: the room for so many messages would be 600 KB
	urgent <-chan *message // goes before the queue; nil: nothing does
	stop   chan struct{}   // closed by finish: send what is queued, then close
	rest   []*message      // to be sent behind the queue then
	once   sync.Once
	turn   func(message) time.Duration // how long a message is to wait, see turns; nil: none does
}

// outboxRoom is the room of a coordinator's outbox; a member's is in member.go.
const outboxRoom = 1024

func newOutbox(c conn, room int, turn func(message) time.Duration) *outbox {
	return &outbox{c: c, turn: turn, queue: make(chan *message, room), stop: make(chan struct{})}
}

// run sends, beats included, until finish; then the conn is closed.
//
// A failed Send closes nothing: a peer that has said its last words stops listening, and
// that it did may arrive before the words do. How the conn ended is for its reader to find.
// Nobody waits for room meanwhile.
func (o *outbox) run() {
	defer o.c.Close()
	if o.deliver() == nil {
		return
	}
	for {
		select {
		case <-o.queue:
		case <-o.stop:
			return
		}
	}
}

func (o *outbox) deliver() error {
	beat := time.NewTicker(beatPause)
	defer beat.Stop()
	s, _ := o.c.(*session)
	var due, room <-chan struct{} // a beat before its time, and to look again
	if s != nil {
		due, room = s.due, s.room
	}
	for {
		queue, ended := o.queue, (<-chan struct{})(nil)
		if s != nil && s.full() {
			queue, ended = nil, s.ctx.Done()
		}
		m := message{Kind: kindBeat}
		select {
		case <-room:
			continue
		case <-ended:
			continue
		case <-due:
		case <-beat.C:
		case u := <-o.urgent:
			m = *u
		case q := <-queue:
			o.wait(*q)
			m = *q
		case <-o.stop:
			return o.sendRest()
		}
		if err := o.c.Send(together(m)...); err != nil {
			return err
		}
	}
}

// sendRest sends what is left to say.
func (o *outbox) sendRest() error {
	var rest []*message
	select {
	case m := <-o.urgent:
		rest = append(rest, m)
	default:
	}
	for len(o.queue) > 0 {
		rest = append(rest, <-o.queue)
	}
	for _, m := range append(rest, o.rest...) {
		if err := o.c.Send(together(*m)...); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for m's turn, or until finish.
func (o *outbox) wait(m message) {
	if o.turn == nil {
		return
	}
	d := o.turn(m)
	for w := m.then; w != nil; w = w.then {
		o.turn(*w) // which has its share of the way, too
	}
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.stop:
	}
}

func (o *outbox) send(m message) {
	select {
	case o.queue <- &m:
	default:
		o.c.Abort()
	}
}

// finish has run send what is queued, and rest behind it, and end.
func (o *outbox) finish(rest ...*message) {
	o.once.Do(func() {
		o.rest = rest
		close(o.stop)
	})
}
