package gridnet_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// A change of rate holds for what is left of the packet in transmission and for those
// that wait: 10 packets of 8 ms, the rate doubled in the middle of the third.
func TestRateChange(t *testing.T) {
	link := gridnet.Link{Rate: 1 * gridnet.Mbps, Latency: 100 * time.Millisecond}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		start := time.Now()
		for range 10 {
			send(t, a, b, 972)
		}
		time.Sleep(20*time.Millisecond + 1) // the first packet reached the pipe after 1 ns
		if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate *= 2; l.Latency = 101 * time.Millisecond }); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{108 * time.Millisecond, 116 * time.Millisecond}
		for i := range 8 {
			want = append(want, 20*time.Millisecond+2*time.Millisecond+time.Duration(i)*4*time.Millisecond+101*time.Millisecond)
		}
		for i := range want {
			want[i] += 2
		}
		equal(t, "after the change", arrivals(t, b, start), want)
	})
}

// A shorter latency does not let packets overtake; a shaper taken away lets those go that
// waited for tokens.
func TestOtherChanges(t *testing.T) {
	link := gridnet.Link{Rate: 1 * gridnet.Mbps, Latency: time.Second, ShapeRate: 1000, ShapeBurst: 2000}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		start := time.Now()
		for range 4 {
			send(t, a, b, 972)
		}
		time.Sleep(100 * time.Millisecond)
		if err := n.SetLink("a", "b", func(l *gridnet.Link) {
			l.ShapeRate, l.ShapeBurst, l.Latency = 0, 0, time.Millisecond
		}); err != nil {
			t.Fatal(err)
		}
		got := arrivals(t, b, start)
		// Two had tokens and travel for 1 s; the others leave at 108 and 116 ms and wait for them.
		for i, want := range []time.Duration{1008, 1016, 1016, 1016} {
			if len(got) != 4 || (got[i]-want*time.Millisecond).Abs() > time.Microsecond {
				t.Fatalf("arrivals %v, want 1.008s 1.016s 1.016s 1.016s", got)
			}
		}
	})
}

func TestCutAndHeal(t *testing.T) {
	link := gridnet.Link{Rate: 1 * gridnet.Mbps, Latency: 100 * time.Millisecond}
	gridtest.Run(t, gridtest.Pair(link), func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "b0")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		expect := func(what string, want int) {
			t.Helper()
			if got := len(arrivals(t, b, time.Now())); got != want {
				t.Errorf("%s: %d arrived, want %d", what, got, want)
			}
		}
		for range 3 {
			send(t, a, b, 972)
		}
		time.Sleep(9 * time.Millisecond) // one is on the wire, one half out, one waits
		must(n.Cut("a", "b"))
		send(t, a, b, 972)
		expect("cut", 1)
		send(t, b, a, 1)
		if at := arrivals(t, a, time.Now()); len(at) != 0 {
			t.Error("the other direction is not cut")
		}
		must(n.Heal("b", "a"))
		send(t, a, b, 972)
		expect("healed", 1)
		must(n.CutLink("b", "a", true))
		send(t, a, b, 972)
		expect("the other direction cut", 1)
		must(n.CutHost("b0"))
		send(t, a, b, 972)
		expect("receiver cut", 0)
		must(n.HealHost("b0"))
		must(n.CutHost("a0"))
		send(t, a, b, 972)
		expect("sender cut", 0)
		must(n.HealHost("a0"))
		send(t, a, b, 972)
		expect("all healed", 1)

		s := n.Stats()
		ab, _ := s.Link("a", "b")
		a0, _ := s.Host("a0")
		b0, _ := s.Host("b0")
		if ab.Dropped[gridnet.LinkCut].Packets != 3 || a0.Egress.Dropped[gridnet.LinkCut].Packets != 1 || b0.Ingress.Dropped[gridnet.LinkCut].Packets != 1 {
			t.Errorf("dropped by cuts: link %+v, a0 %+v, b0 %+v", ab.Traffic, a0.Egress, b0.Ingress)
		}
	})
}

// A killed host's calls end, its packets are gone, and it comes back at the same address.
func TestKill(t *testing.T) {
	cfg := gridnet.Config{Sites: []gridnet.Site{{Name: "a", Hosts: []string{"a0", "a1"}, Rate: 1 * gridnet.Mbps}}}
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		a, b := gridtest.Listen(t, n, "a0"), gridtest.Listen(t, n, "a1")
		for range 4 {
			send(t, a, b, 972)
		}
		ended := make(chan error, 1)
		go func() { _, _, err := a.ReadFrom(make([]byte, 10)); ended <- err }()
		time.Sleep(9 * time.Millisecond)
		if err := n.Kill("a0"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read ended with %v, want net.ErrClosed", err)
		}
		if got := len(arrivals(t, b, time.Now())); got != 1 {
			t.Errorf("%d arrived, want 1", got)
		}
		send(t, b, a, 1)
		time.Sleep(time.Second)
		again := gridtest.Listen(t, n, "a0")
		if again.LocalAddr().String() != a.LocalAddr().String() {
			t.Errorf("came back as %v, was %v", again.LocalAddr(), a.LocalAddr())
		}
		send(t, b, again, 1)
		if got := len(arrivals(t, again, time.Now())); got != 1 {
			t.Errorf("%d arrived after the restart, want 1", got)
		}
		s := n.Stats()
		h, _ := s.Host("a0")
		if h.Egress.Dropped[gridnet.HostDown].Packets != 3 || h.Ingress.Dropped[gridnet.NoSocket].Packets != 1 {
			t.Errorf("counters %+v", h)
		}
	})
}

// Nonsense is refused with the value, and changes nothing.
func TestRefused(t *testing.T) {
	for name, spoil := range map[string]func(*gridnet.Config){
		"no sites":       func(c *gridnet.Config) { c.Sites, c.Links = nil, nil },
		"site twice":     func(c *gridnet.Config) { c.Sites[1].Name = "a" },
		"host twice":     func(c *gridnet.Config) { c.Sites[1].Hosts = []string{"a0"} },
		"unknown site":   func(c *gridnet.Config) { c.Links[0].To = "c" },
		"own site":       func(c *gridnet.Config) { c.Links[0].To = "a" },
		"link twice":     func(c *gridnet.Config) { c.Links[1] = c.Links[0] },
		"negative rate":  func(c *gridnet.Config) { c.Links[0].Rate = -1 },
		"tiny rate":      func(c *gridnet.Config) { c.Sites[0].Rate = 1e-9 },
		"nan rate":       func(c *gridnet.Config) { var z gridnet.Rate; c.Links[0].FlowRate = z / z },
		"loss":           func(c *gridnet.Config) { c.Links[0].Loss = 1.5 },
		"negative delay": func(c *gridnet.Config) { c.Links[0].Latency = -1 },
		"long jitter":    func(c *gridnet.Config) { c.Sites[0].ReceiveJitter = 24 * time.Hour },
		"queue":          func(c *gridnet.Config) { c.Sites[0].EgressQueue = -1 },
		"half a bucket":  func(c *gridnet.Config) { c.Links[0].ShapeRate = 1000 },
		"small bucket":   func(c *gridnet.Config) { c.Links[0].ShapeRate, c.Links[0].ShapeBurst = 1000, 10 },
		"send buffer":    func(c *gridnet.Config) { c.SendBuffer = -5 },
	} {
		cfg := gridtest.Pair(gridnet.Link{})
		spoil(&cfg)
		if n, err := gridnet.New(cfg); err == nil {
			_ = n.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	gridtest.Run(t, gridtest.Pair(gridnet.Link{Rate: gridnet.Mbps}), func(t *testing.T, n *gridnet.Network) {
		for name, err := range map[string]error{
			"bad link":     n.SetLink("a", "b", func(l *gridnet.Link) { l.Loss = -1; l.Rate = 5 }),
			"no link":      n.SetLink("a", "c", func(*gridnet.Link) {}),
			"own site":     n.Cut("a", "a"),
			"no host":      n.Kill("c0"),
			"no host cut":  n.CutHost("c0"),
			"bad rate":     n.SetHostRate("a0", -3),
			"no host rate": n.SetHostRate("c0", 3),
		} {
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		if l, err := n.Link("a", "b"); err != nil || l.Rate != gridnet.Mbps {
			t.Errorf("link is now %+v, %v", l, err)
		}
		if _, err := n.Listen("c0"); err == nil {
			t.Error("listens on a host that is not there")
		}
	})
}
