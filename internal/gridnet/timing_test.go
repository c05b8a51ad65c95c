package gridnet_test

import (
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// tx is how long a datagram of n payload bytes occupies a port of rate r.
func tx(n int, r gridnet.Rate) time.Duration {
	return time.Duration(float64(n+gridnet.HeaderBytes)/float64(r)*1e9 + 0.5)
}

// send writes n zero bytes from one socket to another, or ends the test.
func send(t *testing.T, from, to *gridnet.Conn, n int) {
	t.Helper()
	if _, err := from.WriteTo(make([]byte, n), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
}

// arrivals returns when the next datagrams reach c, until none comes for a minute.
func arrivals(t *testing.T, c *gridnet.Conn, start time.Time) []time.Duration {
	t.Helper()
	var at []time.Duration
	buf := make([]byte, 2000)
	for {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		_, _, err := c.ReadFrom(buf)
		if e, ok := err.(net.Error); ok && e.Timeout() {
			return at
		}
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, time.Since(start))
	}
}

func equal(t *testing.T, what string, got, want []time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d datagrams arrived, want %d: %v", what, len(got), len(want), got)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: datagram %d arrived after %v, want %v", what, i, got[i], want[i])
		}
	}
}

// On an idle path a datagram takes the transmission at each port and pipe and one latency.
func TestIdlePath(t *testing.T) {
	cfg := gridnet.Config{
		Sites: []gridnet.Site{
			{Name: "a", Hosts: []string{"a0", "a1"}, Rate: 80 * gridnet.Mbps, Latency: 60 * time.Microsecond},
			{Name: "b", Hosts: []string{"b0"}, Rate: 240 * gridnet.Mbps},
		},
		Links: []gridnet.Link{{From: "a", To: "b", Rate: 2 * gridnet.Mbps, Latency: 50 * time.Millisecond}},
	}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		a0, a1, b0 := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "a1"), gridtest.Listen(t, n, "b0")
		other := gridtest.Listen(t, n, "a0")
		for _, size := range []int{0, 1, 1000, gridnet.MaxPayload} {
			for _, path := range []struct {
				name string
				to   *gridnet.Conn
				want time.Duration
			}{
				{"lan", a1, 2*tx(size, 80*gridnet.Mbps) + 60*time.Microsecond},
				{"wan", b0, tx(size, 80*gridnet.Mbps) + tx(size, 2*gridnet.Mbps) + 50*time.Millisecond + tx(size, 240*gridnet.Mbps)},
				{"own host", other, time.Microsecond},
			} {
				start := time.Now()
				send(t, a0, path.to, size)
				equal(t, path.name, arrivals(t, path.to, start), []time.Duration{path.want})
			}
		}
	})
}

// A burst leaves the bottleneck at its rate: arrivals are one transmission apart.
func TestSerialisation(t *testing.T) {
	const rate = 1 * gridnet.Mbps
	gridtest.Run(t, gridtest.Pair(gridnet.Link{Rate: rate, Latency: time.Second}), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		start := time.Now()
		var want []time.Duration
		end := time.Second
		for i := range 20 {
			size := 100 * i % 1400
			send(t, a, b, size)
			end += tx(size, rate)
			want = append(want, end)
		}
		// Ports without limit take a nanosecond; the first packet passes two of them.
		for i := range want {
			want[i] += 2
		}
		equal(t, "burst", arrivals(t, b, start), want)
	})
}

// A queue of 10 keeps 10 packets and the one in transmission; the rest is dropped and counted.
func TestDropTail(t *testing.T) {
	link := gridnet.Link{Rate: gridnet.Mbps, Latency: time.Millisecond, Queue: 10}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		for range 30 {
			send(t, a, b, 972)
		}
		if got := len(arrivals(t, b, time.Now())); got != 11 {
			t.Errorf("%d arrived, want 11", got)
		}
		s := n.Stats()
		l, _ := s.Link("a", "b")
		if l.Dropped[gridnet.QueueFull] != (gridnet.Count{Packets: 19, Bytes: 19000}) || l.HighWater != 10 || l.Offered.Packets != 30 {
			t.Errorf("counters: %+v", l)
		}
	})
}

// A datagram over the MTU is dropped at the host and counted, as one to nowhere is.
func TestUndeliverable(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{})
	cfg.Links = cfg.Links[:1]
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		send(t, a, b, gridnet.MaxPayload+1)
		send(t, a, b, gridnet.MaxPayload)
		send(t, b, a, 1) // no link
		for _, to := range []string{"10.9.9.9:1", "10.2.0.1:9"} {
			addr, err := net.ResolveUDPAddr("udp", to)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.WriteTo([]byte("x"), addr); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(arrivals(t, b, time.Now())); got != 1 {
			t.Errorf("%d arrived, want 1", got)
		}
		s := n.Stats()
		ha, _ := s.Host("a0")
		hb, _ := s.Host("b0")
		if ha.Egress.Dropped[gridnet.TooBig].Packets != 1 || ha.Egress.Dropped[gridnet.NoRoute].Packets != 1 {
			t.Errorf("a0 out: %+v", ha.Egress)
		}
		if hb.Egress.Dropped[gridnet.NoRoute].Packets != 1 || hb.Ingress.Dropped[gridnet.NoSocket].Packets != 1 {
			t.Errorf("b0: %+v", hb)
		}
	})
}
