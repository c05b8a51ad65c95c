package gridnet_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

func TestConnCopies(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{Latency: time.Millisecond}), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		msg := []byte("seven bytes and more")
		if _, err := a.WriteTo(msg, b.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		clear(msg) // the network must have its own copy
		buf := []byte("0123456789")
		k, from, err := b.ReadFrom(buf[:5])
		if err != nil || !bytes.Equal(buf, []byte("seven56789")) || k != 5 || from.String() != a.LocalAddr().String() {
			t.Errorf("read %d bytes %q from %v: %v", k, buf, from, err)
		}
		if a.LocalAddr().String() != "10.1.0.1:4000" {
			t.Errorf("address %v", a.LocalAddr())
		}
	})
}

func TestReadDeadline(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{}), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		start := time.Now()
		timesOut := func(what string, after time.Duration) {
			t.Helper()
			_, _, err := a.ReadFrom(make([]byte, 10))
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != after {
				t.Errorf("%s: %v after %v, want a time-out after %v", what, err, time.Since(start), after)
			}
		}
		set := func(at time.Time) {
			t.Helper()
			if err := a.SetDeadline(at); err != nil {
				t.Error(err)
			}
		}
		set(start.Add(time.Second))
		timesOut("future", time.Second)
		timesOut("still past", time.Second)
		set(start.Add(time.Hour))
		go func() { time.Sleep(time.Second); set(time.Now()) }()
		timesOut("moved to now while reading", 2*time.Second)
		set(start.Add(3 * time.Second))
		go func() { time.Sleep(time.Second / 2); set(start.Add(4 * time.Second)) }()
		timesOut("moved on while reading", 4*time.Second)
		set(time.Time{})
		send(t, b, a, 3)
		if k, _, err := a.ReadFrom(make([]byte, 10)); k != 3 || err != nil {
			t.Errorf("no deadline: %d, %v", k, err)
		}
	})
}

// WriteTo waits for room in the send buffer, for its deadline, and for Close.
func TestSendBuffer(t *testing.T) {
	const rate = gridnet.Mbps // 8 ms for a packet of 1000 bytes
	cfg := gridnet.Config{Sites: []gridnet.Site{{Name: "a", Hosts: []string{"a0", "a1"}, Rate: rate}}, SendBuffer: 4000}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "a1")
		if err := a.SetWriteBuffer(7 << 20); err != nil { // is not granted
			t.Fatal(err)
		}
		start := time.Now()
		for i := range 8 {
			send(t, a, b, 972)
			if got, want := time.Since(start), max(0, time.Duration(i-3))*8*time.Millisecond; got != want {
				t.Errorf("packet %d was taken after %v, want %v", i, got, want)
			}
		}
		if err := a.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.WriteTo([]byte("x"), b.LocalAddr()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write ended with %v, want a time-out", err)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for range 2 {
			go func() { _, err := a.WriteTo([]byte("x"), b.LocalAddr()); ended <- err }()
		}
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("write ended with %v, want net.ErrClosed", err)
			}
		}
		if got := len(arrivals(t, b, start)); got != 8 {
			t.Errorf("%d arrived, want the 8 that were written before Close", got)
		}
	})
}

// A reader that is too slow loses what does not fit, and the loss is counted.
func TestReceiveBuffer(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{}), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		if err := b.SetReadBuffer(10_000); err != nil {
			t.Fatal(err)
		}
		for range 30 {
			send(t, a, b, 972)
		}
		time.Sleep(time.Second)
		s := n.Stats()
		if h, _ := s.Host("b0"); h.Ingress.Dropped[gridnet.BufferFull].Packets != 20 || h.Ingress.Delivered.Packets != 10 {
			t.Errorf("counters %+v", h.Ingress)
		}
		if got := len(arrivals(t, b, time.Now())); got != 10 {
			t.Errorf("%d arrived, want 10", got)
		}
	})
}

func TestClosed(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{}), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		if _, err := a.WriteTo(nil, &net.IPAddr{}); err == nil {
			t.Error("writes to an IPAddr")
		}
		for _, to := range []net.Addr{nil, (*net.UDPAddr)(nil), &net.UDPAddr{IP: net.IPv6loopback, Port: 1}, &net.UDPAddr{}} {
			if _, err := a.WriteTo(nil, to); err == nil {
				t.Errorf("writes to %v", to)
			}
		}
		if _, err := n.ListenPort("a0", 4000); err == nil {
			t.Error("listens twice on port 4000")
		}
		ended := make(chan error)
		for range 3 {
			go func() { _, _, err := b.ReadFrom(make([]byte, 10)); ended <- err }()
		}
		synctest.Wait()
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("read ended with %v, want net.ErrClosed", err)
			}
		}
		_, write := a.WriteTo(nil, b.LocalAddr())
		_, listen := n.Listen("a0")
		for what, err := range map[string]error{"write": write, "listen": listen, "close": a.Close(),
			"deadline": a.SetDeadline(time.Time{}), "cut": n.Cut("a", "b"), "buffer": a.SetReadBuffer(1)} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v, want net.ErrClosed", what, err)
			}
		}
		n.Stats() // still answers
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}
