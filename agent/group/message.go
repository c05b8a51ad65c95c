package group

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Limits on what a peer may send. A host's part of a plan is a few hundred bytes
// for 20 hosts and grows with the transfers that touch the host; the sizes of an alltoall
// are bounded by [maxTable] besides.
const (
	maxHeader = 1 << 20
	maxBlob   = 64 << 20
)

// maxHold bounds message.Hold: a latency that is believed by mistake must not stop a group.
const maxHold = time.Second

// A message is what the parts of a group say to each other. Kind says which of the
// other fields count; Part and Rows are carried as bytes beside the JSON header.
type message struct {
	Kind kind `json:"k"`

	Group   ID            `json:"g,omitzero"`
	Job     string        `json:"job,omitempty"`
	Rank    int           `json:"rank,omitempty"`
	Ranks   int           `json:"ranks,omitempty"`
	Hosts   []string      `json:"hosts,omitempty"`   // formed: the host of each rank
	Host    string        `json:"host,omitempty"`    // relay: for whom it is; items by way of the coordinator: from whom
	Missing string        `json:"missing,omitempty"` // waiting: the ranks that are not there, for people
	Limit   time.Duration `json:"limit,omitempty"`   // register: nanoseconds that the rank waits for the others, 0 for ever
	Waited  time.Duration `json:"waited,omitempty"`  // register: nanoseconds of the rank's time that are over; with Limit what it was given

	// Token is register's of one Join, so that the answer can be had again, and attach's of one session, so that it can begin
	// again on another stream; 0: it cannot.
	Token uint64 `json:"token,omitempty"`

	Seq        uint64          `json:"seq,omitempty"` // the group's operations are numbered from 0
	Collective plan.Collective `json:"op,omitempty"`
	Size       int64           `json:"size,omitempty"`
	Sizes      []int64         `json:"sizes,omitempty"` // start of an allgather, offer: per rank
	Even       bool            `json:"even,omitempty"`  // ready for an alltoall: the rank gave no sizes
	Root       int             `json:"root,omitempty"`  // of a broadcast
	Eager      bool            `json:"eager,omitempty"` // ready: the rank's contribution travels by the tree
	Tree       *Tree           `json:"tree,omitempty"`
	Small      int             `json:"small,omitempty"`  // register: the version of how small operations travel that the host knows, see smallVersion
	Offers     bool            `json:"offers,omitempty"` // register: and plans that are offered
	Hop        int             `json:"hop,omitempty"`    // items: the blocks of an alltoall's round, which counts from 1; ready: not 0 if that is how it travels
	Past       uint64          `json:"past,omitempty"`   // items: operations before it are over at those whose contributions these are, or planned
	Algorithm  string          `json:"alg,omitempty"`
	Options    Options         `json:"options,omitzero"`
	Plan       string          `json:"plan,omitempty"` // ready: SHA-256 of the plan that the rank brings
	Info       *Planned        `json:"info,omitempty"`
	Failure    *Failure        `json:"failure,omitempty"`
	Cause      string          `json:"cause,omitempty"`

	Hold time.Duration `json:"hold,omitempty"` // start: nanoseconds to wait before the first byte; go: since the last rank's call
	Ago  time.Duration `json:"ago,omitempty"`  // ready, done: nanoseconds for which it waited for others to go with, see lazy.go

	// Standing plans, see standing.go.
	Keep     bool     `json:"keep,omitempty"`     // ready: the host can keep a plan of this call
	Begun    uint64   `json:"begun,omitempty"`    // ready, go, recall: the plan; start: one with which some host had begun in vain
	Standing uint64   `json:"standing,omitempty"` // start, offer: the plan's number, 0 if it is not to be kept
	Given    [][]byte `json:"given,omitempty"`    // offer of an alltoall, and a start that is kept: what each rank of the host sends to each, as in Rows
	Shown    bool     `json:"shown,omitempty"`    // attach: the host knows what follows; start: by it each host gets bytes of all others, so that they show that all have begun

	// Sessions, see session.go. What an end of before they were says nothing of.
	Got  uint64 `json:"got,omitempty"`  // words that the sender has of the other end, plus one
	Deaf bool   `json:"deaf,omitempty"` // beat: nothing has come from the other end for long

	Part []byte `json:"-"` // start, offer: the host's part; plan: the plan; items: see items.go
	Rows []byte `json:"-"` // ready: what the rank sends to each; start, offer: what each rank of the host gets from each

	brief bool // it came in the short form, see short.go

	// Of who says it, see lazy.go.
	since, until time.Time // it can wait from then until then; zero: it cannot
	then         *message  // goes with it, in one piece
}

type kind string

const (
	kindRegister kind = "register" // host → directory: Job, Rank, Ranks, Limit, Waited, Token, Small, Offers
	kindWaiting  kind = "waiting"  // directory → host: Ranks present so far, Missing
	kindFormed   kind = "formed"   // directory → host: Group, Hosts, Tree
	kindRefused  kind = "refused"  // directory → host: Failure

	kindAttach kind = "attach" // member → coordinator: Group, Token, Shown
	kindReady  kind = "ready"  // member → coordinator: Seq, Rank, Collective, Root, Size, Even, Eager, Hop, Algorithm, Options, Plan, Rows, Keep, Begun, Ago
	kindPlan   kind = "plan"   // member → coordinator: Seq, Rank, Part, as fetched
	kindDone   kind = "done"   // member → coordinator: Seq, Ago
	kindBroken kind = "broken" // member → coordinator: Seq, Cause
	kindLost   kind = "lost"   // member → coordinator: Rank, Cause, Failure for its kind
	kindLeft   kind = "left"   // member → coordinator: Rank; Cause if it had to
	kindBeat   kind = "beat"   // both ways: still here
	kindFetch  kind = "fetch"  // coordinator → member: Seq, Rank
	kindStart  kind = "start"  // coordinator → member: Seq, Collective, Sizes, Info, Hold, Part, Rows, Begun, Standing, Shown
	kindGo     kind = "go"     // coordinator → member: Seq, Hold, Begun
	kindRecall kind = "recall" // coordinator → member: Begun, which stands no longer
	kindOffer  kind = "offer"  // coordinator → member: Seq, Collective, Sizes, Info, Part, Rows, Given, Standing, Shown, see offers.go
	kindAbort  kind = "abort"  // coordinator → member: Failure

	kindResume  kind = "resume"  // member → coordinator, first on a further stream: Group, Got
	kindResumed kind = "resumed" // coordinator → member, the answer: Got; it is abort where there is no coordinator

	// kindOver is never sent: a small operation is over here, and calls of it can wait with others.
	kindOver kind = "over"

	kindPeer  kind = "peer"  // member → member, first: Group
	kindItems kind = "items" // member → member: Seq, Collective, Root, Past, Hop, Size, Part; coordinator → member: and Host
	kindRelay kind = "relay" // member → coordinator: as items, and Host
)

// A conn carries messages between two agents, in order. One goroutine sends, one
// receives. What is sent by one call goes in one piece. Close is the sender's: what was sent still arrives, then the peer's
// Recv fails. Abort may be called by anyone at any time and makes all calls fail.
type conn interface {
	Send(m ...message) error
	Recv() (message, error)
	Close()
	Abort()
}

// Member and coordinator send each other something every beatPause, and take an end
// that has said nothing for beatPatience for dead. That is the only thing that tells a
// group of a host's death in time: connections outside a group may be idle for long, and
// keeping all of them warm would cost more than the probes.
const (
	beatPause    = 1500 * time.Millisecond
	beatPatience = 7 * time.Second // four beats and a retransmission or two over a full queue
	// longPatience is for an end from whose host other things still arrive.
	longPatience = time.Minute
	// firstPoll is how long a stream may be silent, longer than between two beats, before it is asked whether other things arrive,
	// and pollPause how often it is from then on.
	firstPoll = 2 * time.Second
	pollPause = 500 * time.Millisecond
)

// errSilent means that the other end is dead or unreachable.
var errSilent = fmt.Errorf("nothing was heard from it for %v", beatPatience)

// MovedCode is the QUIC application error of a stream whose opener has heard nothing on it, and says all that it has said there once more on
// another one.
const MovedCode quic.StreamErrorCode = 2

// ErrMoved is the same of a stream that is not QUIC's: its Read fails with it when its opener has moved, and where it is not known why it has ended.
var ErrMoved = errors.New("its connection has broken")

// hasMoved reports whether err is the end of a stream whose words come on another one, or may.
func hasMoved(err error) bool {
	if errors.Is(err, ErrMoved) {
		return true
	}
	var ended *quic.StreamError
	return errors.As(err, &ended) && ended.Remote && ended.ErrorCode == MovedCode
}

// errMoved ends the reading of a stream that another one has replaced.
var errMoved = errors.New("it goes on over another stream")

// A Stream is the byte stream under a conn; *lane.Stream is one. One that may go by way of a third host has a method Aside() bool, which says
// whether it does, and one that is no stream of QUIC may have Heard() uint64, which counts the packets that have come on it.
type Stream interface {
	io.ReadWriteCloser // Close ends the writing direction only
	SetReadDeadline(time.Time) error
	CancelRead(code quic.StreamErrorCode)
	Abort()
}

// streamConn is a conn over a byte stream: a uvarint length and the header, JSON or in the short form, then a
// uvarint length and the part, then a uvarint length and the rows.
type streamConn struct {
	s     Stream
	r     *bufio.Reader
	brief bool // what is sent is in the short form, if it has one
	beats bool // the other end sends beats: silence is an error
	// heard counts what has arrived from the other end's host, on whatever stream; nil: not
	// known. On a link that is flooded beats wait behind lost data for longer than the
	// patience, while acknowledgements show that the host lives.
	heard func() uint64
	// quiet is called each pollPause after quietTime in which nothing has been heard, last was when, and reports whether
	// the stream is given up. Nil: it is not.
	quiet func(last time.Time) bool
	last  time.Time // when something was heard last, by who reads
	out   []byte    // memory for what is sent, by who sends
}

func newStreamConn(s Stream) *streamConn {
	c := &streamConn{s: s}
	c.r = bufio.NewReader(patient{c})
	return c
}

// mostKept is how much memory a conn keeps for what it sends next.
const mostKept = 64 << 10

// patient reads the stream of a conn. Its patience is for the next bytes, not for a whole
// message: a plan of megabytes takes longer than that over a slow link, and no beat can
// overtake it.
type patient struct{ c *streamConn }

func (p patient) Read(b []byte) (int, error) {
	if !p.c.beats {
		return p.c.s.Read(b)
	}
	c := p.c
	begun := time.Now()
	c.last = begun
	waited := begun // shifted by the time in which this host has slept
	count := c.packets()
	for poll := begun.Add(firstPoll); ; {
		if end := c.last.Add(beatPatience); end.Before(poll) {
			poll = end
		}
		if err := c.s.SetReadDeadline(poll); err != nil {
			return c.s.Read(b) // it has ended, and says why
		}
		n, err := c.s.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now := time.Now()
		more := c.packets()
		if late := now.Sub(poll); late > pollPause { // this host has slept, and could hear nothing
			c.last, waited = c.last.Add(late), waited.Add(late)
		}
		if more > count {
			c.last = now
		}
		count = more // which falls where a new connection counts anew
		silent := now.Sub(c.last)
		if silent >= beatPatience || now.Sub(begun) > longPatience {
			return 0, err
		}
		if c.aside() { // what is heard elsewhere shows that the other end lives, but not that the third host does
			silent = now.Sub(waited)
		}
		if silent >= quietTime && c.quiet != nil && c.quiet(c.last) {
			return 0, errMoved
		}
		poll = time.Now().Add(pollPause)
	}
}

// aside reports whether the stream goes by way of a third host.
func (c *streamConn) aside() bool {
	d, ok := c.s.(interface{ Aside() bool })
	return ok && d.Aside()
}

// packets is heard, and what has come on the stream where it is no QUIC's; 0 where neither is known.
func (c *streamConn) packets() (n uint64) {
	if c.heard != nil {
		n = c.heard()
	}
	if h, ok := c.s.(interface{ Heard() uint64 }); ok {
		n += h.Heard()
	}
	return n
}

func (c *streamConn) Send(said ...message) error {
	all := c.out[:0]
	for i := range said {
		var err error
		if all, err = said[i].appendTo(all, c.brief); err != nil {
			return err
		}
	}
	c.out = nil
	if cap(all) <= mostKept {
		c.out = all
	}
	return c.write(all)
}

func (c *streamConn) write(frame []byte) error {
	_, err := c.s.Write(frame)
	return err
}

// encode returns m as it travels; brief is in the short form, if it has one.
func (m *message) encode(brief bool) ([]byte, error) { return m.appendTo(nil, brief) }

// appendTo appends m to b as it travels.
func (m *message) appendTo(b []byte, brief bool) ([]byte, error) {
	var room [64]byte
	header, ok := room[:0], false
	if brief {
		header, ok = m.appendShort(header)
	}
	if !ok {
		var err error
		if header, err = json.Marshal(m); err != nil {
			return b, fmt.Errorf("encode %s: %w", m.Kind, err)
		}
	}
	b = slices.Grow(b, len(header)+len(m.Part)+len(m.Rows)+3*binary.MaxVarintLen32)
	b = binary.AppendUvarint(b, uint64(len(header)))
	b = append(b, header...)
	b = binary.AppendUvarint(b, uint64(len(m.Part)))
	b = append(b, m.Part...)
	b = binary.AppendUvarint(b, uint64(len(m.Rows)))
	return append(b, m.Rows...), nil
}

func (c *streamConn) Recv() (message, error) {
	m, err := readMessage(c.r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return m, err
}

func (c *streamConn) Close() {
	c.s.Close()
	c.s.CancelRead(0)
}

func (c *streamConn) Abort() { c.s.Abort() }

// finish ends what this side says and waits until the other side has read it all, and ends its own in turn. The
// error says that it may have read less.
func (c *streamConn) finish() error {
	if err := c.s.Close(); err != nil {
		return err
	}
	switch _, err := c.Recv(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("a message on a stream that only its opener writes to")
}

func readMessage(r *bufio.Reader) (message, error) {
	m, err := readHeader(r)
	if err != nil {
		return m, err
	}
	for _, blob := range []*[]byte{&m.Part, &m.Rows} {
		if *blob, err = readSized(r, maxBlob); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return m, err
		}
	}
	return m, nil
}

// readHeader reads the header of a message: a uvarint length, and JSON or the short form.
func readHeader(r *bufio.Reader) (m message, err error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return m, err
	}
	var header []byte
	if n <= uint64(r.Size()) {
		if header, err = r.Peek(int(n)); err == nil {
			defer r.Discard(int(n)) // which are there
		} else if errors.Is(err, io.EOF) && len(header) > 0 {
			err = io.ErrUnexpectedEOF
		}
	} else {
		header, err = readClaimed(r, n, maxHeader)
	}
	switch {
	case err != nil:
		return m, err
	case len(header) > 0 && header[0] < '{':
		return m, m.readShort(header)
	}
	if err := json.Unmarshal(header, &m); err != nil { // which copies what it takes
		return m, fmt.Errorf("message header: %w", err)
	}
	return m, nil
}

// mostClaimed is up to how many bytes the length of a part is believed before they are there: each member may claim so much. The last round of an allgather of 4 KiB
// among 32 hosts has a little over 64 KiB.
const mostClaimed = 256 << 10

// readSized reads a uvarint length of at most limit and that many bytes. Of more than mostClaimed it grows
// with what arrives, not with what the length claims.
func readSized(r *bufio.Reader, limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	return readClaimed(r, n, limit)
}

// readClaimed reads n bytes, which is at most limit.
func readClaimed(r *bufio.Reader, n, limit uint64) ([]byte, error) {
	if n > limit {
		return nil, fmt.Errorf("message of %d bytes: more than %d", n, limit)
	}
	if n <= mostClaimed {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
