package gridnet_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// What does not reach its receiver is counted at the host that it came from or went to.
func TestWireDrops(t *testing.T) {
	cfg := gridtest.ThreeSites()
	cfg.Links = cfg.Links[:4] // none leads out of NTH
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		ut, uk := attach(t, n, "UT"), attach(t, n, "UK")
		nth := attach(t, n, "NTH")
		got := collect(func(b []byte) ([]byte, error) { _, err := uk.Read(b); return b, err })
		write := func(w *gridnet.Wire, src, dst string, size int) {
			t.Helper()
			p := gridnet.IPv4(netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst), size)
			if err := w.Write(p); err != nil {
				t.Errorf("%s→%s: %v", src, dst, err)
			}
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		write(ut, "10.1.0.1:1", "10.2.0.1:1", gridnet.MTU)   // arrives
		write(ut, "10.1.0.1:1", "10.2.0.1:1", gridnet.MTU+1) // too big
		write(ut, "10.1.0.1:1", "10.1.0.2:1", 100)           // within the site
		write(ut, "10.1.0.1:1", "10.2.0.5:1", 100)           // no such host
		write(ut, "10.1.0.1:1", "224.0.0.251:5353", 100)     // multicast
		write(nth, "10.3.0.1:1", "10.1.0.1:1", 100)          // no link
		write(ut, "10.2.0.1:1", "10.3.0.1:1", 100)           // not from UT
		write(ut, "0.0.0.0:68", "255.255.255.255:67", 300)   // nobody yet
		must(n.CutHost("ut1"))
		write(ut, "10.1.0.2:1", "10.2.0.1:1", 100)
		must(n.CutHost("uk1"))
		write(ut, "10.1.0.1:1", "10.2.0.2:1", 100)
		time.Sleep(time.Second)
		must(n.HealHost("ut1"))
		must(n.HealHost("uk1"))
		write(ut, "10.1.0.2:1", "10.2.0.2:1", 100) // arrives
		time.Sleep(time.Second)
		if k := len(got()); k != 2 {
			t.Errorf("%d packets arrived, want 2", k)
		}
		s := n.Stats()
		dropped := map[string]uint64{}
		for _, h := range s.Hosts {
			for r, c := range h.Egress.Dropped {
				dropped[fmt.Sprint(h.Host, " out: ", gridnet.Reason(r))] = c.Packets
			}
			for r, c := range h.Ingress.Dropped {
				dropped[fmt.Sprint(h.Host, " in: ", gridnet.Reason(r))] = c.Packets
			}
		}
		want := map[string]uint64{"ut0 out: too big": 1, "ut0 out: no route": 3, "nth0 out: no route": 1,
			"ut1 out: link cut": 1, "uk1 in: link cut": 1}
		for what, k := range dropped {
			if k != want[what] {
				t.Errorf("%s: %d packets, want %d", what, k, want[what])
			}
		}
		if want := (gridnet.Count{Packets: 2, Bytes: 400}); s.Stray != want {
			t.Errorf("stray: %+v, want %+v", s.Stray, want)
		}
	})
}

// A reader that is stuck costs a bounded number of packets; the rest is dropped at the
// receiver and counted. What waited is late for as long as it did.
func TestWireQueue(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{Latency: time.Millisecond, Queue: 10_000}), func(t *testing.T, n *gridnet.Network) {
		a, b := attach(t, n, "a"), attach(t, n, "b")
		const room, over = 8 << 20 / gridnet.MTU, 100
		p := gridnet.IPv4(addrPort(t, n, "a0", 1), addrPort(t, n, "b0", 1), 40)
		for range room + over {
			if err := a.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Millisecond)
		s := n.Stats()
		if h := s.Hosts[1].Ingress; h.Delivered.Packets != room || h.Dropped[gridnet.BufferFull].Packets != over {
			t.Errorf("%d delivered and %d dropped, want %d and %d", h.Delivered.Packets, h.Dropped[gridnet.BufferFull].Packets, room, over)
		}
		for range room {
			if k, err := b.Read(make([]byte, 100)); k != 40 || err != nil {
				t.Fatalf("read %d bytes, %v", k, err)
			}
		}
		l := n.Stats().Late
		if l.Packets != room || l.Over != room || (l.Worst-4*time.Millisecond).Abs() > room || (l.Sum/room-4*time.Millisecond).Abs() > room {
			t.Errorf("late: %+v, want all by 4 ms", l)
		}
		// One that is read when it comes is on time.
		if err := a.Write(p); err != nil {
			t.Fatal(err)
		}
		if k, err := b.Read(make([]byte, 10)); k != 10 || err != nil {
			t.Errorf("read %d bytes into 10, %v", k, err)
		}
		if again := n.Stats().Late; again.Packets != room+1 || again.Over != room || again.Sum != l.Sum {
			t.Errorf("late: %+v, then %+v after a packet on time", l, again)
		}
	})
}

// A site is real or emulated, one at a time, and each end of a wire's life is an error.
func TestAttach(t *testing.T) {
	gridtest.Run(t, gridtest.Pair(gridnet.Link{Latency: time.Millisecond}), func(t *testing.T, n *gridnet.Network) {
		refused := func(what string, err error) {
			t.Helper()
			if err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
		ended := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want net.ErrClosed", what, err)
			}
		}
		_, err := n.Attach("c")
		refused("no such site", err)
		sock := gridtest.Listen(t, n, "a0")
		_, err = n.Attach("a")
		refused("a socket is open", err)
		_ = sock.Close()
		a := attach(t, n, "a")
		_, err = n.Attach("a")
		refused("attached twice", err)
		_, err = n.Listen("a0")
		refused("socket of a real host", err)
		refused("kill of a real host", n.Kill("a0"))
		refused("port of a real host", n.SetHostRate("a0", gridnet.Mbps))

		// Emulated hosts do not understand real ones.
		b0 := gridtest.Listen(t, n, "b0")
		p := gridnet.IPv4(addrPort(t, n, "a0", 1), addrPort(t, n, "b0", 4000), 100)
		if err := a.Write(p); err != nil {
			t.Error(err)
		}
		if _, err := b0.WriteTo(make([]byte, 9), net.UDPAddrFromAddrPort(addrPort(t, n, "a0", 1))); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		s := n.Stats()
		for _, h := range s.Hosts {
			if h.Ingress.Dropped[gridnet.NoSocket].Packets != 1 {
				t.Errorf("host %s: %+v, want one packet for nobody", h.Host, h.Ingress)
			}
		}

		reads := make(chan error)
		for range 2 {
			go func() { _, err := a.Read(make([]byte, 10)); reads <- err }()
		}
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		ended("read", <-reads)
		ended("other read", <-reads)
		ended("write", a.Write(p))
		ended("second close", a.Close())
		gridtest.Listen(t, n, "a0").Close()

		a = attach(t, n, "a")
		go func() { _, err := a.Read(make([]byte, 10)); reads <- err }()
		synctest.Wait()
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		ended("read on a closed network", <-reads)
		ended("write to a closed network", a.Write(p))
		ended("close on a closed network", a.Close())
		_, err = n.Attach("a")
		ended("attach to a closed network", err)
	})
}
