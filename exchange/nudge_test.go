package exchange

import (
	"testing"
	"time"
)

// nudgedStream counts its nudges.
type nudgedStream struct {
	Stream
	nudges int
}

func (s *nudgedStream) Nudge() { s.nudges++ }

// TestNudge: what went out last is followed by a few packets where it is not answered, and not while there is more to give to lanes.
func TestNudge(t *testing.T) {
	start := time.Now()
	const rtt = 200 * time.Millisecond
	for _, tt := range []struct {
		name   string
		change func(p *peer, l *outLane)
		want   int
	}{
		{"the last ones are out", func(*peer, *outLane) {}, mostNudges},
		{"there is more", func(p *peer, _ *outLane) { p.sends = []*send{{unsent: 1}} }, 0},
		{"the transport has not taken them", func(_ *peer, l *outLane) { l.flights[1].at = time.Time{} }, 0},
		{"all is answered", func(_ *peer, l *outLane) { l.flights = nil }, 0},
		{"nobody answers", func(p *peer, _ *outLane) { p.win = nil }, 0},
		{"the peer needs nothing more", func(p *peer, _ *outLane) { p.open = 0 }, 0},
	} {
		s := &nudgedStream{}
		l := &outLane{stream: s, flights: []flight{{at: start}, {at: start}}}
		p := &peer{open: 1, path: Path{RTT: rtt}, win: &tap{}, outs: []*outLane{l}}
		tt.change(p, l)
		var first time.Duration
		for d := time.Duration(0); d < 10*rtt; d += tendEvery {
			for _, s := range p.nudge(start.Add(d), nil) {
				s.Nudge()
				if first == 0 {
					first = d
				}
			}
		}
		if s.nudges != tt.want || s.nudges > 0 && (first < tendEvery || first > rtt/2) {
			t.Errorf("%s: %d nudges, the first after %v; want %d, the first within half a round trip", tt.name, s.nudges, first, tt.want)
		}
	}
	l := &outLane{win: &tap{}, nudges: mostNudges}
	if l.flies(&sendBlock{}, 0, 10, 0, start); l.nudges != 0 {
		t.Error("what is written anew is not followed by nudges")
	}
}
