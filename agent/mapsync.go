package agent

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// The map is kept alike by anti-entropy: every round an agent compares maps with another
// one, and each takes what it lacks. Equal maps cost 14 bytes. News of weight go ahead:
// whoever has heard some starts rounds at once, a few, so that n agents know in about
// log n rounds. Own news go to other sites first: over a full link a round takes a second, and those inside the
// site go on beside it. While an exchange runs, nothing else travels.
const (
	mapPauseHot  = 100 * time.Millisecond // own news of the meantime go together
	mapPausePass = 50 * time.Millisecond  // news of others, which have waited already
	mapPauseIdle = 5 * time.Second
	mapTimeout   = 10 * time.Second

	// mapAlone is how long a host that reaches nobody waits for what its earlier life
	// has measured before it speaks.
	mapAlone = 10 * time.Second
	// maxMapRequests bounds the requests of one round: a hello, the levels of the tree, a swap.
	maxMapRequests = 8
)

// mapSync keeps the map alike at all agents.
type mapSync struct {
	m     *netmap.Map
	ep    *lane.Endpoint
	peers func() []netmap.Host   // the others that are alive
	known func(name string) bool // whether what the host measured counts
	busy  func() bool
	// meet makes a round with a peer, and reports whether there was more than fits one.
	meet func(ctx context.Context, peer string) (cut bool, err error)
	// siteOf returns the label of a host, "" where it is not known.
	siteOf func(host string) string
	log    *slog.Logger

	news           chan struct{} // holds one token if there is something to tell or to pass on
	sent, received atomic.Uint64

	partners *netmap.Partners

	// Of run alone:
	heard    bool            // what the others know of our earlier life
	cut      bool            // the last round left something over
	crossing map[string]bool // hosts of other sites that rounds are under way with
	crossed  chan crossed
}

// maxCrossing bounds the rounds with hosts of other sites that are under way.
const maxCrossing = 3

// A crossed is the end of a round with a host of another site.
type crossed struct {
	peer      string
	made, cut bool
}

// newMapSync returns what keeps m alike with the maps of peers, for a host of site.
func newMapSync(m *netmap.Map, ep *lane.Endpoint, site string) *mapSync {
	s := &mapSync{
		m: m, ep: ep, news: make(chan struct{}, 1),
		crossing: make(map[string]bool), crossed: make(chan crossed, maxCrossing),
		partners: netmap.NewPartners(site, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
	}
	s.meet = s.round
	return s
}

// Bytes returns what comparing and copying maps has cost since the start, without what
// QUIC and UDP add.
func (s *mapSync) Bytes() (sent, received uint64) { return s.sent.Load(), s.received.Load() }

// wake tells run that there may be news. It does not block.
func (s *mapSync) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *mapSync) run(ctx context.Context) {
	started := time.Now()
	idle := time.NewTimer(mapPauseHot)
	defer idle.Stop()
	held := time.NewTimer(mapPauseIdle) // runs while news wait for more of their kind
	defer held.Stop()
	defer func() { // their streams end with ctx
		for range s.crossing {
			<-s.crossed
		}
	}()
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			due = true
		case <-held.C:
		case x := <-s.crossed:
			delete(s.crossing, x.peer)
			if !x.made {
				continue // another one in its time
			}
			if x.cut || !s.heard { // the rest, or what is to be published now: after a pause, as who says that there is more may lie
				s.wake()
			}
			s.heard, s.cut = true, s.cut || x.cut
			continue
		case <-s.news:
			// A short pause lets news of the same moment go together, and rumours meet.
			pause := mapPauseHot
			if s.m.Hot() {
				pause = mapPausePass
			}
			if !sleep(ctx, pause/2+rand.N(pause)) {
				return
			}
		}
		busy := s.busy()
		young := !s.heard && time.Since(started) < mapAlone
		if !young {
			urgent, err := s.m.Publish(time.Now(), busy)
			if err != nil {
				s.log.Warn("measurements are not published", "err", err)
			}
			if urgent {
				s.tellFar(ctx)
			}
			held.Stop()
			if at := s.m.Held(); !at.IsZero() {
				held.Reset(time.Until(at))
			}
		}
		if !due && !s.cut && !s.m.Hot() {
			continue // what we measured is no news of weight: it waits
		}
		going := s.turnToSomebody(ctx)
		if due {
			s.forgetStrangers()
		}
		pause := mapPauseIdle
		switch {
		case going && (s.cut || s.m.Hot()):
			s.wake()
		case s.m.Hot(): // nobody was there, or did not answer: try another one soon
			pause = 10 * mapPauseHot
		case young:
			pause = 4 * mapPauseHot
		}
		idle.Reset(pause/2 + rand.N(pause))
	}
}

// tellFar begins rounds with the partners at other sites.
func (s *mapSync) tellFar(ctx context.Context) {
	for _, peer := range s.partners.Far(s.peers(), time.Now()) {
		s.cross(ctx, peer)
	}
}

// cross begins a round with a host of another site, unless one with it is under way, or many are.
func (s *mapSync) cross(ctx context.Context, peer string) (begun bool) {
	if s.crossing[peer] || len(s.crossing) >= maxCrossing {
		return false
	}
	s.crossing[peer] = true
	go func() { // ends with the round; run waits for it
		cut, made := s.attempt(ctx, peer)
		s.crossed <- crossed{peer, made, cut}
	}()
	return true
}

// turnToSomebody makes one round, or begins one with a host of another site, and reports whether it could.
func (s *mapSync) turnToSomebody(ctx context.Context) bool {
	s.cut = false
	peers := s.peers()
	peer, far, ok := s.partners.Pick(peers, false, time.Now())
	if ok && far {
		if s.cross(ctx, peer) {
			return true
		}
		peer, _, ok = s.partners.Pick(peers, true, time.Now()) // those with other sites are under way
	}
	if !ok {
		return false
	}
	cut, made := s.attempt(ctx, peer)
	s.cut, s.heard = cut, s.heard || made
	return made
}

// attempt makes one round with peer, and reports whether there was more than fits and whether it succeeded.
func (s *mapSync) attempt(ctx context.Context, peer string) (cut, made bool) {
	cut, err := s.meet(ctx, peer)
	if err == nil {
		return cut, true
	}
	if ctx.Err() == nil {
		s.partners.Drop(peer)
		s.log.Debug("map exchange failed", "peer", peer, "err", err)
	}
	return false, false
}

// sleep waits for d and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// forgetStrangers drops what was measured by hosts that do not count any more.
func (s *mapSync) forgetStrangers() {
	var gone []string
	for _, reporter := range s.m.Reporters() {
		if !s.known(reporter) {
			gone = append(gone, reporter)
		}
	}
	if len(gone) > 0 {
		s.m.Forget(time.Now(), gone...)
	}
}

// round compares maps with peer, and reports whether there was more than fits one round.
func (s *mapSync) round(ctx context.Context, peer string) (cut bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	st, err := s.ep.Open(ctx, peer, 0, lane.StreamMap)
	if err != nil {
		return false, err
	}
	ended := false
	defer func() {
		if !ended {
			st.Abort() // the peer would take that for a failure, after a good end
		}
	}()
	defer context.AfterFunc(ctx, st.Abort)()
	in := bufio.NewReader(st)
	r, request := s.m.Start(peer, time.Now())
	for n := 0; request != nil; n++ {
		if n == maxMapRequests {
			return false, fmt.Errorf("no end after %d requests", n)
		}
		if err := s.write(st, request); err != nil {
			return false, err
		}
		answer, err := s.read(in)
		if err != nil {
			return false, err
		}
		var fault error
		if request, fault, err = r.Next(answer, time.Now()); err != nil {
			return false, err
		}
		s.refused(peer, fault)
	}
	ended = true
	st.CancelRead(0) // all is read; without it the stream would wait for somebody to read its end
	return r.Cut, st.Close()
}

// refused logs what Merge did not take, for developers: [netmap.Map.Warnings] tell the
// operator, once.
func (s *mapSync) refused(peer string, fault error) {
	if fault != nil {
		s.log.Debug("map rows refused", "peer", peer, "err", fault)
	}
}

// serve answers one round.
func (s *mapSync) serve(ctx context.Context, st *lane.Stream) {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, st.Abort)()
	s.partners.Called(st.Peer.Name, s.siteOf(st.Peer.Name))
	if err := s.answer(st); err != nil {
		st.Abort()
		if ctx.Err() == nil {
			s.log.Debug("map exchange failed", "peer", st.Peer.Name, "err", err)
		}
		return
	}
	st.Close()
}

func (s *mapSync) answer(st *lane.Stream) error {
	in := bufio.NewReader(st)
	for range maxMapRequests {
		request, err := s.read(in)
		if err == io.EOF {
			return nil // the peer is done
		}
		if err != nil {
			return err
		}
		answer, _, fault, err := s.m.Answer(st.Peer.Name, request, time.Now())
		if err != nil {
			return err
		}
		s.refused(st.Peer.Name, fault)
		if s.m.Hot() {
			s.wake()
		}
		if err := s.write(st, answer); err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d requests", maxMapRequests)
}

func (s *mapSync) write(w io.Writer, b []byte) error {
	n, err := w.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	s.sent.Add(uint64(n))
	return err
}

func (s *mapSync) read(r *bufio.Reader) ([]byte, error) {
	b, err := readFrame(r)
	s.received.Add(uint64(len(b) + len(binary.AppendUvarint(nil, uint64(len(b))))))
	return b, err
}

// readFrame returns io.EOF, bare, if r ends before the frame begins.
func readFrame(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > netmap.MaxMessage {
		return nil, fmt.Errorf("frame of %d bytes: more than %d", n, netmap.MaxMessage)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // grows with what arrives
	if err == nil && uint64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
