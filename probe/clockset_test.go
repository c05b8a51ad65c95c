package probe

import (
	"testing"
	"time"
	"unsafe"
)

// set returns t as a clock tells it that was set ahead by d, in whole seconds, while the one that nobody sets went on.
func set(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	was := at
	// Go keeps seconds since 1885 in 33 bits above 30 bits of nanoseconds where a time has both clocks.
	*(*uint64)(unsafe.Pointer(&at)) += uint64(d/time.Second) << 30
	if at.Unix() != was.Unix()+int64(d/time.Second) || !at.Equal(was) {
		t.Fatal("times of this Go version cannot be set so: their two readings are kept in another way")
	}
	return at
}

// A host that starts with a clock a day ahead, which is then set, forgets what it sent an hour ago.
func TestAccountOfAClockThatIsSet(t *testing.T) {
	start := time.Now()
	var a account
	a.add(set(t, start, 24*time.Hour), 1000)
	now := start
	for ; now.Before(start.Add(3 * time.Hour)); now = now.Add(time.Minute) {
		a.add(now, 10)
	}
	if got := a.total(now); got < 590 || got > 610 {
		t.Errorf("%d bytes in the last hour, want 600", got)
	}
	a.add(set(t, now, 24*time.Hour), 10)
	if got := a.total(set(t, now, 24*time.Hour)); got < 600 || got > 620 {
		t.Errorf("%d bytes in the last hour when the clock is set ahead, want 610", got)
	}
}

// A link that falls after the clock was set back is found like any other.
func TestArrivalsOfAClockThatIsSet(t *testing.T) {
	const rate = 2_500_000 // bytes a second
	for _, ahead := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		var a arrivals
		start := time.Now()
		for i := range 24 {
			now, rate := start.Add(time.Duration(i)*loadsEvery), int64(rate)
			if i < 12 {
				now = set(t, now, ahead)
			} else {
				rate /= 4
			}
			a.add(rate*int64(loadsEvery)/int64(time.Second), loadsEvery, now)
		}
		if d, ok := a.fallen(start.Add(23 * loadsEvery)); !ok || apart(d.rate, rate/4) > 0.1 {
			t.Errorf("a clock that was %v ahead: %+v, %t, want a fall to %d", ahead, d, ok, rate/4)
		}
	}
}
