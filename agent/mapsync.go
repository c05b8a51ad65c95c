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
// log n rounds. While an exchange runs, nothing else travels.
const (
	mapPauseHot  = 200 * time.Millisecond // more than a round trip: news of the meantime go together
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
	known func(name string) bool // whether the host is a member, alive or not
	busy  func() bool
	// siteOf returns the label of a host, "" where it is not known.
	siteOf func(host string) string
	log    *slog.Logger

	news           chan struct{} // holds one token if there is something to tell or to pass on
	sent, received atomic.Uint64

	partners *netmap.Partners
	cut      bool // of run alone: the last round left something over
}

// newMapSync returns what keeps m alike with the maps of peers, for a host of site.
func newMapSync(m *netmap.Map, ep *lane.Endpoint, site string) *mapSync {
	return &mapSync{
		m: m, ep: ep, news: make(chan struct{}, 1),
		partners: netmap.NewPartners(site, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))),
	}
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
	heard := false // what the others know of our earlier life
	idle := time.NewTimer(mapPauseHot)
	defer idle.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-idle.C:
			due = true
		case <-s.news:
			// A short pause lets news of the same moment go together, and rumours meet.
			if !sleep(ctx, mapPauseHot/2+rand.N(mapPauseHot)) {
				return
			}
		}
		busy := s.busy()
		young := !heard && time.Since(started) < mapAlone
		if !young {
			if _, err := s.m.Publish(time.Now(), busy); err != nil {
				s.log.Warn("measurements are not published", "err", err)
			}
		}
		if !due && !s.cut && !s.m.Hot() {
			continue // what we measured is no news of weight: it waits
		}
		made := s.turnToSomebody(ctx)
		heard = heard || made
		if due {
			s.forgetStrangers()
		}
		pause := mapPauseIdle
		switch {
		case made && (s.cut || s.m.Hot()):
			s.wake()
		case s.m.Hot(): // nobody was there, or did not answer: try another one soon
			pause = 5 * mapPauseHot
		case young:
			pause = 2 * mapPauseHot
		}
		idle.Reset(pause/2 + rand.N(pause))
	}
}

// turnToSomebody makes one round, and reports whether it succeeded.
func (s *mapSync) turnToSomebody(ctx context.Context) bool {
	s.cut = false
	peer, ok := s.partners.Pick(s.peers(), time.Now())
	if !ok {
		return false
	}
	cut, err := s.round(ctx, peer)
	if err == nil {
		s.cut = cut
		return true
	}
	if ctx.Err() == nil {
		s.partners.Drop(peer)
		s.log.Debug("map exchange failed", "peer", peer, "err", err)
	}
	return false
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

// forgetStrangers drops what was measured by hosts that are no members any more.
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
