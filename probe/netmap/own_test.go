package netmap

import (
	"errors"
	"testing"
	"time"
)

// What was not measured for KeepOwn is withdrawn with the next full batch and not told again, also by the life that measured it.
func TestOldOwnIsWithdrawnOnce(t *testing.T) {
	a := newMap(t, "a")
	set := func(to string, mbps float64, now time.Time) {
		t.Helper()
		if err := a.Set("a", to, bandwidthOf(mbps, now), now); err != nil {
			t.Fatal(err)
		}
	}
	set("dead", 5, t0)
	now := t0
	said, again := true, 0
	for i := range 9 * 60 {
		now = now.Add(time.Minute)
		set("b", 10+float64(i%2)/2, now)
		flush(t, a, now)
		is := a.reports["a"].find(peer{name: "dead"}) != nil
		if is && !said {
			again++
		}
		said = is
	}
	if said || again > 0 {
		t.Errorf("9 h after it was measured the pair is still told of: %v, and was withdrawn and told again %d times", said, again)
	}
	if _, ok := a.Lookup("a", "dead", now); ok {
		t.Error("its own host still counts it")
	}
	if len(a.own.entries) != 1 || a.root != sumOf(a) {
		t.Errorf("%d entries are left of the pair that is measured", len(a.own.entries))
	}
	set("dead", 6, now)
	flush(t, a, now)
	if e, ok := a.Lookup("a", "dead", now); !ok || e.Bandwidth != 6*Mbps || a.reports["a"].find(peer{name: "dead"}) == nil {
		t.Errorf("measured anew: %v, %v", e, ok)
	}
}

// A restarted host that got its earlier report from a host that did not have all of it is heard also by those that have: its first batch is no
// continuation of one that is not the last.
func TestFirstBatchOfALifeIsHeard(t *testing.T) {
	for _, early := range []bool{false, true} { // it spoke before it listened
		first, b, c := newMap(t, "a"), newMap(t, "b"), newMap(t, "c")
		set := func(m *Map, mbps float64, now time.Time) {
			t.Helper()
			if err := m.Set("a", "x", bandwidthOf(mbps, now), now); err != nil {
				t.Fatal(err)
			}
		}
		now := t0
		set(first, 1, now)
		pull(t, b, first, now)
		pull(t, c, first, now)
		now = now.Add(time.Second)
		set(first, 2, now)
		pull(t, c, first, now)

		second := newMap(t, "a")
		if early {
			was := t0.Add(-time.Second) // by its clock
			set(second, 3, was)
			flush(t, second, was)
		}
		now = now.Add(time.Second)
		exchange(t, second, b, now, now)
		set(second, 9, now)
		pull(t, c, second, now)
		if e, _ := c.Lookup("a", "x", now); e.Bandwidth != 9*Mbps {
			t.Errorf("early %v: %v Mbit/s, want 9", early, e.Bandwidth.Mbps())
		}
		pull(t, b, second, now)
		if b.root != second.root || c.root != second.root {
			t.Errorf("early %v: the maps differ", early)
		}
	}
}

// A host that started with a clock an hour ahead is refused, and heard as soon as its clock is right.
func TestClockAheadIsSetRight(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	speak := func(now time.Time) {
		t.Helper()
		if _, err := a.Publish(now, false); err != nil {
			t.Fatal(err)
		}
	}
	ahead := t0.Add(time.Hour)
	if err := errors.Join(a.Set("a", "b", bandwidthOf(4, ahead), ahead), a.Set("a", "x", bandwidthOf(5, ahead), ahead)); err != nil {
		t.Fatal(err)
	}
	a.Forget(ahead, "x")
	speak(ahead)
	if taken, err := b.merge("a", batchesOf(a, "a"), t0); taken > 0 || !errors.Is(err, ErrFuture) {
		t.Fatalf("%d batches taken, %v", taken, err)
	}
	now := t0.Add(time.Second)
	speak(now)
	exchange(t, a, b, now, now)
	if e, ok := b.Lookup("a", "b", now); !ok || e.Bandwidth != 4*Mbps || e.Measured.After(now) {
		t.Errorf("its clock is right again: %+v, %v", e, ok)
	}
	now = now.Add(time.Second)
	if err := errors.Join(a.Update("a", "b", bandwidthOf(8, now), now), a.Set("a", "x", bandwidthOf(6, now), now)); err != nil {
		t.Fatal(err)
	}
	speak(now)
	exchange(t, b, a, now, now)
	for _, m := range []*Map{a, b} {
		e, _ := m.Lookup("a", "b", now)
		x, _ := m.Lookup("a", "x", now)
		if e.Bandwidth != 8*Mbps || x.Bandwidth != 6*Mbps {
			t.Errorf("%s believes %v and %v Mbit/s, want 8 and 6", m.cfg.Self, e.Bandwidth.Mbps(), x.Bandwidth.Mbps())
		}
	}
	if a.root != b.root || a.root != sumOf(a) {
		t.Errorf("sums %x, %x, counted anew %x", a.root, b.root, sumOf(a))
	}
}
