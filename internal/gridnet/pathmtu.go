package gridnet

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// errNoFile: what only a kernel's socket can do.
var errNoFile = errors.New("an emulated socket has no file descriptor")

// A DontFragment is a [Conn] that lets quic-go look for the largest packet that a path takes (RFC 8899), as
// it does over the kernel's sockets: its packets grow from 1,280 bytes to 1,441 of [MTU], within
// some 20 round trips. Over a bare Conn they stay as small as they begin. Networks here drop
// what is larger than MTU, and never fragment.
type DontFragment struct {
	*Conn
	asked atomic.Int32
}

var _ net.PacketConn = (*DontFragment)(nil)

// NewDontFragment returns c as a socket that does not fragment.
func NewDontFragment(c *Conn) *DontFragment { return &DontFragment{Conn: c} }

// SyscallConn returns something on which options can be set, to no effect. quic-go (0.65) asks three times:
// first for the two buffers, where an error makes it believe [Conn.SetReadBuffer] and
// [Conn.SetWriteBuffer], then for the option not to fragment.
func (c *DontFragment) SyscallConn() (syscall.RawConn, error) {
	if c.asked.Add(1) <= 2 {
		return nil, errNoFile
	}
	return options{}, nil
}

// options takes every option.
type options struct{}

func (options) Control(func(fd uintptr)) error    { return nil }
func (options) Read(func(fd uintptr) bool) error  { return errNoFile }
func (options) Write(func(fd uintptr) bool) error { return errNoFile }
