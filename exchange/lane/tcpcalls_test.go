package lane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tcpPair returns both ends of a connection over loopback: one of the Go library's and one with fast calls.
func tcpPair(t testing.TB) (plain *net.TCPConn, fast *rawTCP) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	other, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	fast, ok := fastTCP(other).(*rawTCP)
	if !ok {
		t.Fatal("a connection of the kernel's stayed as it was")
	}
	return c.(*net.TCPConn), fast
}

// Megabytes that no socket's buffers hold go both ways at once, in pieces of random sizes.
func TestTCPCallsCarry(t *testing.T) {
	plain, fast := tcpPair(t)
	rng := rand.New(rand.NewPCG(1, 62))
	data := make([]byte, 20<<20)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	said := make(chan error, 2)
	say := func(c interface {
		io.Writer
		CloseWrite() error
	}, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 63))
		for left := data; len(left) > 0; {
			n := min(1+rng.IntN(1<<rng.IntN(24)), len(left))
			if k, err := c.Write(left[:n]); err != nil || k != n {
				said <- errors.Join(err, io.ErrShortWrite)
				return
			}
			left = left[n:]
		}
		said <- c.CloseWrite()
	}
	go say(plain, 1)
	go say(fast, 2)
	back := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(plain)
		back <- b
	}()
	got, err := io.ReadAll(struct{ io.Reader }{fast})
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes of %d, err %v", len(got), len(data), err)
	}
	if b := <-back; !bytes.Equal(b, data) {
		t.Errorf("the other end read %d bytes of %d", len(b), len(data))
	}
	for range 2 {
		if err := <-said; err != nil {
			t.Error(err)
		}
	}
	if n, err := fast.Read(nil); n != 0 || err != nil {
		t.Errorf("read nothing: %d, %v", n, err)
	}
	if i, ok := fast.info(); !ok || i.Bytes_received < uint64(len(data)) {
		t.Errorf("the kernel says that %d bytes came, %v", i.Bytes_received, ok)
	}
}

// A stream of BBR says that it has found its rate, one of Reno does not.
func TestTCPRated(t *testing.T) {
	for name, want := range map[string]bool{"reno": false, "bbr": true} {
		t.Run(name, func(t *testing.T) {
			if name == "bbr" && !HasCongestionControl(name) {
				t.Skip("the kernel does not let this process use bbr, of which agents make no use then")
			}
			_, fast := tcpPair(t)
			if err := fast.raw.Control(func(fd uintptr) {
				if err := unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name); err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			if got := (&TCPStream{c: &tcpConn{raw: fast}}).Rated(); got != want || fast.congestion() != name {
				t.Errorf("%v with %q, want %v with %q", got, fast.congestion(), want, name)
			}
		})
	}
}

// Deadlines, the other end's death and this end's Close say what those of the library say.
func TestTCPCallsFail(t *testing.T) {
	plain, fast := tcpPair(t)
	fast.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := fast.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v, want a deadline", n, err)
	}
	var timeout net.Error
	fast.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := fast.Write(make([]byte, 64<<20))
	if !errors.As(err, &timeout) || !timeout.Timeout() || n <= 0 || n >= 64<<20 {
		t.Errorf("wrote %d bytes to who does not read, %v", n, err)
	}
	fast.SetDeadline(time.Time{})
	plain.SetLinger(0)
	plain.Close() // resets
	if _, err := fast.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %v, want a reset", err)
	}
	if _, err := fast.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("wrote to who has reset: %v", err)
	}
	_, fast = tcpPair(t)
	time.AfterFunc(10*time.Millisecond, func() { fast.Close() })
	if _, err := fast.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read %v, want that it is closed", err)
	}
	if _, err := fast.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("wrote to what is closed: %v", err)
	}
	if other := net.Conn(struct{ net.Conn }{fast}); fastTCP(other) != other {
		t.Error("who knows what that is")
	}
}

// BenchmarkTCPSwitches is [BenchmarkUDPSwitches] for a word and an answer over TCP.
func BenchmarkTCPSwitches(b *testing.B) {
	for _, way := range []string{"library", "fast"} {
		b.Run(way, func(b *testing.B) {
			plain, fast := tcpPair(b)
			var near, far net.Conn = plain, fast.TCPConn
			if way == "fast" {
				near, far = fastTCP(plain), fast
			}
			word, buf := make([]byte, 1200), make([]byte, 1500)
			b.ReportAllocs()
			before := switchesBetween()
			for b.Loop() {
				time.Sleep(time.Millisecond)
				if _, err := near.Write(word); err != nil {
					b.Fatal(err)
				}
				if _, err := far.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(switchesBetween()-before)/float64(b.N), "switches/word")
		})
	}
}

// TestUnsent: a socket to a near host takes no more than some records beyond what it may send.
func TestUnsent(t *testing.T) {
	l, err := ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, near := range []bool{false, true} {
		c, err := DialTCP(netip.Addr{})(t.Context(), l.Addr(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f := fastTCP(c).(*rawTCP)
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		want := unsent
		if near {
			f.nears()
			want = nearUnsent
		}
		got := 0
		f.raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT) })
		if err != nil || got != want {
			t.Errorf("near %t: the socket takes %d bytes, want %d; %v", near, got, want, err)
		}
		f.raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MIN_US) })
		if wait := time.Duration(got) * time.Microsecond; err == nil && (nearRTO <= wait && wait < 2*nearRTO) != near { // in ticks of the kernel; else it does not know it
			t.Errorf("near %t: the socket waits %d µs to send again", near, got)
		}
	}
}

// TestTCPHeld: small writes that belong together reach the kernel in one, whatever their sizes; what is not small follows what was held.
func TestTCPHeld(t *testing.T) {
	plain, fast := tcpPair(t)
	all := make([]byte, 60<<10)
	for i := range all {
		all[i] = byte(i * 7 / 3)
	}
	for _, c := range []struct {
		small bool
		sizes []int
	}{
		{true, []int{1, 100, 20}},
		{true, []int{27, 16406, 62}},
		{true, []int{27, mostHeld, 1}},
		{false, []int{27, 16406, 16406, 300}},
		{true, []int{30, 0, 5}},
	} {
		sum := 0
		for _, n := range c.sizes {
			sum += n
		}
		got := make(chan []byte)
		go func() {
			b := make([]byte, sum)
			n, _ := io.ReadFull(plain, b)
			got <- b[:n]
		}()
		fast.more(len(c.sizes)-1, c.small)
		at := 0
		for i, n := range c.sizes {
			if k, err := fast.Write(all[at : at+n]); k != n || err != nil {
				t.Fatalf("%v: wrote %d of %d, %v", c.sizes, k, n, err)
			}
			if at += n; c.small && i < len(c.sizes)-1 && at <= mostHeld && len(fast.out.held) != at {
				t.Errorf("%v: %d bytes are held behind write %d", c.sizes, len(fast.out.held), i)
			}
		}
		if b := <-got; !bytes.Equal(b, all[:sum]) {
			t.Errorf("%v: %d bytes came of %d, or others", c.sizes, len(b), sum)
		}
		if fast.out.held != nil || fast.out.more != 0 {
			t.Errorf("%v: %d bytes are held at the end, %d more are awaited", c.sizes, len(fast.out.held), fast.out.more)
		}
	}
}
