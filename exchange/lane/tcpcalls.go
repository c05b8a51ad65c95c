package lane

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A rawTCP is a TCP connection whose calls to the kernel, like those of a [batchUDP], do not wake the Go runtime's
// monitor thread: they cannot block, as the socket is the poller's (BenchmarkTCPSwitches).
type rawTCP struct {
	*net.TCPConn
	raw     syscall.RawConn
	in, out direction
	ask     inquiry
}

// A direction is what one call, of reading or of writing, needs.
type direction struct {
	mu    sync.Mutex // held during a call
	left  []byte     // what is to be filled, or sent
	n     int        // bytes of it that were
	errno unix.Errno
	ready func(fd uintptr) bool
	tls   *records // of what is read, if that is TLS; else nil
	peeks bool     // nothing is to be read from the kernel
	more  int      // so many writes are not the last for now: the kernel need not make a packet of what they leave
	hold  bool     // these and the one behind them are small together: one call takes them
	held  []byte   // what was written of that, in a buffer of heldBuffers; nil: nothing
}

// mostHeld is how many bytes of records are put together for one call: those of a chunk that fills a record and what belongs to it. Copying them costs less than a call. With 64 KiB
// and more it costs what is saved.
const mostHeld = 18 << 10

// heldBuffers are for the connections that write just now.
var heldBuffers = sync.Pool{New: func() any { return new([mostHeld]byte) }}

// fastTCP returns c with cheaper calls where it is a socket of the kernel's, else c itself.
func fastTCP(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}
	f := &rawTCP{TCPConn: t, raw: raw}
	f.in.ready, f.out.ready = f.in.receive, f.out.send
	f.ask.askInfo, f.ask.askUnsent = f.ask.tcpInfo, f.ask.notSent
	return f
}

// Read is [net.Conn]'s.
func (c *rawTCP) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t := &c.in
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.peeks {
		return 0, errNotHere
	}
	t.left, t.n, t.errno = p, 0, 0
	err := c.raw.Read(t.ready)
	t.left = nil
	switch {
	case err != nil:
		return 0, err
	case t.errno != 0:
		return 0, c.failed("read", "recvfrom", t.errno)
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

// peek lets reads see what lies above the socket only, or all again. Where that is not enough they fail with errNotHere, and may be tried again.
func (c *rawTCP) peek(only bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.peeks = only
}

// errNotHere is temporary, after which crypto/tls reads on.
var errNotHere net.Error = notHere{}

type notHere struct{}

func (notHere) Error() string   { return "nothing more has been read from the socket" }
func (notHere) Timeout() bool   { return false }
func (notHere) Temporary() bool { return true }

// receive is one call of recvfrom; false: nothing is there yet.
func (t *direction) receive(fd uintptr) bool {
	n, errno := call(unix.SYS_RECVFROM, fd, t.left, 0)
	t.n, t.errno = n, errno
	switch {
	case t.tls == nil:
	case errno == unix.EAGAIN:
		t.tls.await(fd)
	default:
		t.tls.passed(t.left[:n])
	}
	return errno != unix.EAGAIN
}

// carriesTLS says that all that is read of c is TLS.
func carriesTLS(c net.Conn) {
	if f, ok := c.(*rawTCP); ok {
		f.in.tls = new(records)
	}
}

// Write is [net.Conn]'s.
func (c *rawTCP) Write(p []byte) (int, error) {
	t := &c.out
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.more == 0
	fits := len(t.held)+len(p) <= mostHeld
	if !last && t.hold && fits {
		t.keep(p)
		t.more--
		return len(p), nil
	}
	if held := t.held; held != nil {
		defer heldBuffers.Put((*[mostHeld]byte)(held[:mostHeld]))
		t.held = nil
		if fits {
			n, err := c.write(append(held, p...))
			return max(n-len(held), 0), err
		}
		more := t.more
		t.more = max(more, 1)
		if _, err := c.write(held); err != nil {
			return 0, err
		}
		t.more = more
	}
	return c.write(p)
}

// keep puts p behind what is held.
func (t *direction) keep(p []byte) {
	if t.held == nil {
		t.held = heldBuffers.Get().(*[mostHeld]byte)[:0]
	}
	t.held = append(t.held, p...)
}

// write has the kernel take p. It needs out.mu.
func (c *rawTCP) write(p []byte) (int, error) {
	t := &c.out
	t.left, t.n, t.errno = p, 0, 0
	err := c.raw.Write(t.ready)
	t.left, t.more = nil, max(t.more-1, 0)
	if err == nil && t.errno != 0 {
		err = c.failed("write", "sendto", t.errno)
	}
	return t.n, err
}

// more says that the next n writes have something to follow them at once; small, that all of this together is at most mostHeld bytes, or little more.
// What is small may be kept until then. Of anything else the kernel makes full packets, and waits for 200 ms at most with the rest.
func (c *rawTCP) more(n int, small bool) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.more, c.out.hold = n, small
}

// send sends what the socket has room for; false: not yet all.
func (t *direction) send(fd uintptr) bool {
	flags := uintptr(unix.MSG_NOSIGNAL)
	if t.more > 0 {
		flags |= unix.MSG_MORE
	}
	for len(t.left) > 0 {
		n, errno := call(unix.SYS_SENDTO, fd, t.left, flags)
		if errno != 0 {
			t.errno = errno
			return errno != unix.EAGAIN
		}
		t.left, t.n = t.left[n:], t.n+n
	}
	t.errno = 0
	return true
}

// call has the kernel fill or send p.
func call(trap, fd uintptr, p []byte, flags uintptr) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

func (c *rawTCP) failed(op, call string, errno unix.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(call, errno)}
}

// An inquiry asks the kernel about a connection, without garbage and without waking the monitor thread.
type inquiry struct {
	mu     sync.Mutex // held during a call
	info   unix.TCPInfo
	size   uint32 // of info
	unsent int32  // bytes that the kernel was given and has not sent
	errno  unix.Errno

	askInfo, askUnsent func(fd uintptr)
}

func (q *inquiry) tcpInfo(fd uintptr) {
	q.size = uint32(unsafe.Sizeof(q.info))
	_, _, q.errno = unix.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(&q.info)), uintptr(unsafe.Pointer(&q.size)), 0)
}

func (q *inquiry) notSent(fd uintptr) {
	_, _, q.errno = unix.RawSyscall(unix.SYS_IOCTL, fd, unix.SIOCOUTQNSD, uintptr(unsafe.Pointer(&q.unsent)))
}

// info asks the kernel about the connection.
func (c *rawTCP) info() (i unix.TCPInfo, ok bool) {
	q := &c.ask
	q.mu.Lock()
	defer q.mu.Unlock()
	err := c.raw.Control(q.askInfo)
	return q.info, err == nil && q.errno == 0
}

// unsent returns how many bytes the kernel was given and has not sent, 0 where it does not say. Unlike info it takes no lock of the socket's.
func (c *rawTCP) unsent() int {
	q := &c.ask
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := c.raw.Control(q.askUnsent); err != nil || q.errno != 0 {
		return 0
	}
	return int(q.unsent)
}
