package lane

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// StreamKind is the first byte of a stream: who handles it.
type StreamKind byte

// The kinds of streams.
const (
	StreamGossip  StreamKind = 'g' // memberlist push/pull
	StreamGroup   StreamKind = 'r' // forming groups of ranks, and their coordination
	StreamMap     StreamKind = 'm' // rows of the network map
	StreamSign    StreamKind = 's' // a join request on its way to the authority
	StreamData    StreamKind = 'd' // chunks of an exchange
	StreamProbe   StreamKind = 'p' // control of a probe
	StreamTree    StreamKind = 't' // the switch tree that a host's operator has declared
	StreamTune    StreamKind = 'u' // a rank of a tuning run
	StreamVia     StreamKind = 'v' // one that this host is to carry to another member; the endpoint's own
	StreamCarried StreamKind = 'w' // one that another member carries to this host; the endpoint's own
	StreamIdle    StreamKind = 'i' // whether a connection may be closed; the endpoint's own
	StreamJoin    StreamKind = 'j' // the only kind accepted on a join connection
)

// abortCode is the QUIC application error of a stream that ends before its time.
const abortCode quic.StreamErrorCode = 1

// A Peer is the other end: its host name as certified, and where it is reached.
type Peer struct {
	Name string
	Addr net.Addr
}

// A Stream is one stream to or from a peer. Whoever has it ends both directions: the
// one by Close (or CancelWrite), the other by reading to the end or CancelRead; or both
// by Abort. One that is left open counts against the peer's limit of streams until the
// connection ends.
type Stream struct {
	*quic.Stream
	Peer  Peer
	Local net.Addr
	conn  *quic.Conn
	own   *Endpoint // of a stream that was opened here
	both  []byte    // of WriteBoth

	kind   StreamKind  // what goes before the first byte that is written
	silent atomic.Bool // it is still to go
	copies *copies     // of the lane's socket; nil: nothing goes twice there
}

// mostBoth is how much WriteBoth puts together in a copy, in bytes.
const mostBoth = 8 << 10

// WriteBoth is Write of head and then body; n counts both. The two go out as one: quic-go sends what a first Write leaves in its
// buffer as soon as it may, mostly before the second, and then a head of five bytes has a packet, and half of an acknowledgement, to itself. Of an
// allgather of 256 KiB a rank on the shared 3-site grid every other chunk had: 0.7 % of what crossed the fullest link.
func (s *Stream) WriteBoth(head, body []byte) (n int, err error) {
	before := s.both[:0]
	if s.silent.CompareAndSwap(true, false) {
		before = append(before, byte(s.kind))
	}
	own := len(before)
	if own+len(head) == 0 {
		return s.Stream.Write(body) // from its place
	}
	some := min(len(body), max(mostBoth-len(head), 0))
	s.both = append(append(before, head...), body[:some]...)
	n, err = s.Stream.Write(s.both)
	if n = max(n-own, 0); err != nil || some == len(body) {
		return n, err
	}
	m, err := s.Stream.Write(body[some:])
	return n + m, err
}

// Write is that of [quic.Stream].
func (s *Stream) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return s.WriteBoth(nil, p)
	}
	return s.Stream.Write(p)
}

// Close ends the writing side; the peer may still write.
func (s *Stream) Close() error {
	if s.silent.Load() {
		if _, err := s.WriteBoth(nil, nil); err != nil {
			return err
		}
	}
	return s.Stream.Close()
}

// WriteLast is Write of p and then Close. The end goes out with the last of p, if quic-go's own goroutine does not come between: of more than a packet Write
// returns when that goroutine has taken the last of it, and the end would have a packet to itself, and another one its acknowledgement. So it is handed over at once, if flow control lets it.
func (s *Stream) WriteLast(p []byte) error {
	err := quic.ErrWouldBlock
	if len(p) > 0 && len(p) < mostBoth {
		q := p
		if s.silent.Load() {
			q = append([]byte{byte(s.kind)}, p...)
		}
		if err = s.TryWriteAll(q); err == nil {
			s.silent.Store(false)
		}
	}
	if errors.Is(err, quic.ErrWouldBlock) {
		_, err = s.Write(p)
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// Stats returns the statistics of the lane that carries the stream.
func (s *Stream) Stats() quic.ConnectionStats { return s.conn.ConnectionStats() }

// longest is longer than any packet.
var longest [2 << 10]byte

// Payload returns how many bytes of a stream fit into one packet of the lane, a few less rather than
// more, or 0 if that is not known. It grows while the connection finds out what the path takes (RFC 8899).
//
// quic-go tells it to whoever wants to send a datagram (RFC 9221) that is too long, and only so.
func (s *Stream) Payload() int {
	var tooLong *quic.DatagramTooLargeError
	if errors.As(s.conn.SendDatagram(longest[:]), &tooLong) {
		return int(max(tooLong.MaxDatagramPayloadSize, 0))
	}
	return 0
}

// Nudge sends a packet that says nothing. Whether packets before it were lost the peer's acknowledgement of it then tells; until something follows them only QUIC's probe
// timeout does (RFC 9002, §6.2).
func (s *Stream) Nudge() { s.conn.SendDatagram(nil) }

// CloseRead ends the reading side: later and blocked reads fail, and the peer is told that nobody reads.
func (s *Stream) CloseRead() { s.CancelRead(0) }

// endTime is how long EndRead waits for the peer, and mostEnd for how many bytes.
const (
	endTime = time.Second
	mostEnd = 64 << 10
)

// EndRead is CloseRead of a side that the peer is about to end, as this one has ended. It does not block: a goroutine of the endpoint waits for that for a while. To be
// told that nobody reads would cost the peer a packet, and its answer to that another.
func (s *Stream) EndRead() {
	if s.own == nil || !s.own.start(s.awaitEnd) {
		s.CloseRead()
	}
}

// awaitEnd reads to the end.
func (s *Stream) awaitEnd() {
	if s.SetReadDeadline(time.Now().Add(endTime)) == nil {
		io.Copy(io.Discard, io.LimitReader(s.Stream, mostEnd))
	}
	s.CloseRead()
}

// Abort ends both directions at once; the peer's reads and writes fail.
func (s *Stream) Abort() {
	s.CancelRead(abortCode)
	s.CancelWrite(abortCode)
}

// kindTimeout is how long a peer may take over the first byte of a stream. It writes it
// with the opening or before what it writes first, without which the stream is not seen here, so only a lost packet's repair or a peer that opens for the sake of opening
// takes long.
const kindTimeout = 10 * time.Second

// readKind reads a stream's first byte. The read deadline is cleared again.
func readKind(s interface {
	io.Reader
	SetReadDeadline(time.Time) error
}) (StreamKind, error) {
	var b [1]byte
	if err := s.SetReadDeadline(time.Now().Add(kindTimeout)); err != nil {
		return 0, err
	}
	// ReadFull and not Read: a reader may return 0 bytes and no error, and 1 byte with io.EOF.
	if _, err := io.ReadFull(s, b[:]); err != nil {
		return 0, err
	}
	return StreamKind(b[0]), s.SetReadDeadline(time.Time{})
}
