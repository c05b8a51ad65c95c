package lane

import (
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// A TCPStream is one stream to or from a peer on a TCP lane. Reads and writes are called by
// one goroutine each; the other methods by any, at any time, and they do not block. Whoever
// has it ends both directions as those of a [Stream]: the one by Close, the other by reading
// to the end or CloseRead; or both by Abort. Its connection carries nothing else until then.
type TCPStream struct {
	Peer  Peer
	Local net.Addr
	c     *tcpConn

	rmu sync.Mutex // held by Read; guards the connection's reading side and ended
	wmu sync.Mutex // held by Write; guards the connection's writing side

	ended  bool // a mark was read
	marked bool // one was written, by WriteLast; guarded by wmu
	final  error

	wrote chan struct{} // closed when this side writes no more
	read  chan struct{} // closed when it reads no more

	mu                      sync.Mutex // guards the fields below
	writeClosed, readClosed bool       // wrote and read are closed
	aborted, moved          bool       // moved is GiveUp's
	atEnd                   bool       // ended, for those who do not hold rmu
	writeOver, readOver     bool       // the connection goes on without the stream
}

func (c *tcpConn) stream() *TCPStream {
	return &TCPStream{Peer: c.peer, Local: c.raw.LocalAddr(), c: c, wrote: make(chan struct{}), read: make(chan struct{})}
}

// Read reads what the peer has written. At the end of the stream the error is [io.EOF].
func (s *TCPStream) Read(p []byte) (int, error) {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	if s.final != nil {
		return 0, s.final
	}
	s.mu.Lock()
	closed, aborted := s.readClosed, s.aborted
	s.mu.Unlock()
	switch {
	case aborted:
		return 0, errAborted
	case closed:
		return 0, net.ErrClosed
	case len(p) == 0:
		return 0, nil
	}
	n, err := s.c.read(p)
	if err == nil || timedOut(err) {
		return n, err
	}
	s.final = err
	if s.ended = isMark(err); !s.ended {
		s.c.close()
		return n, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atEnd = true
	s.closeRead()
	return n, err
}

// Write writes p. An error of a deadline is final: TLS cannot go on inside a record.
func (s *TCPStream) Write(p []byte) (int, error) { return s.write(nil, p, false) }

// WriteBoth is Write of head and then body, with fewer system calls and records. n counts both.
func (s *TCPStream) WriteBoth(head, body []byte) (n int, err error) {
	return s.write(head, body, false)
}

// begin writes the stream's kind, which goes out with what follows.
func (s *TCPStream) begin(k StreamKind) error {
	_, err := s.write(nil, []byte{byte(k)}, true)
	return err
}

// Gathers returns up to how many bytes it pays to put together for one write: each is a system call, a record and, where nothing waits to be sent, a
// packet. It is a chunk of a full record and what belongs to it.
func (s *TCPStream) Gathers() int { return maxRecord + maxRecord/16 }

// Within reports whether the peer wrote more at once than has been read, or ended the stream: the next read does not wait for what this side says. Read's
// goroutine calls it.
func (s *TCPStream) Within() bool {
	s.rmu.Lock()
	defer s.rmu.Unlock()
	return s.final == nil && s.c.within()
}

// WriteLast is Write of p and then Close: the end goes out with p, if that is small.
func (s *TCPStream) WriteLast(p []byte) error {
	if err := s.writeLast(p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeWrite() // without wmu: who sees it takes that
	return nil
}

func (s *TCPStream) writeLast(p []byte) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	err := s.writable(len(p))
	if err == nil && s.marked {
		err = net.ErrClosed
	}
	if err == nil && len(p) > 0 {
		err = s.c.write(p, nil, true)
	}
	if err == nil {
		err = s.c.mark(markEnd)
	}
	s.marked = s.marked || err == nil
	return err
}

// writable says why n bytes cannot be written.
func (s *TCPStream) writable(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.aborted:
		return errAborted
	case s.writeClosed:
		return net.ErrClosed
	case n > maxUnit:
		return errors.New("write of 2 GiB or more to a TCP lane: want it in pieces")
	}
	return nil
}

func (s *TCPStream) write(head, body []byte, follows bool) (int, error) {
	n := len(head) + len(body)
	if err := s.writable(n); err != nil {
		return 0, err // without wmu, which is held until the peer has ended the stream as well
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	if err := s.writable(n); err != nil || n == 0 {
		return 0, err
	}
	if s.marked {
		return 0, net.ErrClosed
	}
	if err := s.c.write(head, body, follows); err != nil {
		return 0, err
	}
	return n, nil
}

// Close ends the writing side; what was written is still delivered.
func (s *TCPStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted {
		return errAborted
	}
	s.closeWrite()
	return nil
}

// closeWrite needs s.mu.
func (s *TCPStream) closeWrite() {
	if !s.writeClosed {
		s.writeClosed = true
		close(s.wrote)
	}
}

// CloseRead ends the reading side: later and blocked reads fail.
func (s *TCPStream) CloseRead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endRead()
}

// endRead needs s.mu.
func (s *TCPStream) endRead() {
	s.closeRead()
	if !s.readOver {
		s.c.raw.SetReadDeadline(time.Unix(1, 0)) // long past
	}
}

// closeRead needs s.mu.
func (s *TCPStream) closeRead() {
	if !s.readClosed {
		s.readClosed = true
		close(s.read)
	}
}

// Abort ends both directions at once; blocked calls fail, at the peer as well. The
// connection lives on only if the peer had ended its side before.
func (s *TCPStream) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted || s.writeClosed && s.readClosed {
		return // what was closed in order stays so
	}
	if s.aborted = !s.writeClosed; !s.atEnd {
		s.c.close()
	}
	s.closeWrite()
	s.closeRead()
}

// GiveUp is Abort of which the peer is told, as a [Stream]'s CancelWrite tells it: its reads fail with an error that [Broken] does not report, and the
// connection may live on. moved says that all comes once more on another stream; then [Moved] reports that error. A Write that blocks goes on until the
// connection is given up as well, in a moment.
func (s *TCPStream) GiveUp(moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted || s.writeClosed && s.readClosed {
		return
	}
	s.aborted = !s.writeClosed
	s.moved = s.aborted && moved
	s.endRead()
	s.closeWrite()
}

// Broken reports whether err is how a [TCPStream]'s reads fail when its connection has ended and the peer has not said why: it may live.
func Broken(err error) bool {
	return err != nil && !isMark(err) && !timedOut(err) && err != errAborted && err != net.ErrClosed
}

// Moved reports whether err says that a peer goes on over another stream, see [TCPStream.GiveUp].
func Moved(err error) bool { return err == errMoved }

// SetReadDeadline bounds the reads; one that has passed makes a blocked one fail. After that
// they may go on.
func (s *TCPStream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readClosed {
		return nil
	}
	return s.c.raw.SetReadDeadline(t)
}

// SetWriteDeadline bounds the writes. One that it cuts off is the stream's last.
func (s *TCPStream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeOver {
		return nil
	}
	return s.c.raw.SetWriteDeadline(t)
}

// Rated reports whether the connection's congestion control sends at a rate that it has found and looks for more in seconds only, as BBR does; false where the kernel cannot be asked.
func (s *TCPStream) Rated() bool {
	t, ok := s.c.raw.(*rawTCP)
	if !ok {
		return false
	}
	s.c.control.Do(func() { s.c.rated = strings.HasPrefix(t.congestion(), "bbr") })
	return s.c.rated
}

// Kept returns how many bytes of what was written, and TLS has added to it, the kernel has not sent, 0 where it cannot be asked.
func (s *TCPStream) Kept() int {
	t, ok := s.c.raw.(*rawTCP)
	if !ok {
		return 0
	}
	return t.unsent()
}

// Stats returns what the kernel knows of the connection, in the form in which quic-go tells it: a
// packet is a segment. Zero where the kernel cannot be asked.
func (s *TCPStream) Stats() quic.ConnectionStats { return tcpInfo(s.c.raw) }
