package exchange

import (
	"time"

	"github.com/quic-go/quic-go"
)

// meter returns a meter for lane n to p, or nil if nobody wants samples. It needs x.mu.
func (x *run) meter(p *peer, n int) *meter {
	if x.eng.cfg.Observe == nil {
		return nil
	}
	m := &meter{
		sample: Sample{Exchange: x.part.ID, Hosts: x.part.Hosts, Peer: p.name, Lane: n},
		chunk:  int64(x.part.Chunk),
		flow:   flow{peer: p.name, site: x.site(p.name)},
		flows:  &x.eng.flows,
		tally:  tally{path: p.path, count: Toll{Peer: p.name}},
	}
	x.meters = append(x.meters, m)
	return m
}

// measured is the part of a stream that knows its connection; a lane's stream is one.
type measured interface {
	Stats() quic.ConnectionStats
}

// packeted is the part of a stream that knows how long the packets of its connection are; a lane's stream over QUIC is one.
type packeted interface {
	// Payload returns how many bytes of the stream one packet carries, 0 if it is not known.
	Payload() int
}

// rated is the part of a stream that knows whether its congestion control sends at a rate that it has found, and looks for more in seconds only; a
// lane's stream over TCP is one.
type rated interface{ Rated() bool }

// nudged is the part of a stream whose connection finds sooner what is lost at the end of the data if something follows; a lane's stream over QUIC is one.
type nudged interface {
	// Nudge sends a packet that says nothing. It does not block.
	Nudge()
}

// minAsked is the chunk size, in bytes, from which the peer is asked to answer each chunk for
// the sake of samples alone. Such lanes are those of a LAN (on others the window asks), and
// answers to chunks of 4 KiB cost them some per cent of their CPU time (BenchmarkLoopback).
const minAsked = 16 << 10

// ask tells l's meter of its stream, and says whether the peer is to answer each chunk. What goes steadily to p tells nothing of the rate of its lane.
func (x *run) ask(p *peer, l *outLane) bool {
	if l.meter == nil {
		return l.win != nil
	}
	asked := l.win != nil || x.part.Chunk >= minAsked && !p.steady
	var stats func() quic.ConnectionStats
	if s, ok := l.stream.(measured); ok {
		stats = s.Stats
	}
	r, ok := l.stream.(rated)
	found := ok && r.Rated() // asks the kernel: not under the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	l.meter.open(stats, asked, time.Now())
	l.meter.rated = found
	l.meter.win = l.win
	if l.by != "" {
		l.meter.tally.path = Path{} // what is lost on the way to another host is not this path's
	}
	return asked
}

// observe appends the samples that are complete to out; the last ones if the run has ended.
// It needs x.mu.
func (x *run) observe(now time.Time, last bool, out []Sample) []Sample {
	for _, m := range x.meters {
		if last {
			out = m.end(now, out)
		} else {
			out = m.look(now, out)
		}
	}
	return out
}

// tolls appends what was counted of losses since the last call to out. It needs x.mu.
func (x *run) tolls(out []Toll) []Toll {
	for _, m := range x.meters {
		if t := m.tally.take(); t.Sent > 0 {
			out = append(out, t)
		}
	}
	return out
}
