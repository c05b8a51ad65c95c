package treetest

import (
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

// TestUse: what the bins of a link hold is what it carried, and no bin holds more than its rate.
func TestUse(t *testing.T) {
	g, _, cfg := onGrid(t, threeSites)
	cfg.Watch = 20 * time.Millisecond
	p, err := shuffle.Shift(g.hosts, plan.AlltoallSizes{Uniform: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	rates := make(map[[2]string]float64)
	for _, l := range cfg.Net.Links {
		rates[[2]string{l.From, l.To}] = float64(l.Rate)
	}
	Run(t, cfg, func(c *Cluster) {
		r := c.Run(p)
		if len(r.Use) != len(rates) {
			t.Fatalf("%d links were in use, the grid has %d", len(r.Use), len(rates))
		}
		for i := range r.Use {
			u := &r.Use[i]
			var bytes float64
			for _, busy := range u.Busy {
				if busy < 0 || busy > 1.1 { // a packet counts where its last bit is
					t.Errorf("%v: a bin above its rate", u)
				}
				bytes += busy * rates[[2]string{u.From, u.To}] * cfg.Watch.Seconds()
			}
			if want := float64(r.Carried(u.From, u.To)); want == 0 || math.Abs(bytes-want) > 1 {
				t.Errorf("%v: %.0f bytes in its bins, it carried %.0f", u, bytes, want)
			}
			n := len(u.Busy)
			if got, want := u.Over(n), bytes/(rates[[2]string{u.From, u.To}]*cfg.Watch.Seconds()*float64(n)); math.Abs(got-want) > 1e-9 {
				t.Errorf("%v: %v over all bins, want %v", u, got, want)
			}
		}
	})
}
