package lane

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// A batchUDP is a UDP socket as quic-go wants one, whose calls to the kernel do not go through the
// Go runtime's entry for calls that may block. They cannot block, as the socket is the poller's. Each
// such entry wakes the runtime's monitor thread in a process that was asleep, which then sleeps
// 20 µs at a time as long as there is work: for a host that receives and sends one packet each millisecond
// that is a quarter of all switches between threads (BenchmarkUDPSwitches).
type batchUDP struct {
	*net.UDPConn
	raw     syscall.RawConn
	six     bool // the socket is of AF_INET6, and takes IPv4 addresses mapped
	senders sync.Pool

	// What follows belongs to the one goroutine that reads: quic-go has one a transport.
	heads   []messageHead
	names   []unix.RawSockaddrInet6 // room for either family
	vectors []unix.Iovec
	got     int
	errno   unix.Errno
	ready   func(fd uintptr) bool
	last    netip.AddrPort // whom the packet before was from, and
	lastUDP *net.UDPAddr   // the same, which nobody changes
}

// A messageHead is the kernel's struct mmsghdr.
type messageHead struct {
	unix.Msghdr
	n uint32
}

// fastUDP returns conn with cheaper calls where it is a socket of the kernel's, else conn itself.
func fastUDP(conn net.PacketConn) net.PacketConn {
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		return conn
	}
	raw, err := udp.SyscallConn()
	if err != nil {
		return conn
	}
	domain := 0
	if e := raw.Control(func(fd uintptr) { domain, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN) }); e != nil || err != nil {
		return conn
	}
	c := &batchUDP{UDPConn: udp, raw: raw, six: domain == unix.AF_INET6}
	c.senders.New = func() any { return newSender() }
	c.ready = c.receive
	return c
}

// ReadBatch reads what is there, at least one packet and at most len(ms); each message has one
// buffer. Only one goroutine may call it. See [ipv4.PacketConn.ReadBatch].
func (c *batchUDP) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	if flags != 0 || len(ms) == 0 {
		return 0, &net.OpError{Op: "read", Net: "udp", Source: c.LocalAddr(), Err: os.NewSyscallError("recvmmsg", unix.EINVAL)}
	}
	if len(c.heads) < len(ms) {
		c.heads = make([]messageHead, len(ms))
		c.names = make([]unix.RawSockaddrInet6, len(ms))
		c.vectors = make([]unix.Iovec, len(ms))
	}
	heads := c.heads[:len(ms)]
	for i := range ms {
		m, h := &ms[i], &heads[i]
		c.vectors[i].Base = unsafe.SliceData(m.Buffers[0])
		c.vectors[i].SetLen(len(m.Buffers[0]))
		*h = messageHead{}
		h.Name = (*byte)(unsafe.Pointer(&c.names[i]))
		h.Namelen = unix.SizeofSockaddrInet6
		h.Iov = &c.vectors[i]
		h.SetIovlen(1)
		h.Control = unsafe.SliceData(m.OOB)
		h.SetControllen(len(m.OOB))
	}
	c.got, c.errno = len(ms), 0
	if err := c.raw.Read(c.ready); err != nil {
		return 0, err
	}
	if c.errno != 0 {
		return 0, &net.OpError{Op: "read", Net: "udp", Source: c.LocalAddr(), Err: os.NewSyscallError("recvmmsg", c.errno)}
	}
	for i := range c.got {
		m, h := &ms[i], &heads[i]
		m.N, m.NN, m.Flags = int(h.n), int(h.Controllen), int(h.Flags)
		m.Addr = c.from(&c.names[i])
	}
	return c.got, nil
}

// receive is one call of recvmmsg, for as many messages as got says; false: nothing is there yet.
func (c *batchUDP) receive(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&c.heads[0])), uintptr(c.got), 0, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		c.got, c.errno = int(n), errno
		return true
	}
}

// from returns the address that the kernel has written. Packets mostly come from whom the one before was from.
func (c *batchUDP) from(name *unix.RawSockaddrInet6) net.Addr {
	var a netip.AddrPort
	switch name.Family {
	case unix.AF_INET6:
		ip := netip.AddrFrom16(name.Addr).Unmap()
		if name.Scope_id != 0 && ip.Is6() {
			return udpAddrOf(name)
		}
		a = netip.AddrPortFrom(ip, ntohs(name.Port))
	case unix.AF_INET:
		four := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		a = netip.AddrPortFrom(netip.AddrFrom4(four.Addr), ntohs(four.Port))
	}
	if a != c.last || c.lastUDP == nil {
		c.last, c.lastUDP = a, net.UDPAddrFromAddrPort(a)
	}
	return c.lastUDP
}

// udpAddrOf is the address of a host on one link, with the link's name.
func udpAddrOf(name *unix.RawSockaddrInet6) *net.UDPAddr {
	a := &net.UDPAddr{IP: append(net.IP(nil), name.Addr[:]...), Port: int(ntohs(name.Port))}
	if i, err := net.InterfaceByIndex(int(name.Scope_id)); err == nil {
		a.Zone = i.Name
	}
	return a
}

// A sender is what one call of sendmsg needs.
type sender struct {
	head   unix.Msghdr
	name   unix.RawSockaddrInet6
	vector unix.Iovec
	n      int
	errno  unix.Errno
	ready  func(fd uintptr) bool
}

func newSender() *sender {
	s := new(sender)
	s.ready = s.send
	return s
}

// WriteMsgUDP sends b to addr with the control message oob. Many goroutines may call it.
func (c *batchUDP) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (n, oobn int, err error) {
	s := c.senders.Get().(*sender)
	defer c.senders.Put(s)
	size, ok := s.to(addr, c.six)
	if !ok || len(b) == 0 {
		return c.UDPConn.WriteMsgUDP(b, oob, addr)
	}
	s.vector.Base = unsafe.SliceData(b)
	s.vector.SetLen(len(b))
	s.head = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&s.name)), Namelen: size, Iov: &s.vector, Control: unsafe.SliceData(oob)}
	s.head.SetIovlen(1)
	s.head.SetControllen(len(oob))
	err = c.raw.Write(s.ready)
	s.vector.Base, s.head.Control = nil, nil // the pool keeps nobody's buffers
	if err == nil && s.errno != 0 {
		err = &net.OpError{Op: "write", Net: "udp", Source: c.LocalAddr(), Addr: addr, Err: os.NewSyscallError("sendmsg", s.errno)}
	}
	if err != nil {
		return 0, 0, err
	}
	return s.n, len(oob), nil
}

// send is one call of sendmsg; false: the socket has no room.
func (s *sender) send(fd uintptr) bool {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.head)), 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		s.n, s.errno = int(n), errno
		return true
	}
}

// to writes addr as the kernel wants it and returns its length; false: that is not for this call.
func (s *sender) to(addr *net.UDPAddr, six bool) (uint32, bool) {
	if addr == nil || addr.Zone != "" {
		return 0, false
	}
	ip, ok := netip.AddrFromSlice(addr.IP)
	if !ok {
		return 0, false
	}
	if six {
		s.name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: htons(uint16(addr.Port)), Addr: ip.As16()}
		return unix.SizeofSockaddrInet6, true
	}
	if ip = ip.Unmap(); !ip.Is4() {
		return 0, false
	}
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name)) = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: htons(uint16(addr.Port)), Addr: ip.As4()}
	return unix.SizeofSockaddrInet4, true
}

func ntohs(v uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&v))
	return uint16(b[0])<<8 | uint16(b[1])
}

func htons(v uint16) uint16 { return ntohs(v) }
