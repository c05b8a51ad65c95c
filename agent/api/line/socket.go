package line

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is a Unix socket whose calls to the kernel do not wake the Go runtime's monitor thread: they cannot block, as the socket is the poller's. Where
// an agent or a rank does nothing but one small operation after the other, that thread would else run for each of its calls, and for some time after it.
type socket struct {
	*net.UnixConn
	raw     syscall.RawConn
	in, out half
}

// A half is what one call, of reading or of writing, needs.
type half struct {
	mu    sync.Mutex // held during a call
	trap  uintptr
	flags uintptr
	left  []byte // what is to be filled, or sent
	n     int    // bytes of it that were
	errno unix.Errno
	ready func(fd uintptr) bool
}

// fast returns c with such calls where it is a Unix socket, and a reader of it behind what r has read ahead; else c and r.
func fast(c net.Conn, r *bufio.Reader) (net.Conn, *bufio.Reader) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return c, r
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return c, r
	}
	s := &socket{UnixConn: u, raw: raw}
	s.in = half{trap: unix.SYS_RECVFROM, ready: s.in.read}
	s.out = half{trap: unix.SYS_SENDTO, flags: unix.MSG_NOSIGNAL, ready: s.out.write}
	ahead, _ := r.Peek(r.Buffered()) // no more than is there
	return s, bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), s), r.Size())
}

// Read is [net.Conn]'s.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := s.in.do(p, s.raw.Read, "read", s)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write is [net.Conn]'s.
func (s *socket) Write(p []byte) (int, error) {
	return s.out.do(p, s.raw.Write, "write", s)
}

// do has the poller call h.ready until that is through with p.
func (h *half) do(p []byte, await func(func(fd uintptr) bool) error, op string, s *socket) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.n, h.errno = p, 0, 0
	err := await(h.ready)
	h.left = nil
	if err == nil && h.errno != 0 {
		err = &net.OpError{Op: op, Net: "unix", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: os.NewSyscallError(op, h.errno)}
	}
	return h.n, err
}

// read reads what has come; false: nothing has.
func (h *half) read(fd uintptr) bool {
	h.call(fd)
	return h.errno != unix.EAGAIN
}

// write sends what the socket has room for; false: not yet all.
func (h *half) write(fd uintptr) bool {
	for len(h.left) > 0 {
		if h.call(fd); h.errno != 0 {
			return h.errno != unix.EAGAIN
		}
	}
	return true
}

// call has the kernel fill or send what is left.
func (h *half) call(fd uintptr) {
	for {
		n, _, errno := unix.RawSyscall6(h.trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(h.left))), uintptr(len(h.left)), h.flags, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if h.errno = errno; errno == 0 {
			h.left, h.n = h.left[n:], h.n+int(n)
		}
		return
	}
}
