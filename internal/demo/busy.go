package demo

import "time"

// pulse is how often a watch looks at the clock.
const pulse = 5 * time.Millisecond

// lateEnough is the delay of a timer, a sixth of the demo's round trips, from which on
// packets of the emulated network come so late that QUIC takes them for lost.
const lateEnough = 15 * time.Millisecond

// A watch finds out whether the machine is too busy to emulate a network in real time: it
// sleeps for short whiles and sees how late it wakes up.
type watch struct {
	stop chan struct{}
	late chan float64
}

// startWatch starts a watch; its goroutine ends with done.
func startWatch() *watch {
	w := &watch{stop: make(chan struct{}), late: make(chan float64)}
	go w.run()
	return w
}

func (w *watch) run() {
	begun := time.Now()
	var late time.Duration
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for last := begun; ; {
		select {
		case <-tick.C:
			now := time.Now()
			if gap := now.Sub(last) - pulse; gap >= lateEnough {
				late += gap
			}
			last = now
		case <-w.stop:
			share := 0.0
			if all := time.Since(begun); all > 0 {
				share = float64(late) / float64(all)
			}
			w.late <- share
			return
		}
	}
}

// done returns the share of the time, 0 to 1, for which timers were late.
func (w *watch) done() float64 {
	close(w.stop)
	return <-w.late
}
