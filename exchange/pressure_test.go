package exchange

import (
	"fmt"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What a lane has carried counts where it always had something to send and a queue is on the way there, and never otherwise.
func TestPressed(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, tc := range []struct {
		name    string
		rtt     time.Duration
		window  bool
		late    time.Duration // of slices
		starved time.Duration // of the time between two looks
		blind   bool          // the transport has no counters
		rated   bool          // congestion control has found a rate
		want    bool
	}{
		{"a queue", 40 * time.Millisecond, false, 0, 0, false, false, true},
		{"a queue, by both ends", 80 * time.Millisecond, true, 60 * time.Millisecond, 0, false, false, true},
		{"a queue of the other direction", 40 * time.Millisecond, true, 0, 0, false, false, false},
		{"a slow reader", trip, true, 20 * time.Millisecond, 0, false, false, false},
		{"no queue", trip + time.Millisecond, false, 0, 0, false, false, false},
		{"a window's own burst", 60 * time.Millisecond, true, 25 * time.Millisecond, 0, false, false, false},
		{"more than that", 80 * time.Millisecond, true, 35 * time.Millisecond, 0, false, false, true},
		{"starved", 40 * time.Millisecond, false, 0, lookEvery / 4, false, false, false},
		{"a queue of BBR's own", 40 * time.Millisecond, false, 0, 0, false, true, false},
		{"no counters", 0, false, 0, 0, true, false, false},
	} {
		m := newTestMeter(&quic.ConnectionStats{MinRTT: trip, LatestRTT: tc.rtt, SmoothedRTT: tc.rtt, CongestionWindow: 40000})
		if tc.blind {
			m.open(nil, true, time.Unix(0, 0))
		}
		m.rated = tc.rated
		if tc.window {
			m.win = &tap{window: &window{rate: 2 * netmap.Mbps, small: leastSlice, floor: leastSlices}} // takes 40 ms for the least window, of four slices
		}
		now := time.Unix(0, 0)
		m.wrote(1<<20, now)
		for range 10 {
			m.look(now, nil)
			m.enter(starved, now)
			m.enter(writing, now.Add(tc.starved))
			if tc.window {
				m.slice(tc.late + 5*time.Millisecond)
				m.slice(tc.late)
			}
			if err := m.answered(m.got+1000, now.Add(lookEvery/2)); err != nil {
				t.Fatal(err)
			}
			now = now.Add(lookEvery)
		}
		m.look(now, nil)
		if got := m.flows.pressed.bytes["b"]; got != map[bool]uint64{true: 10000}[tc.want] {
			t.Errorf("%s: %d bytes of 10000, want all: %v", tc.name, got, tc.want)
		}
	}
	var c pressures
	for i := range 2 * maxPressed {
		c.add(fmt.Sprint(i), 1)
	}
	if len(c.bytes) > maxPressed {
		t.Errorf("%d hosts are counted, want %d at most", len(c.bytes), maxPressed)
	}
	var none *meter
	none.slice(0)
}

// Of what a full link carries most has stood in its queue; of what a slow reader takes, or what comes
// in slower by another link, next to nothing.
func TestPressedShare(t *testing.T) {
	if gridtest.Race {
		t.Skip("worlds of seconds: run without the race detector, which multiplies their CPU time by ten")
	}
	for _, window := range []bool{false, true} {
		w := way{4 * gridnet.Mbps, 25 * time.Millisecond, 0, window}
		for _, tc := range []struct {
			name string
			slow bool // the reader
			fed  bool // by a link of half the rate
			full bool // so the link is
		}{{"full", false, false, true}, {"slow reader", true, false, false}, {"starved by the hop before", false, true, false}} {
			t.Run(fmt.Sprintf("%s, window %v", tc.name, window), func(t *testing.T) {
				hosts, from, to := 2, "host0", "host1"
				if tc.slow && !window {
					t.Skip("what a slow reader has not read yet fills the link: without a window nothing else bounds it")
				}
				if tc.fed {
					hosts, from, to = 3, "host1", "host2"
				}
				cfg := star(hosts, w.link())
				for i := range cfg.Links {
					if cfg.Links[i].From == "s1" {
						cfg.Links[i].Rate *= 2
					}
				}
				var sent [2]uint64
				look := func(_ *gridnet.Network, g *quicGrid) {
					if tc.slow {
						g.lag = func() { time.Sleep(40 * time.Millisecond) } // 1.6 Mbit/s
					}
					for i := range sent { // not what fills the reader's buffer at first
						time.AfterFunc(time.Duration(2*i+2)*time.Second, func() { sent[i] = g.engines[from].Pressed(to) })
					}
				}
				observed(t, cfg, 1, chain(hosts, w.takes(5*time.Second)), look, w.edit)
				share := float64(sent[1]-sent[0]) / float64(w.takes(2*time.Second))
				if tc.full && share < 0.7 || !tc.full && share > 0.1 {
					t.Errorf("%.2f of what the link carries had a queue, want full: %v", share, tc.full)
				}
			})
		}
	}
}
