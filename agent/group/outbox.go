package group

import (
	"sync"
	"time"
)

// An outbox sends messages from a goroutine of its own, so that no one who holds
// state waits for the network. The queue is bounded: a peer that does not read is closed.
type outbox struct {
	c     conn
	queue chan *message // of pointers: the room for so many messages would be 600 KB
	stop  chan struct{} // closed by finish: send what is queued, then close
	once  sync.Once
	turn  func(message) time.Duration // how long a message is to wait, see turns; nil: none does
}

func newOutbox(c conn, turn func(message) time.Duration) *outbox {
	return &outbox{c: c, turn: turn, queue: make(chan *message, 1024), stop: make(chan struct{})}
}

// run sends, beats included, until finish; then the conn is closed.
//
// A failed Send closes nothing: a peer that has said its last words stops listening, and
// that it did may arrive before the words do. How the conn ended is for its reader to find.
func (o *outbox) run() {
	defer o.c.Close()
	if o.deliver() != nil {
		<-o.stop
	}
}

func (o *outbox) deliver() error {
	beat := time.NewTicker(beatPause)
	defer beat.Stop()
	var due <-chan struct{} // a beat before its time
	if s, ok := o.c.(*session); ok {
		due = s.due
	}
	for {
		select {
		case <-due:
			if err := o.c.Send(message{Kind: kindBeat}); err != nil {
				return err
			}
		case <-beat.C:
			if err := o.c.Send(message{Kind: kindBeat}); err != nil {
				return err
			}
		case m := <-o.queue:
			o.wait(*m)
			if err := o.c.Send(*m); err != nil {
				return err
			}
		case <-o.stop:
			for {
				select {
				case m := <-o.queue:
					if err := o.c.Send(*m); err != nil {
						return err
					}
				default:
					return nil
				}
			}
		}
	}
}

// wait waits for m's turn, or until finish.
func (o *outbox) wait(m message) {
	if o.turn == nil {
		return
	}
	d := o.turn(m)
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

func (o *outbox) finish() { o.once.Do(func() { close(o.stop) }) }
