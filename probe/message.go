package probe

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// maxMessage bounds one message on a probe stream, in bytes.
const maxMessage = 512

// What no network does: an estimate beyond is a broken or lying peer's.
const (
	maxRate = float64(netmap.MaxRate) // bytes a second
	maxRTT  = 60 * time.Second
)

// errInvalid marks a message that no honest peer sends.
var errInvalid = errors.New("invalid probe message")

// An op says what a message is. The first message of a stream is a ping, a train or a lease.
type op string

const (
	opPing    op = "ping"    // answer with a pong
	opPong    op = "pong"    //
	opTrain   op = "train"   // may I send you Count packets?
	opGo      op = "go"      // yes, marked with ID
	opSent    op = "sent"    // they have left
	opReading op = "reading" // what arrived: Rate, Spread, Received, Span
	opLease   op = "lease"   // may I load the link from our site to Site?
	opGranted op = "granted" // yes, until the stream ends
	opDone    op = "done"    // I have: Bytes were sent, Rate was read (0: none)
	opLogP    op = "logp"    // Messages of Size bytes follow, answered as Batch says
	opTook    op = "took"    // they are read; held: Messages were there, each took SpanNS
	opBusy    op = "busy"    // no; again after Retry, because of Why

	opBulk     op = "bulk"     // may I send you Bytes at most over Count lanes at most, in Span at most?
	opData     op = "data"     // what follows on this stream are bytes of the bulk transfer ID
	opProgress op = "progress" // Bytes have arrived on Count lanes, Span after the start
)

// A message is one JSON object on a probe stream, after its length in two bytes, big
// endian. Fields that the receiver does not know are ignored.
type message struct {
	Op       op      `json:"op"`
	Count    int     `json:"count,omitempty"`
	ID       string  `json:"id,omitempty"` // 32 hexadecimal digits
	Received int     `json:"received,omitempty"`
	Rate     float64 `json:"rate,omitempty"` // bytes a second: UDP payload in a reading, in done the map's user bytes
	Spread   float64 `json:"spread,omitempty"`
	SpanNS   int64   `json:"span_ns,omitempty"`
	Points   int     `json:"points,omitempty"`
	Shaped   bool    `json:"shaped,omitempty"`
	Lost     string  `json:"lost,omitempty"` // why no rate could be read
	Site     string  `json:"site,omitempty"`
	Use      string  `json:"use,omitempty"`    // lease: what it is charged to, one of useNames
	Urgent   bool    `json:"urgent,omitempty"` // train: a second opinion, wanted even while an exchange runs
	Bytes    int64   `json:"bytes,omitempty"`
	Peer     string  `json:"peer,omitempty"` // joint: the host to send to
	SettleNS int64   `json:"settle_ns,omitempty"`
	Glance   bool    `json:"glance,omitempty"`  // bulk: put what arrives into the map
	Steady   bool    `json:"steady,omitempty"`  // arrives
	Pressed  int64   `json:"pressed,omitempty"` // load
	// What follows is of LogP sessions, see [message.checkLogP].
	Batch    batchKind `json:"batch,omitempty"`
	Size     int64     `json:"size,omitempty"`
	Messages int64     `json:"messages,omitempty"`
	DelayNS  int64     `json:"delay_ns,omitempty"` // leave them unread for so long
	RetryMS  int64     `json:"retry_ms,omitempty"`
	Why      string    `json:"why,omitempty"`
}

// retry returns the pause that a busy peer asks for.
func (m message) retry() time.Duration { return time.Duration(m.RetryMS) * time.Millisecond }

// trainID returns the ID of a go message.
func (m message) trainID() (id trainID, err error) {
	b, err := hex.DecodeString(m.ID)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("train id %q: %w", m.ID, errInvalid)
	}
	return trainID(b), nil
}

// reading returns the reading of a message that passed [message.check].
func (m message) reading() reading {
	return reading{
		Rate: m.Rate / trainPayload, Spread: m.Spread, Received: m.Received,
		Span: time.Duration(m.SpanNS), Points: m.Points, Shaped: m.Shaped,
	}
}

// readingMessage is the inverse of [message.reading].
func readingMessage(r reading) message {
	return message{
		Op: opReading, Rate: r.Rate * trainPayload, Spread: r.Spread, Received: r.Received,
		SpanNS: int64(r.Span), Points: r.Points, Shaped: r.Shaped,
	}
}

// check refuses values that no honest peer sends. Every field is checked, whatever
// the op, so that no later reader of one has to. The comparisons are written so that
// a NaN fails them.
func (m message) check() error {
	switch {
	case m.Count < 0 || m.Count > maxTrain:
		return fmt.Errorf("count %d, want 0 to %d: %w", m.Count, maxTrain, errInvalid)
	case m.Received < 0 || m.Received > maxTrain:
		return fmt.Errorf("received %d, want 0 to %d: %w", m.Received, maxTrain, errInvalid)
	case m.Points < 0 || m.Points > maxTrain:
		return fmt.Errorf("points %d, want 0 to %d: %w", m.Points, maxTrain, errInvalid)
	case !(m.Rate >= 0 && m.Rate <= maxRate):
		return fmt.Errorf("rate %g B/s: %w", m.Rate, errInvalid)
	case !(m.Spread >= 0 && m.Spread <= maxSpread):
		return fmt.Errorf("spread %g: %w", m.Spread, errInvalid)
	case m.SpanNS < 0 || m.SpanNS > int64(maxRTT):
		return fmt.Errorf("span %d ns: %w", m.SpanNS, errInvalid)
	case m.Bytes < 0 || m.Bytes > maxBulkBytes:
		return fmt.Errorf("%d bytes in one session: %w", m.Bytes, errInvalid)
	case len(m.Peer) > 255:
		return fmt.Errorf("host %.40q…, want a name of at most 255 bytes: %w", m.Peer, errInvalid)
	case m.SettleNS < 0 || m.SettleNS > int64(maxRTT):
		return fmt.Errorf("%d ns to settle: %w", m.SettleNS, errInvalid)
	case m.Op == opJoint && (m.Peer == "" || m.Count < 1 || m.Count > glanceLanes || m.Bytes < 1 || m.SpanNS < 1 || !(m.Rate > 0)):
		return fmt.Errorf("joint look with %d bytes over %d lanes in %d ns: %w", m.Bytes, m.Count, m.SpanNS, errInvalid)
	case m.Pressed < 0 || m.Pressed > maxBulkBytes:
		return fmt.Errorf("%d bytes that stood in a queue: %w", m.Pressed, errInvalid)
	case m.RetryMS < 0 || m.RetryMS > time.Hour.Milliseconds():
		return fmt.Errorf("retry after %d ms: %w", m.RetryMS, errInvalid)
	case m.Op == opBulk && (m.Count < 1 || m.Count > maxLanes || m.Bytes < 1 || m.SpanNS < 1):
		return fmt.Errorf("bulk of %d bytes over %d lanes in %d ns: %w", m.Bytes, m.Count, m.SpanNS, errInvalid)
	case m.Op == opLoad && m.Site != "" && (m.SpanNS < 1 || time.Duration(m.SpanNS) > maxLoadSpan):
		return fmt.Errorf("load of %d ns, want up to %v: %w", m.SpanNS, maxLoadSpan, errInvalid)
	case m.Op == opTrain && m.Count < minArrivals:
		return fmt.Errorf("train of %d packets: %w", m.Count, errInvalid)
	case m.Op == opReading && m.Lost == "" && (m.Rate == 0 || m.Received < fewArrivals):
		return fmt.Errorf("reading of %g B/s from %d packets: %w", m.Rate, m.Received, errInvalid)
	}
	return m.checkLogP()
}

// parseMessage decodes and checks the body of a message.
func parseMessage(b []byte) (message, error) {
	var m message
	if err := json.Unmarshal(b, &m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if err := m.check(); err != nil {
		return message{}, fmt.Errorf("%s: %w", m.Op, err)
	}
	return m, nil
}

// readMessage reads one message and requires it to be one of want or busy, for which
// it returns a [BusyError].
func readMessage(r io.Reader, want ...op) (message, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	n := binary.BigEndian.Uint16(head[:])
	if n == 0 || n > maxMessage {
		return message{}, fmt.Errorf("message of %d bytes, want 1 to %d: %w", n, maxMessage, errInvalid)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, err
	}
	m, err := parseMessage(body)
	if err != nil {
		return message{}, err
	}
	for _, o := range want {
		if m.Op == o {
			return m, nil
		}
	}
	if m.Op == opBusy {
		return m, &BusyError{Retry: m.retry(), Why: m.Why}
	}
	return message{}, fmt.Errorf("%q where %q was expected: %w", m.Op, want, errInvalid)
}

func writeMessage(w io.Writer, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Op, err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("%s message of %d bytes, at most %d fit", m.Op, len(body), maxMessage)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...))
	return err
}

// A BusyError means that a host or a link's keeper refuses a probe for now.
type BusyError struct {
	Retry time.Duration // ask again after this
	Why   string
}

func (e *BusyError) Error() string { return fmt.Sprintf("busy (%s), again in %v", e.Why, e.Retry) }
