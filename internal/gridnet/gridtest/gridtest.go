// Package gridtest runs a test over an emulated network in virtual time.
//
// Place in the flow: beside it; only tests import it.
package gridtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// patience is how much wall time a bubble gets. A goroutine that spins, or waits for
// something outside, stops the bubble's clock and with it every time-out inside.
const patience = 4 * time.Minute

// Run runs f in a synctest bubble with the network of cfg, which it closes when f has returned
// and the cleanups that f registered have run. By then f has closed both ends of its connections;
// goroutines that are left over fail the test. If wall time runs out, the process panics.
func Run(t *testing.T, cfg gridnet.Config, f func(*testing.T, *gridnet.Network)) {
	t.Helper()
	name := t.Name()
	watchdog := time.AfterFunc(patience, func() {
		panic(fmt.Sprintf("%s: the bubble did not end within %v of wall time: its clock stands still", name, patience))
	})
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) {
		n, err := gridnet.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() }) // the first one registered runs last; never fails
		f(t, n)
	})
}

// Listen opens a socket on a host, or ends the test.
func Listen(t testing.TB, n *gridnet.Network, host string) *gridnet.Conn {
	t.Helper()
	c, err := n.Listen(host)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Pair returns two sites a and b of one host each, a0 and b0, on ports without limit,
// with the same link in both directions. The names in link are filled in.
func Pair(link gridnet.Link) gridnet.Config {
	ab, ba := link, link
	ab.From, ab.To = "a", "b"
	ba.From, ba.To = "b", "a"
	return gridnet.Config{
		Sites: []gridnet.Site{{Name: "a", Hosts: Hosts("a", 1)}, {Name: "b", Hosts: Hosts("b", 1)}},
		Links: []gridnet.Link{ab, ba},
	}
}

// ThreeSites returns the grid of Gupta & Vadhiyar (HPDC 2007), Tables 1 and 2: UT with 8
// hosts, UK with 4 and NTH with 8 (ut0 …). Each WAN link is one pipe for all its flows.
// The latency inside NTH is 6 µs as printed, which is probably a misprint of 60 µs.
func ThreeSites() gridnet.Config {
	const us, ms = time.Microsecond, time.Millisecond
	return gridnet.Config{
		Sites: []gridnet.Site{
			{Name: "UT", Hosts: Hosts("ut", 8), Rate: 85.19 * gridnet.Mbps, Latency: 60 * us},
			{Name: "UK", Hosts: Hosts("uk", 4), Rate: 289.33 * gridnet.Mbps, Latency: 60 * us},
			{Name: "NTH", Hosts: Hosts("nth", 8), Rate: 81.86 * gridnet.Mbps, Latency: 6 * us},
		},
		Links: []gridnet.Link{
			{From: "UT", To: "UK", Rate: 1.44 * gridnet.Mbps, Latency: 50 * ms},
			{From: "UT", To: "NTH", Rate: 1.25 * gridnet.Mbps, Latency: 50 * ms},
			{From: "UK", To: "UT", Rate: 1.28 * gridnet.Mbps, Latency: 50 * ms},
			{From: "UK", To: "NTH", Rate: 4.75 * gridnet.Mbps, Latency: 76 * ms},
			{From: "NTH", To: "UT", Rate: 1.16 * gridnet.Mbps, Latency: 50 * ms},
			{From: "NTH", To: "UK", Rate: 4.75 * gridnet.Mbps, Latency: 76 * ms},
		},
	}
}

// Hosts returns n names: the lower-case prefix and a number from 0.
func Hosts(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", strings.ToLower(prefix), i)
	}
	return names
}
