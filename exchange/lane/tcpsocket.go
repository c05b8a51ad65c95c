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

// unsent is how many bytes a socket with a congestion control of our choice, which is one for far
// hosts, takes beyond what it may send: what is there already cannot go another way.
const unsent = 128 << 10

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
			if congestion != "" {
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
				err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
			}
		})
		if err != nil {
			return fmt.Errorf("congestion control %s: %w", congestion, err)
		}
		return ctlErr
	}
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
