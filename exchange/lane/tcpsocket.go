package lane

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sys/unix"
)

// A TCP connection on which nothing is acknowledged for tcpTimeout, or which is silent for so
// long although asked for a sign of life, is dead.
const tcpTimeout = time.Minute

// unsent is how many bytes a socket takes beyond what it may send: what is there already cannot go another way. nearUnsent is the same of one to a host
// nearer than nearTrip, over which plans in phases go: with the megabytes that the kernel takes of itself whole messages were in sockets, a host's messages of three phases
// went out at the same time, each at a third of its port, and those who waited for the first of them idled (docs/design/lanes.md).
const (
	unsent     = 128 << 10
	nearUnsent = 32 << 10
	nearTrip   = 2 * time.Millisecond
)

// nearRTO is after how long a socket to such a host sends again what nothing is heard of, at least: the kernel's 200 ms are a hundred round trips, and several hosts that send to one
// or over one cable do lose the ends of what they send. A receiver keeps an acknowledgement for 40 ms at most.
const nearRTO = 50 * time.Millisecond

// ListenTCP listens for TCP lanes at bind (IP:PORT).
func ListenTCP(bind string) (net.Listener, error) {
	lc := net.ListenConfig{Control: tcpControl(""), KeepAliveConfig: tcpKeepAlive()}
	return lc.Listen(context.Background(), "tcp", bind)
}

// DialTCP returns a [Config.DialTCP] over the kernel's TCP, from the address from, or one of the
// kernel's choice if from is not valid or stands for all.
func DialTCP(from netip.Addr) func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error) {
	var local net.Addr
	if from.IsValid() && !from.IsUnspecified() {
		local = &net.TCPAddr{IP: from.AsSlice(), Zone: from.Zone()}
	}
	return func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: local, Control: tcpControl(congestion), KeepAliveConfig: tcpKeepAlive()}
		return d.DialContext(ctx, "tcp", addr.String())
	}
}

func tcpKeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: tcpTimeout / 2, Interval: tcpTimeout / 12, Count: 6}
}

// tcpControl sets what a socket is to have before it connects or listens.
func tcpControl(congestion string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		ctlErr := c.Control(func(fd uintptr) {
			// Without it the kernel tries for a quarter of an hour to reach a host that is gone.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpTimeout.Milliseconds()))
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
			if congestion != "" {
				err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
			}
		})
		if err != nil {
			return fmt.Errorf("congestion control %s: %w", congestion, err)
		}
		return ctlErr
	}
}

// nears bounds what the socket of a connection to a near host takes, and how long it waits to send again.
func (c *rawTCP) nears() {
	i, ok := c.info()
	if !ok || i.Min_rtt == 0 || time.Duration(i.Min_rtt)*time.Microsecond >= nearTrip {
		return
	}
	c.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, nearUnsent)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US, int(nearRTO.Microseconds())) // Linux 6.16 and later
	})
}

// HasCongestionControl reports whether the kernel lets this process choose the congestion control
// with that name for a TCP socket. It asks a socket: namespaces do not show the list of those
// that are allowed.
func HasCongestionControl(name string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name) == nil
}

// congestion returns the name of the connection's congestion control, "" if the kernel does not say.
func (c *rawTCP) congestion() (name string) {
	c.raw.Control(func(fd uintptr) {
		name, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return name
}

// tcpInfo asks the kernel about c.
func tcpInfo(c net.Conn) (st quic.ConnectionStats) {
	t, ok := c.(*rawTCP)
	if !ok {
		return st
	}
	i, ok := t.info()
	if !ok {
		return st
	}
	micro := func(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
	st.SmoothedRTT, st.LatestRTT, st.MeanDeviation, st.MinRTT = micro(i.Rtt), micro(i.Rtt), micro(i.Rttvar), micro(i.Min_rtt)
	st.BytesSent, st.BytesReceived = i.Bytes_sent, i.Bytes_received
	st.PacketsSent, st.PacketsReceived = uint64(i.Segs_out), uint64(i.Segs_in)
	st.PacketsLost, st.BytesLost = uint64(i.Total_retrans), i.Bytes_retrans
	st.CongestionWindow = uint64(i.Snd_cwnd) * uint64(i.Snd_mss)
	return st
}
