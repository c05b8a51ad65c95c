package pools

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A link has fallen, most pairs show it, and the tree has followed. One pair that goes back to the old rate, since it was not
// looked at since or was misread, does not take the tree back with it; all of them do, at once.
func TestOnePairTakesNoFallBack(t *testing.T) {
	for seed := range uint64(20) {
		g := track(t, lab(), seed, TrackConfig{})
		g.measureAll(0.05)
		g.observe()
		if got := g.current().Tree.outline(); got != "A | {B | C}" {
			t.Fatalf("seed %d: first tree %s", seed, got)
		}
		g.run(time.Minute, 0.05)
		g.set("B", "C", 1.2)
		g.measureAll(0.05)
		begun := g.now
		if n := g.run(10*time.Second, 0.05); n != 1 || g.current().Since.Sub(begun) > 3*time.Second {
			t.Fatalf("seed %d: %d changes after the fall, the last after %v", seed, n, g.current().Since.Sub(begun))
		}
		fallen := g.current()
		for at := range g.rate { // b1→c1
			if n := len(g.hosts); g.hosts[at/n].Name == "b1" && g.hosts[at%n].Name == "c1" {
				g.rate[at] = 4.78
				g.measure(at, 0.05)
			}
		}
		if n := g.run(20*time.Second, 0.05); n > 0 {
			t.Fatalf("seed %d: one pair made %q of %q", seed, g.current().Reason, fallen.Reason)
		}
		g.set("B", "C", 4.78)
		g.measureAll(0.05)
		begun = g.now
		if n := g.run(5*time.Second, 0.05); n != 1 || g.current().Since.Sub(begun) > 3*time.Second {
			t.Fatalf("seed %d: %d changes after the rise, the last after %v: %s", seed, n, g.current().Since.Sub(begun), g.current().Reason)
		}
	}
}

// lab is the grid in which a tree was seen to go back: three sites, the narrower direction of two of which falls.
func lab() *netmap.Snapshot {
	rates := map[[2]string]float64{
		{"A", "B"}: 3.8, {"B", "A"}: 2.86, {"A", "C"}: 1.9, {"C", "A"}: 2.38, {"B", "C"}: 4.78, {"C", "B"}: 5.73,
	}
	hosts := []netmap.Host{
		{Name: "a0", Site: "A"}, {Name: "a1", Site: "A"}, {Name: "a2", Site: "A"},
		{Name: "b0", Site: "B"}, {Name: "b1", Site: "B"}, {Name: "c0", Site: "C"}, {Name: "c1", Site: "C"},
	}
	return snapshot(hosts, func(i, j int) float64 {
		if rate, ok := rates[[2]string{hosts[i].Site, hosts[j].Site}]; ok {
			return rate
		}
		return 19
	})
}
