package exchange

import (
	"testing"
	"time"
)

// TestBlindLevel: slices that meet no queue raise the rate at which a host sends over a link of which nobody knows what several flows get, and one that does takes it back to what met none.
func TestBlindLevel(t *testing.T) {
	p := Path{RTT: 40 * time.Millisecond, Rate: 150e3, Flows: 6, Blind: true}
	const gap = 20 * time.Millisecond
	for _, tt := range []struct {
		name        string
		carries     float64 // times what one flow gets
		least, most float64 // level in the end
	}{{"one flow fills it", 1, spacingShare, spacingShare}, {"eight do", 8, 5, 10}, {"far more than there are", 1000, blindMost, blindMost}} {
		b, now := blinds{}, time.Unix(100, 0)
		level, highest, queue := 1., 0., 0.
		for range 1500 {
			queue = max(queue+gap.Seconds()*(level-tt.carries), 0)
			level = b.level("a", p, queue > 0.03, now)
			highest = max(highest, level)
			now = now.Add(gap)
		}
		// What stood in the queue has left it: no more is tried than has met none, for long.
		if level > tt.most || highest < tt.least || level < spacingShare {
			t.Errorf("%s: level %.2f, at most %.2f before; want at most %v in the end, and %v once", tt.name, level, highest, tt.most, tt.least)
		}
	}
}

// TestBlindPauses: a pause is no time without a queue, and sites have levels of their own.
func TestBlindPauses(t *testing.T) {
	p := Path{RTT: 40 * time.Millisecond, Rate: 150e3, Flows: 6, Blind: true}
	b, now := blinds{}, time.Unix(100, 0)
	first := b.level("a", p, false, now)
	for range 20 {
		now = now.Add(time.Hour)
		if got := b.level("a", p, false, now); got != first {
			t.Fatalf("level %.2f after a pause, was %.2f", got, first)
		}
	}
	for range 100 {
		now = now.Add(20 * time.Millisecond)
		b.level("a", p, false, now)
	}
	if got := b.level("b", p, false, now); got != first {
		t.Errorf("level %.2f of another site, want %.2f", got, first)
	}
	if got := b.level("a", p, false, now); got <= first {
		t.Errorf("level %.2f after 2 s without a queue, was %.2f", got, first)
	}
}
