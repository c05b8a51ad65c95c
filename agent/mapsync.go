package agent

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Anti-entropy of the map: every round an agent exchanges digests, then what the
// other lacks, with one member chosen at random. News reach n agents in about log n
// rounds. Rounds follow each other quickly while the map changes.
const (
	mapPauseBusy = 500 * time.Millisecond
	mapPauseIdle = 5 * time.Second
	mapTimeout   = 10 * time.Second
	maxMapBytes  = 8 << 20 // a delta that is cut short is continued in the next round
	maxMapRows   = 100_000
)

// mapSync keeps the map alike at all agents.
type mapSync struct {
	m     *netmap.Map
	ep    *lane.Endpoint
	peers func() []string
	known func(name string) bool // whether the host is a member, alive or not
	busy  func() bool
	log   *slog.Logger
}

func (s *mapSync) run(ctx context.Context) {
	pause := mapPauseBusy
	epoch := s.m.Epoch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
		peers := s.peers()
		if len(peers) == 0 || s.busy() {
			continue
		}
		peer := peers[rand.IntN(len(peers))]
		if err := s.round(ctx, peer); err != nil && ctx.Err() == nil {
			s.log.Debug("map exchange failed", "peer", peer, "err", err)
		}
		s.forgetStrangers()
		pause = min(pause*3/2, mapPauseIdle)
		if now := s.m.Epoch(); now != epoch { // by a peer's news or by our own measurements
			epoch, pause = now, mapPauseBusy
		}
	}
}

// forgetStrangers drops what was measured by hosts that are no members any more: those
// that left a day ago, and names that a peer has made up.
func (s *mapSync) forgetStrangers() {
	var gone []string
	for reporter := range s.m.Digest() {
		if !s.known(reporter) {
			gone = append(gone, reporter)
		}
	}
	// The digest goes on naming them, so that peers do not send them again.
	s.m.Forget(time.Now(), gone...)
}

// round asks peer: digest there, digest and delta back, delta there.
func (s *mapSync) round(ctx context.Context, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	st, err := s.ep.Open(ctx, peer, 0, lane.StreamMap)
	if err != nil {
		return err
	}
	defer st.Abort() // after Close below it only stops reading
	defer context.AfterFunc(ctx, st.Abort)()
	r := bufio.NewReader(st)
	mine, err := netmap.AppendDigest(nil, s.m.Digest())
	if err != nil {
		return err
	}
	if err := writeFrame(st, mine); err != nil {
		return err
	}
	theirs, err := readDigest(r)
	if err != nil {
		return err
	}
	if err := s.merge(r, peer); err != nil {
		return err
	}
	if err := writeDelta(st, s.m.Delta(theirs, maxMapRows, time.Now())); err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	_, err = r.ReadByte() // wait for the peer's end: an abort now would cut our delta off
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("end of the exchange: %w", err)
	}
	return nil
}

// serve answers one round.
func (s *mapSync) serve(ctx context.Context, st *lane.Stream) {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, st.Abort)()
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
	r := bufio.NewReader(st)
	theirs, err := readDigest(r)
	if err != nil {
		return err
	}
	mine, err := netmap.AppendDigest(nil, s.m.Digest())
	if err != nil {
		return err
	}
	if err := writeFrame(st, mine); err != nil {
		return err
	}
	if err := writeDelta(st, s.m.Delta(theirs, maxMapRows, time.Now())); err != nil {
		return err
	}
	return s.merge(r, st.Peer.Name)
}

func (s *mapSync) merge(r *bufio.Reader, peer string) error {
	b, err := readFrame(r)
	if err != nil {
		return err
	}
	d, err := netmap.ParseDelta(b)
	if err != nil {
		return fmt.Errorf("map rows from %s: %w", peer, err)
	}
	// A report of a host that gossip does not know yet comes again with the next round.
	d = slices.DeleteFunc(d, func(r netmap.Report) bool { return !s.known(r.Reporter) })
	if _, err := s.m.Merge(d, time.Now()); err != nil { // the sound entries were taken; an absurd one is the sender's fault
		s.log.Warn("map rows refused", "peer", peer, "err", err)
	}
	return nil
}

func readDigest(r *bufio.Reader) (netmap.Digest, error) {
	b, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	return netmap.ParseDigest(b)
}

func writeDelta(w io.Writer, d netmap.Delta) error {
	b, err := netmap.AppendDelta(nil, d)
	if err != nil {
		return err
	}
	return writeFrame(w, b)
}

func writeFrame(w io.Writer, b []byte) error {
	_, err := w.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	return err
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return nil, err
	}
	if n > maxMapBytes {
		return nil, fmt.Errorf("frame of %d bytes: more than %d", n, maxMapBytes)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // grows with what arrives
	if err == nil && uint64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
