package grid_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// TestShapes runs what the paper's grid does not: several ranks on a host, hosts without
// ranks, a prime number of ranks, one rank, sizes of their own, 0 and 1 byte among them.
func TestShapes(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 3, 1, 2), Seed: 2}, func(c *gridtest.Cluster) {
		all := c.EachHost()
		for i, tc := range []struct {
			name  string
			ranks []int
			sizes []int
		}{
			{"one rank", []int{3}, []int{1000}},
			{"one rank with nothing", []int{0}, []int{0}},
			{"two ranks of one host", []int{2, 2}, []int{500, 7000}},
			{"nothing from anybody", all, []int{0}},
			{"one byte from everybody", all, []int{1}},
			{"0, 1 and more bytes", all, []int{0, 1, 70_000, 4096, 4097, 1}},
			{"all from one host", all, []int{0, 0, 0, 50_000, 0, 0}},
			{"a site without ranks", []int{0, 4, 5, 1}, []int{9000}},
			{"a host without ranks", []int{5, 3, 2, 1, 0}, []int{9000}},
			{"ranks spread over hosts in no order", []int{4, 0, 4, 2, 0, 5, 2}, []int{3000, 1, 20_000, 0, 4096, 12_345, 8}},
			{"13 ranks", []int{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 3}, []int{5000}},
		} {
			for _, algorithm := range []string{"", "min3"} { // few bytes need no plan, unless one is asked for
				job := c.Job(algorithm, tc.ranks, tc.sizes...)
				job.Name = fmt.Sprintf("%s (%d) %s", tc.name, i, algorithm)
				c.MustRun(job)
			}
		}
	})
}

// TestRandomJobs runs random jobs of all algorithms.
func TestRandomJobs(t *testing.T) {
	const seed = 3
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "5Mbps", "10ms", 2, 3), Seed: seed}, func(c *gridtest.Cluster) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range 12 {
			ranks, sizes := make([]int, 1+rng.IntN(9)), make([]int, 9)
			for r := range ranks {
				ranks[r] = rng.IntN(len(c.Hosts))
			}
			for r := range sizes {
				sizes[r] = rng.IntN(1 << rng.IntN(16))
			}
			algs := []string{"", "min3", "magpie", "ring", "bruck", "spreading-simple"}
			job := c.Job(algs[rng.IntN(len(algs))], ranks, sizes[:len(ranks)]...)
			job.Name = fmt.Sprintf("seed %d, job %d: %s, ranks on %v, sizes %v", seed, i, job.Options.Algorithm, ranks, sizes[:len(ranks)])
			c.MustRun(job)
		}
	})
}

// TestTwoJobs runs two jobs at once on the same hosts and links.
func TestTwoJobs(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "3Mbps", "30ms", 3, 2), Seed: 4}, func(c *gridtest.Cluster) {
		jobs := []grid.Job{
			c.Job("min3", c.EachHost(), 64<<10),
			c.Job("ring", []int{4, 2, 0, 2}, 20_000, 100_000),
		}
		results := make([]*gridtest.Result, len(jobs))
		var wg sync.WaitGroup
		for i, j := range jobs {
			wg.Go(func() { results[i] = c.Run(j) })
		}
		wg.Wait()
		for i, j := range jobs {
			c.Check(j, results[i])
		}
		// They did share the links: alone, the first is faster.
		alone := c.MustRun(jobs[0])
		if alone.Makespan >= results[0].Makespan {
			c.T.Errorf("%v beside another job and %v alone: did they run at once?", results[0].Makespan, alone.Makespan)
		}
	})
}
