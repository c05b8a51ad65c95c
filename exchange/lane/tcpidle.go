package lane

import (
	"context"
	"slices"
	"sync"
	"time"
)

// tcpLanes are an endpoint's TCP connections. Its zero value is ready to use.
type tcpLanes struct {
	handlers map[StreamKind]func(context.Context, *TCPStream) // written before Run

	mu       sync.Mutex // guards the fields below
	conns    map[string]map[*tcpConn]struct{}
	accepted map[string]int        // of conns, those that the member has dialed
	resting  map[string][]*tcpConn // dialed ones without a stream, by member; the last used is last
	rest     int                   // how many those are
	gone     map[string]TCPTraffic // of connections that have ended, and what
	came     map[string]uint64     // had arrived on them
}

// take returns a new stream to name on a connection that rests, or nil.
func (t *tcpLanes) take(name, congestion string) *TCPStream {
	for {
		t.mu.Lock()
		rs := t.resting[name]
		i := -1
		for j, c := range rs { // the last: it is the least likely to be too old
			if c.kind == congestion {
				i = j
			}
		}
		if i < 0 {
			t.mu.Unlock()
			return nil
		}
		c := rs[i]
		t.unrest(c)
		c.raw.SetReadDeadline(time.Unix(1, 0)) // ends its read in wait, which sets another after that
		t.mu.Unlock()
		if s := <-c.ready; s != nil {
			return s
		}
	}
}

// rests reports whether a connection to name rests.
func (t *tcpLanes) rests(name, congestion string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.resting[name], func(c *tcpConn) bool { return c.kind == congestion })
}

// wait keeps c in the pool until it is taken, and returns its next stream. It returns nil if
// the connection has ended, has been idle for too long, or has no place there.
func (t *tcpLanes) wait(c *tcpConn) *TCPStream {
	name := c.peer.Name
	t.mu.Lock()
	if len(t.resting[name]) >= maxResting || t.rest >= maxRestingAll {
		t.mu.Unlock()
		return nil
	}
	c.raw.SetReadDeadline(time.Now().Add(restTime))
	if t.resting == nil {
		t.resting = make(map[string][]*tcpConn)
	}
	t.resting[name] = append(t.resting[name], c)
	t.rest++
	t.mu.Unlock()
	var b [1]byte
	_, err := c.rw.Read(b[:]) // the peer has nothing to say now
	t.mu.Lock()
	taken := !t.unrest(c)
	t.mu.Unlock()
	if !taken {
		return nil
	}
	var s *TCPStream
	if timedOut(err) && c.raw.SetDeadline(time.Time{}) == nil && c.ctx.Err() == nil {
		s = c.stream()
	}
	c.ready <- s
	return s
}

// unrest takes c out of the pool. It needs t.mu.
func (t *tcpLanes) unrest(c *tcpConn) bool {
	rs := t.resting[c.peer.Name]
	i := slices.Index(rs, c)
	if i < 0 {
		return false
	}
	t.rest--
	if rs = slices.Delete(rs, i, i+1); len(rs) == 0 {
		delete(t.resting, c.peer.Name)
	} else {
		t.resting[c.peer.Name] = rs
	}
	return true
}

// add counts c. It returns false if the member has made too many connections.
func (t *tcpLanes) add(c *tcpConn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := c.peer.Name
	if !c.dialed && t.accepted[name] >= maxAccepted {
		return false
	}
	if t.conns == nil {
		t.conns, t.accepted = make(map[string]map[*tcpConn]struct{}), make(map[string]int)
		t.gone, t.came = make(map[string]TCPTraffic), make(map[string]uint64)
	}
	if t.conns[name] == nil {
		t.conns[name] = make(map[*tcpConn]struct{})
	}
	t.conns[name][c] = struct{}{}
	if !c.dialed {
		t.accepted[name]++
	}
	return true
}

func (t *tcpLanes) remove(c *tcpConn) {
	came := c.arrived()
	t.mu.Lock()
	defer t.mu.Unlock()
	name := c.peer.Name
	sum := t.gone[name]
	sum.Sent, sum.Received = sum.Sent+c.sent.Load(), sum.Received+c.received.Load()
	t.came[name] += came
	t.gone[name] = sum // as many as there are members: their certificates name them
	if delete(t.conns[name], c); len(t.conns[name]) == 0 {
		delete(t.conns, name)
	}
	if !c.dialed {
		if t.accepted[name]--; t.accepted[name] == 0 {
			delete(t.accepted, name)
		}
	}
}
