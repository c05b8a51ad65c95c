package lane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

func listenUDP(t testing.TB, network, at string) (*net.UDPConn, *batchUDP) {
	t.Helper()
	plain, err := new(net.ListenConfig).ListenPacket(context.Background(), network, at)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	t.Cleanup(func() { plain.Close() })
	fast, ok := fastUDP(plain).(*batchUDP)
	if !ok {
		t.Fatal("a socket of the kernel's stayed as it was")
	}
	return plain.(*net.UDPConn), fast
}

// Without both interfaces quic-go would take the slow way in silence.
var _ interface {
	quic.OOBCapablePacketConn
	ReadBatch([]ipv4.Message, int) (int, error)
	SetWriteBuffer(int) error
} = (*copiedUDP)(nil)

func messages(n int) []ipv4.Message {
	ms := make([]ipv4.Message, n)
	for i := range ms {
		ms[i].Buffers = [][]byte{make([]byte, 1500)}
		ms[i].OOB = make([]byte, 128)
	}
	return ms
}

// What one socket sends another one of the Go library's gets, and the other way, with the same
// addresses, over each family and over one socket for both.
func TestUDPCarries(t *testing.T) {
	for _, c := range []struct{ network, at, to string }{
		{"udp4", "127.0.0.1:0", "127.0.0.1"},
		{"udp6", "[::1]:0", "::1"},
		{"udp", ":0", "127.0.0.1"},
		{"udp", ":0", "::1"},
	} {
		t.Run(c.network+" "+c.to, func(t *testing.T) {
			_, fast := listenUDP(t, c.network, c.at)
			plain, _ := listenUDP(t, c.network, c.at)
			at := func(u net.PacketConn) *net.UDPAddr {
				return &net.UDPAddr{IP: net.ParseIP(c.to), Port: u.LocalAddr().(*net.UDPAddr).Port}
			}
			word := []byte("one packet")
			if n, _, err := fast.WriteMsgUDP(word, nil, at(plain)); err != nil || n != len(word) {
				t.Fatalf("wrote %d bytes, err %v", n, err)
			}
			plain.SetReadDeadline(time.Now().Add(5 * time.Second))
			buf := make([]byte, 100)
			n, from, err := plain.ReadFromUDPAddrPort(buf)
			if err != nil || !bytes.Equal(buf[:n], word) {
				t.Fatalf("read %q, err %v", buf[:n], err)
			}
			if got, want := unmapped(from), unmapped(at(fast).AddrPort()); got != want {
				t.Fatalf("came from %v, want %v", got, want)
			}
			const packets = 5
			for i := range packets {
				if _, err := plain.WriteToUDP(fmt.Appendf(nil, "packet %d", i), at(fast)); err != nil {
					t.Fatal(err)
				}
			}
			fast.SetReadDeadline(time.Now().Add(5 * time.Second))
			ms := messages(8)
			for got := 0; got < packets; {
				n, err := fast.ReadBatch(ms, 0)
				if err != nil || n == 0 {
					t.Fatalf("after %d packets: %d, err %v", got, n, err)
				}
				for _, m := range ms[:n] {
					if want := fmt.Sprintf("packet %d", got); string(m.Buffers[0][:m.N]) != want {
						t.Fatalf("got %q, want %q", m.Buffers[0][:m.N], want)
					}
					if got, want := unmapped(m.Addr.(*net.UDPAddr).AddrPort()), unmapped(at(plain).AddrPort()); got != want {
						t.Fatalf("from %v, want %v", got, want)
					}
					got++
				}
			}
		})
	}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// The packets of two senders keep their addresses, though the last one's is kept.
func TestUDPTellsSendersApart(t *testing.T) {
	_, fast := listenUDP(t, "udp4", "127.0.0.1:0")
	a, _ := listenUDP(t, "udp4", "127.0.0.1:0")
	b, _ := listenUDP(t, "udp4", "127.0.0.1:0")
	fast.SetReadDeadline(time.Now().Add(5 * time.Second))
	for i := range 9 {
		from := a
		if i%3 == 2 {
			from = b
		}
		from.WriteTo([]byte{byte(i)}, fast.LocalAddr())
	}
	seen, ms := 0, messages(4)
	for seen < 9 {
		n, err := fast.ReadBatch(ms, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms[:n] {
			want := a.LocalAddr()
			if m.Buffers[0][0]%3 == 2 {
				want = b.LocalAddr()
			}
			if m.Addr.String() != want.String() {
				t.Fatalf("packet %d from %v, want %v", m.Buffers[0][0], m.Addr, want)
			}
			seen++
		}
	}
}

// Control messages arrive: the congestion marks that quic-go asks for.
func TestUDPControlMessages(t *testing.T) {
	_, fast := listenUDP(t, "udp4", "127.0.0.1:0")
	_, to := listenUDP(t, "udp4", "127.0.0.1:0")
	raw, _ := to.SyscallConn()
	raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVTOS, 1) })
	oob := make([]byte, unix.CmsgSpace(1))
	ecn := unix.Cmsghdr{Level: unix.IPPROTO_IP, Type: unix.IP_TOS}
	ecn.SetLen(unix.CmsgLen(1))
	copy(oob, controlBytes(&ecn))
	oob[unix.CmsgLen(0)] = 2 // ECT(0), RFC 3168, §5
	if _, n, err := fast.WriteMsgUDP([]byte("x"), oob, to.LocalAddr().(*net.UDPAddr)); err != nil || n != len(oob) {
		t.Fatalf("wrote %d bytes of control messages, err %v", n, err)
	}
	to.SetReadDeadline(time.Now().Add(5 * time.Second))
	ms := messages(2)
	if n, err := to.ReadBatch(ms, 0); err != nil || n != 1 {
		t.Fatalf("%d packets, err %v", n, err)
	}
	got, err := unix.ParseSocketControlMessage(ms[0].OOB[:ms[0].NN])
	if err != nil || len(got) != 1 || got[0].Header.Type != unix.IP_TOS || got[0].Data[0] != 2 {
		t.Fatalf("control messages %+v, err %v", got, err)
	}
}

// Errors are those of the Go library: quic-go looks into them.
func TestUDPErrors(t *testing.T) {
	_, fast := listenUDP(t, "udp4", "127.0.0.1:0")
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	if _, _, err := fast.WriteMsgUDP(make([]byte, 70_000), nil, to); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a packet of 70,000 bytes: %v", err)
	}
	if _, _, err := fast.WriteMsgUDP([]byte("x"), nil, &net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 9}); err == nil {
		t.Error("sent to IPv6 over an IPv4 socket")
	}
	if n, _, err := fast.WriteMsgUDP(nil, nil, to); n != 0 || err != nil {
		t.Errorf("an empty packet: %d, %v", n, err)
	}
	fast.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	var timeout net.Error
	if _, err := fast.ReadBatch(messages(1), 0); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after the deadline: %v", err)
	}
	fast.SetReadDeadline(time.Time{})
	done := make(chan error, 1)
	go func() {
		_, err := fast.ReadBatch(messages(1), 0)
		done <- err
	}()
	fast.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read when the socket is closed: %v", err)
	}
	if _, _, err := fast.WriteMsgUDP([]byte("x"), nil, to); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write when the socket is closed: %v", err)
	}
}

// Many goroutines write while one reads.
func TestUDPManyWriters(t *testing.T) {
	_, in := listenUDP(t, "udp4", "127.0.0.1:0")
	_, out := listenUDP(t, "udp4", "127.0.0.1:0")
	const writers, each = 8, 200
	in.SetReadBuffer(4 << 20)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, _, err := out.WriteMsgUDP(bytes.Repeat([]byte{byte(w)}, 1+i), nil, in.LocalAddr().(*net.UDPAddr)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	in.SetReadDeadline(time.Now().Add(10 * time.Second))
	seen, ms := 0, messages(8)
	for seen < writers*each {
		n, err := in.ReadBatch(ms, 0)
		if err != nil {
			t.Fatalf("after %d of %d packets: %v", seen, writers*each, err)
		}
		for _, m := range ms[:n] {
			if b := m.Buffers[0][:m.N]; !bytes.Equal(b, bytes.Repeat(b[:1], len(b))) {
				t.Fatal("a packet of two writers")
			}
		}
		seen += n
	}
	all.Wait()
}

// switchesBetween is how many switches between threads this process has made: of its own will and others'.
func switchesBetween() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return u.Nvcsw + u.Nivcsw
}

// BenchmarkUDPSwitches is a host that answers one packet each millisecond and sleeps in between. It prints the
// switches between threads a packet, sender's timer included, for the Go library's socket and this one.
func BenchmarkUDPSwitches(b *testing.B) {
	for _, way := range []string{"library", "fast"} {
		b.Run(way, func(b *testing.B) {
			plain, fast := listenUDP(b, "udp4", "127.0.0.1:0")
			to := plain.LocalAddr().(*net.UDPAddr)
			read, write := ipv4.NewPacketConn(plain).ReadBatch, plain.WriteMsgUDP
			if way == "fast" {
				read, write = fast.ReadBatch, fast.WriteMsgUDP
			}
			ms, word := messages(8), make([]byte, 1200)
			b.ReportAllocs()
			before := switchesBetween()
			for b.Loop() {
				time.Sleep(time.Millisecond)
				if _, _, err := write(word, nil, to); err != nil {
					b.Fatal(err)
				}
				if _, err := read(ms, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(switchesBetween()-before)/float64(b.N), "switches/packet")
		})
	}
}

func controlBytes(h *unix.Cmsghdr) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(h)), unix.SizeofCmsghdr)
}

// TestCopies: over the kernel's sockets a packet of a connection that is made goes twice, also two that the kernel cuts; a handshake's and a
// datagram do not, nor what goes elsewhere, or later.
func TestCopies(t *testing.T) {
	_, fast := listenUDP(t, "udp4", "127.0.0.1:0")
	other, _ := listenUDP(t, "udp4", "127.0.0.1:0")
	to, _ := listenUDP(t, "udp4", "127.0.0.1:0")
	var c copies
	conn, ok := c.over(fast).(*copiedUDP)
	if !ok {
		t.Fatalf("%T", c.over(fast))
	}
	send := func(first byte, oob []byte, size int, dst *net.UDPConn) {
		t.Helper()
		b := make([]byte, size)
		b[0] = first
		if _, _, err := conn.WriteMsgUDP(b, oob, dst.LocalAddr().(*net.UDPAddr)); err != nil {
			t.Fatal(err)
		}
	}
	got := func(from *net.UDPConn, want int) (n int) {
		t.Helper()
		for b := make([]byte, 2000); ; n++ {
			from.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n >= want {
				from.SetReadDeadline(time.Now().Add(10 * twiceAfter))
			}
			if _, err := from.Read(b); err != nil {
				return n
			}
		}
	}
	cut := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&cut[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Pointer(&cut[unix.CmsgSpace(0)])) = 100
	at, _ := addrPort(to.LocalAddr())
	expect := func(until time.Time) { c.expect(at, 1, until) }
	soon := time.Now().Add(time.Minute) // the test may be slow
	for _, p := range []struct {
		what  string
		first byte
		oob   []byte
		size  int
		want  int
	}{
		{"a packet", 0x41, nil, 100, 2},
		{"a packet that the kernel cuts", 0x41, cut, 200, 4},
		{"a handshake's", 0xc1, nil, 100, 1},
		{"a datagram", byte(PacketProbe), nil, 100, 1},
	} {
		expect(soon)
		send(p.first, p.oob, p.size, to)
		if n := got(to, p.want); n != p.want {
			t.Errorf("%s: %d came, want %d", p.what, n, p.want)
		}
	}
	expect(soon)
	send(0x41, nil, 100, other)
	if n := got(other, 1); n != 1 {
		t.Errorf("elsewhere: %d came", n)
	}
	expect(time.Now().Add(-time.Millisecond))
	send(0x41, nil, 100, to)
	if n := got(to, 1); n != 1 {
		t.Errorf("later: %d came", n)
	}
	if c.open.Load() != 0 || c.waiting != 0 {
		t.Errorf("%d hosts and %d copies are left", c.open.Load(), c.waiting)
	}
}
