package lane

import (
	"crypto/rand"
	"net"
	"slices"
	"time"
)

const (
	// tryFirst is how long after a tunnel was made UDP is tried again for the first time, tryEvery the pause between later ones. Most first ones are for ways
	// that were merely full.
	tryFirst = 5 * time.Second
	tryEvery = 30 * time.Second
)

// What the datagrams say by which UDP is tried: the first byte, after which come tryToken bytes of the end that asks.
const (
	tryAsk    byte = 'a'
	tryAnswer byte = 'A'
	tryToken       = 8

	tries   = 3 // questions that are asked
	tryWait = 600 * time.Millisecond
)

// retry tries UDP from time to time, and has lane 0 go over it again when it is answered.
func (e *Endpoint) retry(t *tunnel) {
	addr := net.UDPAddrFromAddrPort(t.addr)
	for wait := tryFirst; ; wait = tryEvery {
		select {
		case <-time.After(wait):
		case <-t.done:
			return
		case <-e.ctx.Done():
			return
		}
		if t.over.Load() || e.udpAnswered(addr) && e.direct(t, addr) {
			return
		}
	}
}

// udpAnswered asks the host at addr over UDP whether that gets through.
func (e *Endpoint) udpAnswered(addr *net.UDPAddr) bool {
	random := make([]byte, tryToken)
	rand.Read(random)
	token := string(random)
	to, _ := addrPort(addr)
	q := e.tunnels.ask(token, to)
	defer e.tunnels.forget(token)
	for range tries {
		e.writeUDP(PacketTry, slices.Concat([]byte{tryAsk}, random), addr)
		select {
		case <-q.answered:
			return true
		case <-time.After(tryWait):
		case <-e.ctx.Done():
			return false
		}
	}
	return false
}

// direct makes a connection over UDP to the other end of t, for which lane 0 leaves the tunnel.
func (e *Endpoint) direct(t *tunnel, addr net.Addr) bool {
	conn, err := e.transport.Dial(e.ctx, addr, memberTLS(e.cfg.Credentials, 0), e.quicConf)
	if err != nil {
		return false
	}
	l := e.adoptLane0(reached{conn: conn}, t.member)
	if l == nil {
		return false
	}
	e.log.Info("UDP gets through again", "peer", t.member, "addr", t.addr)
	t.retire()
	e.start(func() { e.serve(l) })
	return true
}

// tried handles the datagrams by which UDP is tried. The answer has as many bytes as the question, and says nothing.
func (e *Endpoint) tried(p []byte, from net.Addr, _ time.Time) {
	switch {
	case len(p) != 1+tryToken:
	case p[0] == tryAsk:
		e.writeUDP(PacketTry, slices.Concat([]byte{tryAnswer}, p[1:]), from)
	case p[0] == tryAnswer:
		e.tunnels.answer(string(p[1:]), from)
	}
}
