package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange/lane"
)

// The streams on which hosts of a group talk. Small operations are made of words: with 24 hosts an allgather of 8 bytes is 120 of them. To what is near they go over TCP,
// if data do: such a word costs half of the CPU time that it takes over QUIC. In a lab (24 hosts on two processors, ports of 1 Gbit/s) that allgather took 15 ms, and takes 8; one of
// 4 KiB, by plan, 28 and 18.
//
// Elsewhere they go over QUIC: all groups share one connection there, and what is lost is found sooner.

// mostWordConns is how many TCP connections to a host there are at most when another one is dialed for words: each stream takes one. Further groups talk over QUIC.
const mostWordConns = 16

// openWords opens a straight stream for words to host.
func (a *Agent) openWords(ctx context.Context, host string) (straightStream, error) {
	if c, w := a.lanes.choice(host); c.kind == LaneTCP && a.wordsOverTCP(host, w) {
		limit := w.patience()
		short, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no connection within %v", limit))
		s, err := a.endpoint.OpenTCP(short, host, c.congestion, lane.StreamGroup)
		cancel()
		switch {
		case err == nil:
			return tcpWords{s}, nil
		case ctx.Err() != nil:
			return nil, err
		}
		a.lanes.failed(host, err)
		a.log.Debug("no TCP for the words of a group", "peer", host, "err", err)
	}
	return a.openWordsOverQUIC(ctx, host)
}

func (a *Agent) openWordsOverQUIC(ctx context.Context, host string) (straightStream, error) {
	s, err := a.endpoint.Open(ctx, host, 0, lane.StreamGroup)
	if err != nil {
		return nil, err
	}
	return &wordStream{Stream: s, a: a}, nil
}

// wordsOverTCP reports whether words to host go over TCP, where data do and w is what is known of the way.
func (a *Agent) wordsOverTCP(host string, w way) bool {
	if w.rtt == 0 || w.rtt >= 2*lanRTT || a.lossTo(host) >= lossyWords {
		return false
	}
	m, _ := a.members.Member(host)
	return m.Words && a.endpoint.TCPTraffic(host).Conns < mostWordConns
}

// A tcpWords is a straight stream on a TCP lane.
type tcpWords struct{ *lane.TCPStream }

// Read tells of a connection that has broken as [group.ErrMoved]: the host lives, perhaps.
func (s tcpWords) Read(p []byte) (int, error) {
	n, err := s.TCPStream.Read(p)
	if lane.Moved(err) || lane.Broken(err) {
		err = fmt.Errorf("%w: %w", group.ErrMoved, err)
	}
	return n, err
}

// CancelRead ends the reading side.
func (s tcpWords) CancelRead(quic.StreamErrorCode) { s.CloseRead() }

// CancelWrite ends both sides: it says why to the peer.
func (s tcpWords) CancelWrite(code quic.StreamErrorCode) { s.GiveUp(code == group.MovedCode) }

// Abort ends both directions, and says so to the peer.
func (s tcpWords) Abort() { s.GiveUp(false) }

// Heard counts the segments that have come.
func (s tcpWords) Heard() uint64 { return s.Stats().PacketsReceived }

// lossyWords is the share of lost packets from which on words are sent twice: of the 24 or more that an operation of a dozen far hosts takes, one
// in twenty operations loses one then.
const lossyWords = 0.002

// askLoss is for how long an answer of the map to that is good.
const askLoss = 5 * time.Second

// A wordStream is a straight stream whose words go out twice where the way loses packets.
type wordStream struct {
	*lane.Stream
	a *Agent

	mu    sync.Mutex // guards the fields below
	asked time.Time
	way   wordWay
}

// A wordWay is what is known of the way that words go.
type wordWay struct {
	loss float64
	rtt  time.Duration
	rate float64 // bytes a second that several flows get; 0: not known
}

func (s *wordStream) Write(p []byte) (int, error) {
	if s.known(time.Now()).twice(len(p)) {
		s.a.endpoint.Twice(s.Peer.Addr, len(p))
	}
	return s.Stream.Write(p)
}

func (s *wordStream) known(now time.Time) wordWay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() || now.Sub(s.asked) >= askLoss {
		e, _ := s.a.believedEstimate(s.a.name, s.Peer.Name)
		s.asked, s.way = now, wordWay{s.a.lossTo(s.Peer.Name), 2 * e.Latency, float64(max(e.Bandwidth, e.Capacity))}
	}
	return s.way
}

// twice reports whether n bytes of words go out twice. Of what is more than a few packets the copies must take less of the link's time than what
// they save: who waits for a lost packet waits for two round trips.
func (w wordWay) twice(n int) bool {
	switch {
	case w.loss < lossyWords:
		return false
	case n <= farBytes || w.rate == 0:
		return true
	}
	saved := w.loss * float64(n) / straightBytes * 2 * w.rtt.Seconds()
	return float64(n)/w.rate <= saved
}
