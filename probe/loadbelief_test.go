package probe

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A train that shared the fallen link's queue with an exchange has read its own part of it, and another host has believed that. What
// arrives is more, so the link carries more: the word of that is taken, whether or not the host's lanes are pressed just then. It is not taken
// where it would raise the pair over what it had before, nor long after. In the grids of 3 sites such pairs were wrong until the exchange had ended.
func TestWordAboveATrain(t *testing.T) {
	const before, part = 10 * netmap.Mbps, 1.25 * netmap.Mbps
	for _, tc := range []struct {
		name    string
		pressed bool
		later   time.Duration // from the train to the word
		word    netmap.BytesPerSec
		want    netmap.BytesPerSec
	}{
		{"pressed", true, time.Second, 2.5 * netmap.Mbps, 2.5 * netmap.Mbps},
		{"not pressed", false, time.Second, 2.5 * netmap.Mbps, 2.5 * netmap.Mbps},
		{"about what the train said", false, time.Second, 1.4 * netmap.Mbps, part},
		{"more than before", false, time.Second, 12 * netmap.Mbps, part},
		{"long ago", false, 2 * newsAge, 2.5 * netmap.Mbps, part},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, est := heard(part, 0)
			now := time.Now()
			r.pair("b0").used, r.fell["b"] = now, now
			r.hear([]string{"a0"}, "b", []string{"b0", "b1"}, now.Add(time.Millisecond))
			if e := est[[2]string{"a1", "b0"}]; apart(float64(e.Bandwidth), float64(part)) > 0.01 {
				t.Fatalf("the train is not believed: %.3g Mbit/s", e.Bandwidth.Mbps())
			}
			now = now.Add(tc.later)
			r.bears("b", tc.word, now)
			r.carries("b", []string{"b0", "b1"}, tc.word, 0, tc.pressed, now)
			if e := est[[2]string{"a1", "b0"}]; apart(float64(e.Bandwidth), float64(tc.want)) > 0.01 {
				t.Errorf("after the word of %.3g: %.3g Mbit/s, want %.3g", tc.word.Mbps(), e.Bandwidth.Mbps(), tc.want.Mbps())
			}
		})
	}
}

// notBack says that the other direction of a link has not fallen.
func notBack(float64) bool { return false }

// Where the other direction is known to have fallen to the same rate, and less arrives from there, half of the queue is enough; either of
// them alone, or a queue of a few per cent, is not.
func TestBothWaysFallen(t *testing.T) {
	const line = 600e3
	now := time.Unix(2e9, 0)
	for _, tc := range []struct {
		pressed            float64 // share of what arrives
		back, dips, steady bool
		want               bool
	}{
		{0.2, true, true, true, true},
		{0.2, false, true, true, false},
		{0.2, true, false, true, false},
		{0.2, true, true, false, false},
		{0.4, true, true, false, true},
		{0.05, true, true, true, false},
	} {
		var b loadBook
		b.hear("b", dip{line / 4, tc.steady}, now)
		if tc.dips {
			b.dipped("b", now.Add(-time.Second))
		} else {
			b.dipped("b", now.Add(-2*followAge))
		}
		for at := -4 * time.Second; at <= 0; at += loadsEvery {
			for _, host := range []string{"a0", "a1"} {
				b.take(host, load{Site: "b", Pressed: int64(tc.pressed / 2 * line / 4 * loadsEvery.Seconds()), Line: line, Span: loadsEvery}, now.Add(at))
			}
		}
		asked := 0.0
		rate, ok := b.verdict("b", known{line, false, func(rate float64) bool { asked = rate; return tc.back }}, now)
		if ok != tc.want || ok && (rate != line/4 || asked != rate) {
			t.Errorf("%+v: %.0f, %v", tc, rate, ok)
		}
	}
}

// The link back has fallen to a rate if two hosts there have just found about that.
func TestFallenBack(t *testing.T) {
	const low = 2.5 * netmap.Mbps
	now := time.Now()
	for _, tc := range []struct {
		from []string // who has found it
		rate netmap.BytesPerSec
		age  time.Duration
		want bool
	}{
		{[]string{"b0", "b1"}, low, 0, true},
		{[]string{"b0"}, low, 0, false},
		{[]string{"b0", "b1"}, 2 * low, 0, false},
		{[]string{"b0", "b1"}, low, 2 * newsAge, false},
	} {
		r, est := heard(10*netmap.Mbps, time.Minute)
		for _, from := range tc.from {
			est[[2]string{from, "a0"}] = believed(tc.rate, now.Add(-tc.age))
		}
		if got := r.fallenBack([]string{"b0", "b1"}, []string{"a0", "a1"}, float64(low), now); got != tc.want {
			t.Errorf("%v say %.3g Mbit/s, %v ago: %v", fmt.Sprint(tc.from), tc.rate.Mbps(), tc.age, got)
		}
	}
}

// Of large sites a keeper asks the map for few pairs, as each load of each host may make it ask: of 2 x 500 hosts all pairs took it 0.3 s.
func TestFallenBackOfLargeSites(t *testing.T) {
	const low = 2.5 * netmap.Mbps
	now := time.Now()
	var members []Peer
	for i := range 100 {
		members = append(members, Peer{fmt.Sprintf("a%02d", i), "a"}, Peer{fmt.Sprintf("b%02d", i), "b"})
	}
	round, _ := roundAt(now)
	r := newRoster(members)
	found := make(map[string]bool) // senders
	asked := 0
	p := &Prober{cfg: Config{Self: members[0]}, around: surroundings{at: now, roster: r, round: round}}
	p.rec = newRecorder(&Config{Self: members[0], Known: func(from, _ string) (netmap.Estimate, bool) {
		asked++
		return believed(low, now), found[from]
	}})
	if p.fallenBack("b", float64(low), now) || p.fallenBack("c", float64(low), now) {
		t.Error("it has fallen back, and nobody has found it")
	}
	for _, from := range r.teams[r.team("b")].players(round)[:2] {
		found[from] = true
	}
	if asked = 0; !p.fallenBack("b", float64(low), now) {
		t.Error("two that probe between sites have found it, and it has not fallen back")
	}
	if asked > players*players {
		t.Errorf("%d pairs are asked for, want %d at most", asked, players*players)
	}
}
