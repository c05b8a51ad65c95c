package lane

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// twiceFor is how long after a word was written its packets are looked for: QUIC sends them at once, unless the host is busy.
	twiceFor = 20 * time.Millisecond
	// dataFor is the same of data, which may wait for the connection's congestion window.
	dataFor = 200 * time.Millisecond
	// twiceAfter is how much later than a packet its copy goes: packets that are lost together are close together.
	twiceAfter = 2 * time.Millisecond
	// repairsFor is how long [Stream.RepairTwice] lasts: whoever wants it for longer says so again.
	repairsFor = 100 * time.Millisecond
	// maxCopies bounds the copies that wait, maxTwice the hosts that words are being said to.
	maxCopies, maxTwice = 64, 1024
	// maxCopied is the longest write that is copied, in bytes: what the kernel cuts into more packets than that is data, and no word.
	maxCopied = 8 << 10
)

// Twice has the next QUIC packets that leave on lane 0 for addr sent once more, as many as n bytes of a stream that are written now take.
//
// Why it is here: a word alone in a packet that is lost is said again when QUIC's probe timeout is over (RFC 9002, §6.2), after two or more round
// trips in which whoever waits for it idles. Receivers drop a packet that they have (RFC 9000, §12.3), so a copy costs its bytes and nothing else.
// Of two copies links that lose one packet in fifty lose both once in 2,500 times, if losses are independent.
func (e *Endpoint) Twice(addr net.Addr, n int) {
	if a, ok := addrPort(addr); ok {
		e.copies.expect(a, 2+n/usualPacket, time.Now().Add(twiceFor))
	}
}

// Twice is [Endpoint.Twice] for what is about to be written to s, n bytes, if packets of its lane can go twice.
func (s *Stream) Twice(n int) {
	if s.copies == nil {
		return
	}
	if a, ok := addrPort(s.Peer.Addr); ok {
		s.copies.expect(a, 2+n/usualPacket, time.Now().Add(dataFor))
	}
}

// RepairTwice has the packets that leave the lane of s right after some of it were found to be lost sent once more, for the next 100 ms: as many as were lost
// and one, since what is repaired goes first and may have to share its packet with something else.
//
// Why it is here: who waits for the last bytes waits for their repair already. One that is lost takes another 1.6 round trips, and where hundreds of
// packets are repaired some are.
func (s *Stream) RepairTwice() {
	if s.copies == nil {
		return
	}
	if a, ok := addrPort(s.Peer.Addr); ok {
		s.copies.watch(a, s.conn, time.Now())
	}
}

// copies are the packets of a socket that are to be sent once more.
type copies struct {
	open atomic.Int32 // of hosts, so that nobody waits for mu while there is none

	mu      sync.Mutex // guards the fields below
	of      map[netip.AddrPort]*copying
	waiting int
}

// A copying is what is still to be copied to a host.
type copying struct {
	left  int // packets
	until time.Time

	conn    *quic.Conn // whose repairs are copied
	lost    uint64     // packets that it had lost when it was looked at last
	watched time.Time  // until when it is
}

// to returns what is to be copied to a host, or nil if there are too many. It needs c.mu.
func (c *copies) to(a netip.AddrPort, now time.Time) *copying {
	if o := c.of[a]; o != nil {
		return o
	}
	if c.of == nil {
		c.of = make(map[netip.AddrPort]*copying)
	}
	if len(c.of) >= maxTwice {
		c.sweep(now)
	}
	if len(c.of) >= maxTwice {
		return nil
	}
	o := new(copying)
	c.of[a] = o
	c.open.Store(int32(len(c.of)))
	return o
}

func (c *copies) expect(a netip.AddrPort, packets int, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.to(a, time.Now()); o != nil {
		o.more(packets, until)
	}
}

// more has so many packets more copied, of those that go until then.
func (o *copying) more(packets int, until time.Time) {
	o.left, o.until = min(max(o.left, 0)+packets, maxCopies), until
}

// watch has what conn repairs copied for a while.
func (c *copies) watch(a netip.AddrPort, conn *quic.Conn, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.to(a, now)
	if o == nil {
		return
	}
	if o.conn != conn || now.After(o.watched) {
		o.conn, o.lost = conn, conn.ConnectionStats().PacketsLost
	}
	o.watched = now.Add(repairsFor)
}

// look finds out whether the next packets repair what was lost.
func (o *copying) look(now time.Time) {
	if now.After(o.watched) {
		return
	}
	if n := o.conn.ConnectionStats().PacketsLost; n > o.lost {
		o.more(int(min(n-o.lost, maxCopies))+1, now.Add(dataFor))
		o.lost = n
	}
}

// sweep forgets whom nothing was said to lately. It needs c.mu.
func (c *copies) sweep(now time.Time) {
	for a, o := range c.of {
		if now.After(o.until) && now.After(o.watched) {
			delete(c.of, a)
		}
	}
	c.open.Store(int32(len(c.of)))
}

// take reports whether p, one packet or several, which has just gone to a host, is to go again.
func (c *copies) take(p []byte, to net.Addr) bool {
	// Packets of a connection that is made have a short header (RFC 9000, §17.3): the highest bit is 0, the next one 1.
	if c.open.Load() == 0 || len(p) == 0 || len(p) > maxCopied || p[0]&byte(quicBits) != 0x40 {
		return false
	}
	a, ok := addrPort(to)
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.of[a]
	if o == nil {
		return false
	}
	now := time.Now()
	o.look(now)
	if o.left <= 0 || now.After(o.until) {
		if now.After(o.watched) {
			delete(c.of, a)
			c.open.Store(int32(len(c.of)))
		}
		return false
	}
	if c.waiting >= maxCopies {
		return false
	}
	o.left -= 1 + len(p)/1500 // p may be several
	c.waiting++
	return true
}

// later has send, which writes a copy and does not block, called in a moment.
func (c *copies) later(send func()) {
	time.AfterFunc(twiceAfter, func() {
		send()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting--
	})
}

// over returns conn, of which packets are copied.
func (c *copies) over(conn net.PacketConn) net.PacketConn {
	plain := copiedConn{conn, c}
	switch conn := conn.(type) {
	case *batchUDP:
		return &copiedUDP{conn, c}
	case syscall.Conn:
		return &copiedRaw{plain, conn}
	}
	return &plain
}

// copiedUDP is the kernel's socket.
type copiedUDP struct {
	*batchUDP
	copies *copies
}

// WriteMsgUDP is that of [batchUDP]. b may be several packets, which oob has the kernel cut (UDP_SEGMENT).
func (c *copiedUDP) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	n, oobn, err = c.batchUDP.WriteMsgUDP(b, oob, addr)
	if err == nil && c.copies.take(b, addr) {
		b, oob := slices.Clone(b), slices.Clone(oob)
		c.copies.later(func() { c.batchUDP.WriteMsgUDP(b, oob, addr) })
	}
	return n, oobn, err
}

// copiedConn is any other socket.
type copiedConn struct {
	net.PacketConn
	copies *copies
}

func (c *copiedConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := c.PacketConn.WriteTo(b, addr)
	if err == nil && c.copies.take(b, addr) {
		b := slices.Clone(b)
		c.copies.later(func() { c.PacketConn.WriteTo(b, addr) })
	}
	return n, err
}

// SetReadBuffer and SetWriteBuffer are what quic-go looks for in a socket.

func (c *copiedConn) SetReadBuffer(bytes int) error {
	if b, ok := c.PacketConn.(interface{ SetReadBuffer(int) error }); ok {
		return b.SetReadBuffer(bytes)
	}
	return nil
}

func (c *copiedConn) SetWriteBuffer(bytes int) error {
	if b, ok := c.PacketConn.(interface{ SetWriteBuffer(int) error }); ok {
		return b.SetWriteBuffer(bytes)
	}
	return nil
}

// copiedRaw is a copiedConn on which socket options can be set, too.
type copiedRaw struct {
	copiedConn
	syscall.Conn
}
