package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// quietTime is how long nothing may come from the other end, on any stream, before a session looks for another way: as long
	// as data wait (exchange/detour.go).
	quietTime = 4 * time.Second
	// againPause is between two attempts, and deafPause how long an end that is said to be unheard waits whether that goes on.
	againPause = 200 * time.Millisecond
	deafPause  = 400 * time.Millisecond
	// maxUnheard and maxUnheardBytes bound what is kept of what the other end has not confirmed. With more a session cannot move.
	maxUnheard      = 1024
	maxUnheardBytes = 16 << 20
	// maxSaid is after how many words that are not confirmed a member says no more until some are: the rest is for its last ones.
	maxSaid = 3 * confirmEvery
	// confirmEvery is after how many words a beat confirms them, if nothing else does before.
	confirmEvery = maxUnheard / 4
)

// A session is the conn of a member and its coordinator, over one stream after another: where the way between their hosts breaks, and
// both live, it goes on by way of a third host.
//
// Words are the messages but beats. Either end counts what it says and what it has heard, confirms with everything that it sends how
// many words it has, and keeps its own until they are confirmed. The member, which opens the streams, opens
// another one when nothing comes any more, or when the coordinator's beats say that it hears nothing. The first message there says
// which session it is of and how many words of the coordinator the member has; the coordinator ends the stream of before,
// answers how many of the member's it has, and each says again what the other has not. So no word is lost, comes twice or out of order: what is still read of a stream
// that was replaced does not count.
//
// A member that has heard nothing yet begins again on another stream: all that it has said comes there once more, attach first. So does the
// one whose stream is replaced below it (agent/warystream.go). What the coordinator has of that it knows by its count, and it says its
// own again from the start.
//
// An end of before this existed confirms nothing. Then the session stays what its stream is.
type session struct {
	group ID
	heard func() uint64 // see [Config.Heard]; nil: not known
	// again is [Config.Again], at the member; nil: no other stream can be had.
	again func(ctx context.Context, since time.Time, wanted func() bool) (Stream, error)
	due   chan struct{}   // holds a token when a beat is wanted before its time
	room  chan struct{}   // holds a token when the session may be full no more
	ctx   context.Context // ends with the session
	end   context.CancelFunc

	brief atomic.Bool // the other end knows the short form of words

	wmu sync.Mutex // held while messages are written, so that their order is that of their count

	mu      sync.Mutex // guards the fields below
	c       *streamConn
	changed chan struct{} // closed, and replaced, when c is another one
	waits   bool          // words are kept for a stream that is not ready
	first   *message      // to be said there before them; nil: nothing
	able    bool          // the other end confirms
	moved   bool          // another stream was tried
	said    uint64        // words of this end so far
	kept    [][]byte      // the last of them, as they were sent
	bytes   int           // of kept
	got     uint64        // words of the other end so far
	told    uint64        // got, when the other end was told last
	token   uint64        // of attach, at the coordinator; 0: the member cannot begin again
	repeats uint64        // so many words that are here come on c once more
	deaf    bool          // nothing is heard: the next beat says so

	// Of Recv alone.
	unheard time.Time // when the other end said first that it hears nothing; zero: it does
	next    *message  // what has come already; nil: nothing
	over    *Failure  // what the coordinator's host said in place of going on; nil: nothing
}

// always is for a stream that is wanted whatever is heard.
func always() bool { return true }

func newSession(id ID, c *streamConn) *session {
	s := &session{group: id, heard: c.heard, due: make(chan struct{}, 1), room: make(chan struct{}, 1), changed: make(chan struct{})}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.carry(c)
	return s
}

// carry makes c the stream of s. The caller holds mu, or is alone.
func (s *session) carry(c *streamConn) {
	c.beats, c.heard, c.quiet = true, s.heard, s.quiet
	s.c = c
}

func (s *session) current() *streamConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

// Send sends what is said, or keeps it until there is a stream again. It is [conn]'s.
func (s *session) Send(said ...message) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	var all []byte
	frames := make([][]byte, len(said))
	for i, m := range said {
		if i == len(said)-1 { // once is enough
			s.mu.Lock()
			m.Got, m.Deaf = s.got+1, s.deaf && m.Kind == kindBeat
			s.told = s.got
			s.mu.Unlock()
		}
		frame, err := m.encode(s.brief.Load())
		if err != nil {
			return err
		}
		frames[i], all = frame, append(all, frame...)
	}
	s.mu.Lock()
	for i, m := range said {
		if m.Kind != kindBeat {
			s.keep(frames[i])
		}
	}
	c, waits := s.c, s.waits
	s.mu.Unlock()
	if waits {
		return nil
	}
	err := c.write(all)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moves() && s.ctx.Err() == nil {
		return nil // Recv finds out what has become of the stream
	}
	return err
}

// keep keeps a word. It needs mu.
func (s *session) keep(frame []byte) {
	s.said++
	s.kept, s.bytes = append(s.kept, frame), s.bytes+len(frame)
	for len(s.kept) > maxUnheard || s.bytes > maxUnheardBytes {
		s.drop(1)
	}
}

func (s *session) drop(n int) {
	for _, f := range s.kept[:n] {
		s.bytes -= len(f)
	}
	clear(s.kept[:n])
	s.kept = s.kept[n:]
	if len(s.kept) < maxSaid && len(s.kept)+n >= maxSaid {
		token(s.room)
	}
}

// full reports whether the outbox of s is to wait for room, or for the end of s. A coordinator's does not: what that says is bounded by what the
// ranks of the member have under way.
func (s *session) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again != nil && s.able && len(s.kept) >= maxSaid && s.ctx.Err() == nil
}

// confirmed takes that the other end has so many words, plus one. It reports whether the rest is all here. It needs mu.
func (s *session) confirmed(got uint64) bool {
	if got == 0 || got-1 > s.said {
		return false
	}
	s.able = true
	missing := s.said - (got - 1)
	if missing > uint64(len(s.kept)) {
		return false
	}
	s.drop(len(s.kept) - int(missing))
	return true
}

// Recv returns the next message, from whichever stream. It is [conn]'s, and called by one goroutine.
func (s *session) Recv() (message, error) {
	for {
		c := s.current()
		var m message
		var err error
		if s.next != nil {
			m, s.next = *s.next, nil
		} else {
			m, err = c.Recv()
		}
		if err == nil {
			if s.take(c, &m) {
				return m, nil
			}
			continue
		}
		if s.goesOn(c, err) {
			continue
		}
		s.end() // and no more: this end's last words may be under way
		if f := s.over; f != nil {
			s.over = nil
			return message{Kind: kindAbort, Failure: f}, nil
		}
		return message{}, err
	}
}

// take counts m, which came over c. It reports whether m is the next message.
func (s *session) take(c *streamConn, m *message) bool {
	if m.brief {
		s.brief.Store(true)
	}
	s.mu.Lock()
	if s.c != c {
		s.mu.Unlock()
		return false // it comes again: that it was here was not said
	}
	s.confirmed(m.Got)
	s.deaf = false
	if m.Kind != kindBeat {
		if s.repeats > 0 {
			s.repeats--
			s.mu.Unlock()
			return false
		}
		s.got++
	}
	tell := s.got-s.told == confirmEvery
	s.mu.Unlock()
	if tell {
		s.beat()
	}
	switch {
	case m.Kind != kindBeat:
	case s.again == nil: // who cannot move only answers
		if m.Deaf {
			s.beat()
		}
	case !m.Deaf:
		s.unheard = time.Time{}
	case s.unheard.IsZero():
		s.unheard = time.Now()
		s.beat() // if this host was only slow, the other end hears it by that
	case time.Since(s.unheard) >= deafPause:
		// The other end said so when it had heard nothing for quietTime. That it is heard itself says nothing of the way there.
		if s.move(s.unheard.Add(-quietTime), time.Now().Add(beatPatience), always) {
			s.unheard = time.Time{}
		}
	}
	return true
}

// beat has a beat sent soon.
func (s *session) beat() { token(s.due) }

// token puts one into c, which holds one at most.
func token(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// quiet is called, by Recv, when nothing has come for long. It reports whether there is another stream.
func (s *session) quiet(last time.Time) bool {
	s.mu.Lock()
	moves, c := s.moves(), s.c
	if moves && s.again == nil {
		s.deaf = true // the member may hear that
	}
	s.mu.Unlock()
	switch {
	case !moves:
		return false
	case s.again == nil:
		s.beat()
		return false
	}
	// A host that was only busy speaks again by the time at which it answers by another way.
	seen := c.packets()
	return s.move(last, last.Add(beatPatience), func() bool { return c.aside() || c.packets() <= seen }) || s.over != nil
}

// goesOn reports whether there is another stream than c, which has ended with err, or waits for one.
func (s *session) goesOn(c *streamConn, err error) bool {
	s.mu.Lock()
	moves, moved := s.moves(), s.moved || c.aside()
	s.mu.Unlock()
	if s.current() != c {
		return s.ctx.Err() == nil
	}
	if s.over != nil {
		return false
	}
	var timeout net.Error
	moved = moved || hasMoved(err)
	// An end in good order is one. A stream by way of others, or that may have been replaced, can break for other reasons than its peer's end.
	if !moves || s.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, errSilent) ||
		!moved && !(errors.As(err, &timeout) && timeout.Timeout()) {
		return false
	}
	until := c.last.Add(beatPatience)
	for {
		s.mu.Lock()
		changed := s.changed
		if s.c != c {
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		if s.again != nil && s.move(c.last, until, always) {
			return true
		}
		if s.over != nil {
			return false
		}
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		if s.again != nil {
			left = min(left, againPause)
		}
		t := time.NewTimer(left)
		select {
		case <-changed:
		case <-t.C:
		case <-s.ctx.Done():
			t.Stop()
			return false
		}
		t.Stop()
	}
}

// moves reports whether s can go on over another stream. It needs mu.
func (s *session) moves() bool { return s.able || s.fresh() }

// fresh reports whether s is a member's that has heard nothing, and can say all again. It needs mu.
func (s *session) fresh() bool {
	return s.again != nil && !s.able && s.got == 0 && s.said == uint64(len(s.kept))
}

// move opens another stream and goes on there, until a time, unless it is not wanted any more when it is open. Nothing has come since then.
// Recv's goroutine calls it: nothing is read of the stream of before meanwhile, and if no other one leads there that one goes on.
func (s *session) move(since, until time.Time, wanted func() bool) bool {
	ctx, cancel := context.WithDeadline(s.ctx, until)
	defer cancel()
	st, err := s.again(ctx, since, wanted)
	if err != nil {
		return false
	}
	n := newStreamConn(st)
	s.mu.Lock()
	hello := message{Kind: kindResume, Group: s.group, Got: s.got + 1}
	fresh := s.fresh()
	s.moved = true
	s.mu.Unlock()
	if fresh {
		return s.startOver(ctx, n)
	}
	stop := context.AfterFunc(ctx, n.Abort)
	err = n.Send(hello)
	var answer message
	if err == nil {
		answer, err = n.Recv()
	}
	if err == nil && answer.Kind == kindAbort {
		s.over = answer.Failure
	}
	if !stop() || err != nil || answer.Kind != kindResumed || !s.replace(n, answer.Got, nil) {
		n.Abort()
		return false
	}
	return true
}

// startOver says all on n that s has said, until the other end answers something there, and goes on there. Nothing has come of
// the stream of before, so until then nothing is lost with n.
func (s *session) startOver(ctx context.Context, n *streamConn) bool {
	stop := context.AfterFunc(ctx, n.Abort)
	s.wmu.Lock()
	s.mu.Lock()
	frames := slices.Clone(s.kept)
	s.mu.Unlock()
	var err error
	for _, f := range frames {
		if err == nil {
			err = n.write(f)
		}
	}
	if err == nil {
		err = n.Send(message{Kind: kindBeat, Got: 1, Deaf: true})
	}
	s.wmu.Unlock()
	var answer message
	if err == nil {
		answer, err = n.Recv()
	}
	if !stop() || err != nil {
		n.Abort()
		return false
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.mu.Lock()
	further := int(s.said) - len(frames)
	if further > len(s.kept) {
		s.mu.Unlock()
		n.Abort()
		return false
	}
	old, rest := s.c, slices.Clone(s.kept[len(s.kept)-further:])
	s.carry(n)
	s.mu.Unlock()
	old.Abort()
	s.next = &answer
	for _, f := range rest {
		if n.write(f) != nil {
			break // Recv finds out
		}
	}
	return true
}

// replace goes on over n: it says first, if that is not nil, and then what the other end has not, which has got words, plus one. It returns
// false if that cannot be.
func (s *session) replace(n *streamConn, got uint64, first *message) bool {
	if !s.carryOn(n, got, first, false) {
		return false
	}
	s.repeat()
	return true
}

// beginAgain goes on over n, where the member has said attach once more, and says all that followed.
func (s *session) beginAgain(n *streamConn) bool {
	if !s.carryOn(n, 1, nil, true) {
		return false
	}
	s.repeat()
	return true
}

// carryOn is the first half of replace: from now on words are kept for n, until repeat has said there what was before them. The
// other end begins again: all of its words but the first come there.
func (s *session) carryOn(n *streamConn, got uint64, first *message, again bool) bool {
	s.mu.Lock()
	if s.ctx.Err() != nil || !s.able || !s.confirmed(got) {
		s.mu.Unlock()
		return false
	}
	if s.repeats = 0; again {
		s.repeats = s.got - 1
	}
	if first != nil {
		first.Got = s.got + 1
	}
	old := s.c
	s.carry(n)
	s.first, s.waits, s.moved, s.deaf = first, true, true, false
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	old.Abort() // whoever writes there stops
	return true
}

// repeat writes what is kept to a stream that waits for it, if there is one.
func (s *session) repeat() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.repeatNow()
}

// repeatNow takes a minute at most. It needs wmu.
func (s *session) repeatNow() {
	s.mu.Lock()
	if !s.waits {
		s.mu.Unlock()
		return // somebody has done it
	}
	n, first, frames := s.c, s.first, slices.Clone(s.kept)
	s.first, s.waits = nil, false // the next word waits for wmu
	s.mu.Unlock()
	defer time.AfterFunc(longPatience, n.Abort).Stop()
	if first != nil && n.Send(*first) != nil {
		return
	}
	for _, f := range frames {
		if n.write(f) != nil {
			return // Recv finds out
		}
	}
}

// Close ends what this end says. It is [conn]'s.
func (s *session) Close() {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	s.end() // no further stream replaces this one
	s.repeatNow()
	s.current().Close()
}

// Abort ends the session at once. It is [conn]'s.
func (s *session) Abort() {
	s.end()
	s.current().Abort()
}

// sessions are those of which this host is the coordinator. The zero value is ready to use.
type sessions struct {
	mu sync.Mutex // guards of
	of map[sessionKey]*session
}

type sessionKey struct {
	group ID
	host  string
}

// accept returns the session that the member on host has begun on c with attach, nil if it has begun there again. A second one of that
// member is nobody's, as its coordinator refuses it.
func (t *sessions) accept(host string, attach *message, c *streamConn) *session {
	s := newSession(attach.Group, c)
	s.got, s.token = 1, attach.Token
	s.confirmed(attach.Got)
	key := sessionKey{attach.Group, host}
	t.mu.Lock()
	if old := t.of[key]; old != nil {
		t.mu.Unlock()
		if s.token != 0 && s.token == old.token && old.beginAgain(c) {
			s.end()
			return nil
		}
		return s
	}
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[sessionKey]*session)
	}
	t.of[key] = s
	context.AfterFunc(s.ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.of, key)
	})
	return s
}

// errNoSession means that the coordinator of a group is not here any more.
var errNoSession = errors.New("no session")

// resume has the session that the member on host asks for go on over n.
func (t *sessions) resume(host string, m *message, n *streamConn) error {
	t.mu.Lock()
	s := t.of[sessionKey{m.Group, host}]
	t.mu.Unlock()
	if s == nil {
		return errNoSession
	}
	if !s.replace(n, m.Got, &message{Kind: kindResumed}) {
		return fmt.Errorf("session of group %v cannot go on where %d words were got", m.Group, m.Got)
	}
	return nil
}
