package probe

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Losses hold a flow to a sixth of a link. Of three senders one has measured that, and two say what
// trains read, as all do before their first bulk probe: they must not outvote the one who knows. A sender
// who claims as little of the link itself, or who has measured nothing, is contradicted.
func TestDisputeOfAHeldFlow(t *testing.T) {
	const line, flow = 12 * netmap.Mbps, 2 * netmap.Mbps
	trains := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: line, Source: netmap.SourceProbed}
	bulk := func(line, flow netmap.BytesPerSec) netmap.Estimate {
		return netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLine, Bandwidth: flow, Line: line, Source: netmap.SourceProbed}
	}
	alone := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: flow, Source: netmap.SourceProbed}
	tests := []struct {
		name                string
		claim, other, third netmap.Estimate
		disputed            bool
	}{
		{"measured, nobody else has", bulk(line, flow), trains, trains, false},
		{"the others have, too", bulk(line, flow), bulk(line, flow*1.2), bulk(line, flow*0.9), false},
		{"the others have measured more", bulk(line, flow), bulk(line, 0.9*line), bulk(line, 0.95*line), true},
		{"of another link than its trains show", bulk(flow, flow), trains, trains, true},
		{"nothing measured", alone, trains, trains, true},
		{"nothing measured, as two have", alone, bulk(line, flow), bulk(line, flow), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				says := map[string]netmap.Estimate{"a0": tt.claim, "a1": tt.other, "a2": tt.third}
				var disputed bool
				cfg := &Config{
					Self:  Peer{"b0", "b"},
					Peers: func() []Peer { return []Peer{{"a0", "a"}, {"a1", "a"}, {"a2", "a"}} },
					Known: func(from, _ string) (netmap.Estimate, bool) { e, ok := says[from]; return e, ok },
					Claimed: func(from, _ string) (netmap.Estimate, bool) {
						e, ok := says[from]
						e.Measured = time.Now()
						return e, ok
					},
					Record: func(string, string, netmap.Estimate) { disputed = true },
					Log:    slog.New(slog.DiscardHandler),
				}
				r := newRecorder(cfg)
				for range 10 {
					r.received("a0", line, 0.01)
					time.Sleep(10 * time.Second)
				}
				if disputed != tt.disputed {
					t.Errorf("disputed %t, want %t", disputed, tt.disputed)
				}
			})
		})
	}
}

// Whoever has objected lets what it saw stand when nobody can judge the claim any more, and takes it back once the claim
// fits. It never repeats the claim as its own: that would be believed if the peer came to be a suspect.
func TestObjectionIsTakenBack(t *testing.T) {
	const line, lie = 4 * netmap.Mbps, netmap.Mbps / 25
	measured := netmap.FieldBandwidth | netmap.FieldLine
	synctest.Test(t, func(t *testing.T) {
		claim := netmap.Estimate{Known: measured, Bandwidth: lie, Line: lie, Source: netmap.SourceProbed}
		trains := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: line, Source: netmap.SourceProbed}
		var said []netmap.Estimate
		r := newRecorder(&Config{
			Self:  Peer{"b0", "b"},
			Peers: func() []Peer { return []Peer{{"a0", "a"}, {"a1", "a"}, {"a2", "a"}} },
			Known: func(from, _ string) (netmap.Estimate, bool) { return trains, from != "a0" },
			Claimed: func(string, string) (netmap.Estimate, bool) {
				e := claim
				e.Measured = time.Now()
				return e, true
			},
			Record: func(_, _ string, e netmap.Estimate) { said = append(said, e) },
			Log:    slog.New(slog.DiscardHandler),
		})
		trainsFor := func(d time.Duration) {
			said = nil
			for range d / (10 * time.Second) {
				r.received("a0", line, 0.01)
				time.Sleep(10 * time.Second)
			}
		}
		trainsFor(time.Minute)
		if len(said) == 0 || said[len(said)-1].Bandwidth != line {
			t.Fatalf("of a link that it claims to be a hundredth: said %+v, want %v", said, line)
		}
		claim.Line = line // and nobody else has measured a flow
		trainsFor(10 * time.Minute)
		if len(said) != 0 {
			t.Errorf("of a claim that nobody can judge: said %+v, want nothing", said)
		}
		claim.Bandwidth = line
		trainsFor(3 * time.Minute)
		if len(said) != 1 || said[0].Known != 0 {
			t.Errorf("of a claim that fits: said %+v, want once that nothing is known here", said)
		}
	})
}
