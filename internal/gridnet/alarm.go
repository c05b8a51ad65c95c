package gridnet

import "time"

// An alarm wakes the event loop.
type alarm interface {
	// set returns a channel that gets a value after d, and forgets what was set before.
	set(d time.Duration) <-chan time.Time
	stop()
}

// A timerAlarm is Go's timer: right in a bubble, and up to 1 ms late in an idle process
// on Linux, where the runtime sleeps in epoll_wait with its milliseconds.
type timerAlarm struct{ t *time.Timer }

func goAlarm() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return timerAlarm{t}
}

func (a timerAlarm) set(d time.Duration) <-chan time.Time {
	a.t.Reset(d) // since Go 1.23 nothing stale is left in the channel
	return a.t.C
}

func (a timerAlarm) stop() { a.t.Stop() }
