package lane

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quic-go/quic-go"
)

// closingTime is how long the socket of a closed lane stays at most, see [Endpoint.linger].
const closingTime = time.Second

// transportOn returns a transport over conn.
func (e *Endpoint) transportOn(conn net.PacketConn) *quic.Transport {
	t := &quic.Transport{Conn: conn}
	if e.cfg.StatelessReset != [32]byte{} {
		key := quic.StatelessResetKey(e.cfg.StatelessReset)
		t.StatelessResetKey = &key
	}
	return t
}

// socketFor returns the transport from which a lane is dialed, the copies of what leaves by its socket, and what is to be called
// when its connection has ended.
func (e *Endpoint) socketFor(lane int) (t *quic.Transport, c *copies, done func(), err error) {
	if lane == 0 || e.cfg.OpenSocket == nil {
		return e.transport, &e.copies, func() {}, nil
	}
	conn, err := e.cfg.OpenSocket()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("socket for lane %d: %w", lane, err)
	}
	c = new(copies)
	t = e.transportOn(c.over(fastUDP(conn)))
	return t, c, func() {
		t.Close() // ends the goroutine that reads
		conn.Close()
	}, nil
}

// linger keeps the socket of a lane that has been closed for three probe timeouts: QUIC's
// closing period (RFC 9000, §10.2), in which quic-go says again to a peer that goes on
// sending that the lane is closed. Gone at once, a lost goodbye would leave the peer with
// a connection until its idle timeout.
func (e *Endpoint) linger(l *link) {
	var timeout *quic.IdleTimeoutError
	if l.lane == 0 || !l.dialed || e.cfg.OpenSocket == nil || errors.As(l.cause(), &timeout) {
		return
	}
	st := l.conn.ConnectionStats()
	pto := st.SmoothedRTT + max(4*st.MeanDeviation, time.Millisecond) // RFC 9002, §6.2.1
	t := time.NewTimer(min(3*pto, closingTime))
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
	}
}

// CloseLanes closes the lanes to the member called name that this host has dialed and
// whose number is first or more, at least 1, with all streams on them. Dials that are in
// progress end with an error. An Open that comes later dials anew.
func (e *Endpoint) CloseLanes(name string, first int) {
	first = max(first, 1)
	e.mu.Lock()
	open := e.links.giveUp(name, first)
	e.mu.Unlock()
	for _, l := range open {
		l.conn.CloseWithError(codeClosed, "no more use for this lane") // the goroutine that serves it does the rest
	}
}
