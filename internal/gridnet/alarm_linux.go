package gridnet

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A kernelAlarm is a timerfd, which the runtime's poller reports within microseconds.
type kernelAlarm struct {
	fd    int
	file  *os.File
	rings chan time.Time
	ended chan struct{}
}

// preciseAlarm returns a kernelAlarm, or Go's timer where there are no file descriptors left.
func preciseAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return goAlarm()
	}
	a := &kernelAlarm{
		fd:    fd,
		file:  os.NewFile(uintptr(fd), "timerfd"),
		rings: make(chan time.Time, 1),
		ended: make(chan struct{}),
	}
	go a.read()
	return a
}

// read turns each expiry into a value, until stop closes the file.
func (a *kernelAlarm) read() {
	defer close(a.ended)
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return
		}
		select {
		case a.rings <- time.Time{}:
		default:
		}
	}
}

// set may leave one stale ring behind: the loop then looks once in vain.
func (a *kernelAlarm) set(d time.Duration) <-chan time.Time {
	// A value of zero would disarm the timer.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		// Cannot happen with a valid descriptor and time; do not sleep for ever if it does.
		return time.After(d)
	}
	return a.rings
}

func (a *kernelAlarm) stop() {
	_ = a.file.Close() // nothing was written that could get lost
	<-a.ended
}
