package group

import (
	"testing"
	"time"
)

// TestHurry: one barrier an hour keeps nobody off for longer than a second; barriers without end do for half of the time.
func TestHurry(t *testing.T) {
	var h hurry
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if h.is(now) {
		t.Error("in a hurry before there was an operation")
	}
	for range 3 {
		h.note(now)
		for after, want := range map[time.Duration]bool{0: true, quiet: true, quiet + 1: false, time.Minute: false} {
			if h.is(now.Add(after)) != want {
				t.Errorf("%v after a barrier an hour: %v, want %v", after, !want, want)
			}
		}
		now = now.Add(time.Hour)
	}
	const step = 100 * time.Millisecond
	held := 0
	for range int(time.Hour / step) {
		h.note(now)
		if now = now.Add(step / 2); h.is(now) {
			held++
		}
		now = now.Add(step / 2)
	}
	if share := float64(held) * float64(step) / float64(time.Hour); share < 0.49 || share > 0.51 {
		t.Errorf("barriers without end hold others off for %.2f of the time, want half", share)
	}
}
