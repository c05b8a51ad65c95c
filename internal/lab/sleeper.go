package lab

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sleeper is what the forwarder's goroutine sleeps on: a set of files that the kernel watches (epoll), among them a timer, a
// bell and the TAPs, itself watched by the runtime. So the thread that wakes is the one that does the work. Nothing here goes through
// the runtime's entry for system calls, which may block: that wakes its monitor thread, which costs as much as the work.
type sleeper struct {
	set         *os.File
	raw         syscall.RawConn // of set
	timer, bell int
	events      []unix.EpollEvent
	at          time.Time // what timer is set to; zero: nothing
}

// What the events of a set say in their data: a TAP's index, or one of these.
const (
	eventTimer = -1
	eventBell  = -2
)

func newSleeper(taps []*os.File) (s *sleeper, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("watch the TAPs: %w", err)
			s.close()
		}
	}()
	s = &sleeper{timer: -1, bell: -1, events: make([]unix.EpollEvent, len(taps)+2)}
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return s, err
	}
	err = unix.SetNonblock(set, true) // else the runtime does not watch it
	s.set = os.NewFile(uintptr(set), "epoll")
	if err != nil {
		return s, err
	}
	if s.raw, err = s.set.SyscallConn(); err != nil {
		return s, err
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		return s, err
	}
	if s.bell, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return s, err
	}
	if err = s.ctl(unix.EPOLL_CTL_ADD, s.timer, unix.EPOLLIN, eventTimer); err != nil {
		return s, err
	}
	if err = s.ctl(unix.EPOLL_CTL_ADD, s.bell, unix.EPOLLIN, eventBell); err != nil {
		return s, err
	}
	for i, t := range taps {
		if err = s.ctl(unix.EPOLL_CTL_ADD, int(t.Fd()), unix.EPOLLIN|unix.EPOLLONESHOT, i); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *sleeper) ctl(op, fd int, events uint32, data int) error {
	return unix.EpollCtl(int(s.set.Fd()), op, fd, &unix.EpollEvent{Events: events, Fd: int32(data)})
}

// close is for when run has returned.
func (s *sleeper) close() {
	for _, fd := range []int{s.timer, s.bell} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if s.set != nil {
		_ = s.set.Close()
	}
}

// run calls f now and whenever something has happened, until it returns true.
func (s *sleeper) run(f func() bool) {
	// Its only error is a closed file, which close comes too late for.
	_ = s.raw.Read(func(uintptr) bool { return f() })
}

// ring wakes the sleeper. It may be called at any time, and does not block.
func (s *sleeper) ring() {
	one := [8]byte{1}
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(s.bell), uintptr(unsafe.Pointer(&one[0])), uintptr(len(one)))
}

// rang calls f for each TAP that something came from. It is not watched then until watch.
func (s *sleeper) rang(f func(tap int)) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, s.set.Fd(), uintptr(unsafe.Pointer(&s.events[0])), uintptr(len(s.events)), 0, 0, 0)
	if e != 0 {
		return
	}
	for _, ev := range s.events[:n] {
		switch ev.Fd {
		case eventTimer: // silent once it is set again
			s.at = time.Time{}
		case eventBell:
			var count [8]byte
			_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(s.bell), uintptr(unsafe.Pointer(&count[0])), uintptr(len(count)))
		default:
			f(int(ev.Fd))
		}
	}
}

// watch has a TAP wake the sleeper again, at once if something is there.
func (s *sleeper) watch(i int, tap *os.File) {
	_ = s.ctl(unix.EPOLL_CTL_MOD, int(tap.Fd()), unix.EPOLLIN|unix.EPOLLONESHOT, i) // fails for no file that is open
}

// until sets the time to wake at; without ok there is none.
func (s *sleeper) until(at time.Time, ok bool) {
	var spec unix.ItimerSpec
	switch {
	case !ok:
		at = time.Time{}
	case at.Equal(s.at):
		return
	default:
		spec.Value = unix.NsecToTimespec(int64(max(time.Until(at), 1))) // zero would be never
	}
	s.at = at
	_ = unix.TimerfdSettime(s.timer, 0, &spec, nil) // fails for no timer that is open
}

// readNow reads from a file that does not block, which errno unix.EAGAIN tells.
func readNow(file *os.File, b []byte) (int, error) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, file.Fd(), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func writeNow(file *os.File, b []byte) error {
	if _, _, e := unix.RawSyscall(unix.SYS_WRITE, file.Fd(), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))); e != 0 {
		return e
	}
	return nil
}

// unwatched returns a file that the runtime does not watch, in place of one that it does.
func unwatched(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// The runtime watches what does not block when it gets it.
	if err := unix.SetNonblock(fd, false); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	own := os.NewFile(uintptr(fd), f.Name())
	if err := unix.SetNonblock(fd, true); err != nil {
		own.Close()
		return nil, err
	}
	return own, nil
}
