package labtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// timeBoth times an allgather at all hosts and an alltoall at some, printed both ways.
func (c *cluster) timeBoth(t *testing.T) {
	table := c.bench(t, "allgather", c.of(), "--sizes", "8KiB,32KiB", "--iterations", "2", "--warmup", "1")
	t.Logf("bench allgather:\n%s", table)
	for _, want := range []string{"7 ranks on 7 hosts", "all data verified", "\n8KiB ", "\n32KiB "} {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not say %q:\n%s", want, table)
		}
	}
	var r struct {
		Collective string
		Ranks      int
		Sizes      []struct {
			Bytes      int     `json:"size_bytes"`
			Mean       float64 `json:"mean_seconds"`
			Min        float64 `json:"min_seconds"`
			Max        float64 `json:"max_seconds"`
			Bound      float64 `json:"bound_seconds"`
			Ratio      float64 `json:"bound_ratio"`
			Iterations []struct {
				Seconds     float64
				RankSeconds []float64 `json:"rank_seconds"`
			}
			WAN []struct {
				From, To string
				Bytes    float64
			}
		}
	}
	at := []string{"a0", "a0", "b1", "c0"}
	decode(t, c.bench(t, "alltoall", at, "--sizes", "16KiB", "--iterations", "3", "-o", "json"), &r)
	if r.Collective != "alltoall" || r.Ranks != len(at) || len(r.Sizes) != 1 {
		t.Fatalf("report %+v", r)
	}
	s := r.Sizes[0]
	bound := trueBound(load(t, c.file), map[string]int64{
		"A": 2 * 2 * 16 << 10, // two ranks that each get a block from two others elsewhere
		"B": 3 * 16 << 10, "C": 3 * 16 << 10,
	})
	if s.Bytes != 16<<10 || len(s.Iterations) != 3 || !(s.Bound > 0 && bound <= s.Min && s.Min <= s.Mean && s.Mean <= s.Max) {
		t.Errorf("report %+v; the bound of the grid file is %.3f s", s, bound)
	}
	t.Logf("bench alltoall: mean %.3f s, %.2f × bound, %.2f × that of the grid file", s.Mean, s.Ratio, s.Mean/bound)
	if len(s.WAN) != 6 {
		t.Errorf("bytes over %d links between three sites: %+v", len(s.WAN), s.WAN)
	}
}

// bench runs gridagent bench with a rank at each of the hosts and returns what rank 0 prints; the
// others print nothing.
func (c *cluster) bench(t *testing.T, collective string, at []string, extra ...string) string {
	t.Helper()
	ps := make([]*e2etest.Process, len(at))
	for r, name := range at {
		args := []string{"bench", collective, "--job", "bench-" + collective, "--rank", fmt.Sprint(r), "--ranks", fmt.Sprint(len(at))}
		ps[r] = c.client(t, name, append(args, extra...)...)
	}
	for r, p := range ps {
		if out := succeed(t, p); r > 0 && out != "" {
			t.Errorf("rank %d prints\n%s", r, out)
		}
	}
	return ps[0].Stdout.String()
}
