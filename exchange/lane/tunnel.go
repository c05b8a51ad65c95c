package lane

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// protoTunnel is the ALPN protocol of tunnels.
const protoTunnel = "gridagent-datagrams/1"

const (
	// maxFrame is the longest datagram in a tunnel: no packet of quic-go's is longer.
	maxFrame = 1500
	// tunnelQueue is how many datagrams wait for a tunnel's connection. Further ones are lost, as in a full socket buffer.
	tunnelQueue = 256
	// tunnelQuiet is how long a tunnel stays through which nothing comes: QUIC's pings come more often.
	tunnelQuiet = 3 * time.Minute
	// writeTime is how long what is written to a tunnel may take to get into the kernel's buffer before the tunnel counts as dead.
	writeTime = 30 * time.Second
	// lastTime is the same for what waits when this host ends.
	lastTime = time.Second
)

var errFrame = errors.New("malformed frame in a tunnel")

// A tunnel carries datagrams inside a TCP connection, over TLS, to a host that UDP does not reach. What follows the handshake is
// in either direction a row of frames: a length of two bytes, big endian, and a datagram of so many bytes. A length of 0 is
// a mark: first, from the accepting end, that it has taken the tunnel; later, from either, that UDP is to be used again. The first frame of the end that dialed is the
// number of its UDP port, in two bytes.
//
// What is inside is what UDP would carry, QUIC packets, gossip, probes, and protects itself as it does there: a tunnel is no more to be trusted than
// the wire. So a host without a certificate may have one as well, to join.
type tunnel struct {
	addr   netip.AddrPort // where the other end's UDP socket would be
	member string         // at the other end; empty: a host without a certificate
	conn   net.Conn       // the TCP connection
	tls    *tls.Conn
	queue  chan []byte // nil is a mark
	lost   atomic.Uint64
	over   atomic.Bool // UDP reaches the other end again
	done   chan struct{}
	end    sync.Once
	last   chan struct{} // closed: what waits is still carried, then the tunnel ends
}

func newTunnel(conn net.Conn, over *tls.Conn, member string, addr netip.AddrPort) *tunnel {
	return &tunnel{addr: addr, member: member, conn: conn, tls: over, queue: make(chan []byte, tunnelQueue), done: make(chan struct{}), last: make(chan struct{})}
}

// close ends the tunnel, and with it the calls that block on it.
func (t *tunnel) close() {
	t.end.Do(func() {
		close(t.done)
		t.conn.Close()
	})
}

// send has p carried, or loses it.
func (t *tunnel) send(p []byte) {
	if len(p) == 0 || len(p) > maxFrame {
		t.lost.Add(1)
		return
	}
	t.put(bytes.Clone(p))
}

func (t *tunnel) put(frame []byte) {
	select {
	case t.queue <- frame:
	default:
		t.lost.Add(1)
	}
}

// retire has both ends use UDP again. What is under way in the tunnel, and its connections, go on.
func (t *tunnel) retire() {
	if !t.over.Swap(true) {
		t.put(nil)
	}
}

// finish has what waits still carried, for no longer than lastTime, and then the tunnel ended. It does not block, and is called once.
func (t *tunnel) finish() {
	close(t.last)
	t.conn.SetWriteDeadline(time.Now().Add(lastTime)) // also of a write that blocks
}

// finishing reports whether finish was called.
func (t *tunnel) finishing() bool {
	select {
	case <-t.last:
		return true
	default:
		return false
	}
}

// write carries what is sent until the tunnel ends. Frames that wait go together.
func (t *tunnel) write() {
	defer t.close()
	w := bufio.NewWriterSize(t.tls, 16<<10)
	for {
		last := false
		select {
		case frame := <-t.queue:
			t.conn.SetWriteDeadline(time.Now().Add(writeTime))
			writeFrame(w, frame)
		case <-t.last:
			last = true
		case <-t.done:
			return
		}
		if t.finishing() { // asked after the deadline was set: finish sets its own after it has said so
			t.conn.SetWriteDeadline(time.Now().Add(lastTime))
		}
		for len(t.queue) > 0 {
			writeFrame(w, <-t.queue)
		}
		if w.Flush() != nil || last {
			return
		}
	}
}

// read hands what comes to deliver until the tunnel ends, and returns why. p is valid during the call.
func (t *tunnel) read(r *bufio.Reader, deliver func(p []byte)) error {
	defer t.close()
	buf := make([]byte, maxFrame)
	for {
		if t.member != "" {
			t.conn.SetReadDeadline(time.Now().Add(tunnelQuiet))
		}
		n, err := readFrame(r, buf)
		switch {
		case err != nil:
			return err
		case n == 0:
			t.over.Store(true)
		default:
			deliver(buf[:n])
		}
	}
}

// writeFrame writes p; the error comes with Flush.
func writeFrame(w *bufio.Writer, p []byte) {
	w.Write(binary.BigEndian.AppendUint16(w.AvailableBuffer(), uint16(len(p))))
	w.Write(p)
}

// readFrame reads the next frame into buf, of maxFrame bytes. A mark has none.
func readFrame(r io.Reader, buf []byte) (int, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, noEnd(err)
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > maxFrame {
		return 0, fmt.Errorf("%w: %d bytes", errFrame, n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, noEnd(err)
	}
	return n, nil
}

// introduce says where the UDP socket of this end, which has dialed, is, and waits until the other end has taken the tunnel.
func (t *tunnel) introduce(r io.Reader, port uint16) error {
	hello := []byte{0, 2, 0, 0}
	binary.BigEndian.PutUint16(hello[2:], port)
	if _, err := t.tls.Write(hello); err != nil {
		return err
	}
	n, err := readFrame(r, make([]byte, maxFrame))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotTaken, err)
	}
	if n != 0 {
		return fmt.Errorf("%w: it begins with %d bytes", errFrame, n)
	}
	return nil
}

// welcome reads what the end that has dialed says of itself.
func (t *tunnel) welcome(r io.Reader) error {
	buf := make([]byte, maxFrame)
	n, err := readFrame(r, buf)
	if err != nil {
		return err
	}
	if n != 2 {
		return fmt.Errorf("%w: it begins with %d bytes", errFrame, n)
	}
	from, ok := t.conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("tunnel from %v: not an address of TCP", t.conn.RemoteAddr())
	}
	t.addr = netip.AddrPortFrom(from.AddrPort().Addr().Unmap(), binary.BigEndian.Uint16(buf[:n]))
	return nil
}
