package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
)

// An outcome is what one rank's Run returned.
type outcome struct {
	report *bench.Report
	err    error
}

// run runs a benchmark with rank r on host ranks[r]. config, if not nil, edits what a rank
// is told, and gets what ends its client; wrap edits what it runs on.
func run(c *gridtest.Cluster, job string, ranks []int, cfg bench.Config,
	config func(rank int, cfg *bench.Config, die func()), wrap func(rank int, r bench.Rank) bench.Rank) []outcome {
	out := make([]outcome, len(ranks))
	done := make(chan struct{})
	for rank, host := range ranks {
		go func() {
			defer func() { done <- struct{}{} }()
			cl := c.Client(host)
			defer cl.Close()
			ctx, die := context.WithCancel(c.Ctx)
			defer die()
			r, err := cl.Join(ctx, job, rank, len(ranks))
			if err != nil {
				out[rank].err = err
				return
			}
			defer r.Close()
			cfg := cfg
			cfg.Rank, cfg.Site = rank, c.Hosts[host].Site
			if config != nil {
				config(rank, &cfg, die)
			}
			var on bench.Rank = r
			if wrap != nil {
				on = wrap(rank, r)
			}
			out[rank].report, out[rank].err = bench.Run(ctx, on, cfg)
		}()
	}
	for range ranks {
		<-done
	}
	return out
}

// TestRun measures both collectives with several ranks on a host, a host without ranks, and
// sizes down to nothing, and checks what the figures have to do with each other.
func TestRun(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 2, 2), Seed: 41}, func(c *gridtest.Cluster) {
		for _, tc := range []struct {
			ranks []int
			cfg   bench.Config
			// payload that the ranks of site a have for those of site b, for each byte of size
			across int64
		}{
			{[]int{0, 2, 3}, bench.Config{Collective: plan.Allgather, Sizes: []int64{48 << 10, 1}, Iterations: 2, Warmup: 1}, 1},
			{[]int{0, 1, 2, 3, 3}, bench.Config{Collective: plan.Alltoall, Sizes: []int64{0, 12345}, Iterations: 2}, 6},
			{[]int{1}, bench.Config{Collective: plan.Alltoall, Sizes: []int64{100}, Iterations: 1}, 0},
			{[]int{1}, bench.Config{Collective: plan.Allgather, Sizes: []int64{100}, Iterations: 1}, 0},
		} {
			name := fmt.Sprintf("%s of %d", tc.cfg.Collective, len(tc.ranks))
			outs := run(c, name, tc.ranks, tc.cfg, nil, nil)
			first, err := json.Marshal(outs[0].report)
			if err != nil {
				c.T.Fatal(err)
			}
			for rank, o := range outs {
				if o.err != nil {
					c.T.Fatalf("%s: rank %d: %v", name, rank, o.err)
				}
				if same, err := json.Marshal(o.report); err != nil || !bytes.Equal(same, first) {
					c.T.Errorf("%s: rank %d has another report than rank 0 (%v):\n%s\n%s", name, rank, err, same, first)
				}
			}
			check(c, name, outs[0].report, tc.cfg, len(tc.ranks), tc.across)
		}
	})
}

func check(c *gridtest.Cluster, name string, r *bench.Report, cfg bench.Config, ranks int, across int64) {
	c.T.Helper()
	if len(r.Sizes) != len(cfg.Sizes) || r.Ranks != ranks || len(r.Hosts) != ranks || len(r.Sites) != ranks {
		c.T.Fatalf("%s: report %+v", name, r)
	}
	for i, s := range r.Sizes {
		c.T.Logf("%s %d B: %s mean %.4f min %.4f max %.4f bound %.4f ratio %.2f %.3f Mbit/s %v", name, s.Bytes, s.Algorithm, s.Mean, s.Min, s.Max, s.Bound, s.Ratio, s.Mbps, s.WAN)
		if s.Bytes != cfg.Sizes[i] || len(s.Iterations) != cfg.Iterations || s.Algorithm == "" {
			c.T.Errorf("%s: size %d: %+v", name, i, s)
		}
		if !(0 < s.Min || ranks == 1) || !(s.Min <= s.Mean && s.Mean <= s.Max) || s.Bound > s.Mean {
			c.T.Errorf("%s: %d bytes: bound %g, min %g, mean %g, max %g", name, s.Bytes, s.Bound, s.Min, s.Mean, s.Max)
		}
		if ranks > 1 && s.Bytes > 1000 && (s.Bound == 0 || s.Mbps < 0.1 || s.Mbps > 100) {
			c.T.Errorf("%s: %d bytes: bound %g, %g Mbit/s", name, s.Bytes, s.Bound, s.Mbps)
		}
		for _, it := range s.Iterations {
			if len(it.RankSeconds) != ranks || slices.Max(it.RankSeconds) != it.Seconds || len(it.AgentSeconds) != ranks {
				c.T.Errorf("%s: iteration %+v", name, it)
			}
		}
		at := slices.IndexFunc(s.WAN, func(x bench.Crossing) bool { return x.From == "a" && x.To == "b" })
		if want := float64(s.Bytes * across); want == 0 && len(s.WAN) > 0 || want > 0 && (at < 0 || s.WAN[at].Bytes != want) {
			c.T.Errorf("%s: %d bytes: %v over the WAN, want %g from a to b", name, s.Bytes, s.WAN, want)
		}
	}
}

// A meddler is a rank that gets other data than was sent.
type meddler struct {
	bench.Rank
	calls  int
	meddle func(call int, data []byte)
}

func (m *meddler) Alltoall(ctx context.Context, input []byte, opts client.AlltoallOptions) (*client.Result, error) {
	return m.change(m.Rank.Alltoall(ctx, input, opts))
}

// Allgather changes no result of the ranks' own messages, which are not as long as blocks.
func (m *meddler) Allgather(ctx context.Context, block []byte, opts client.Options) (*client.Result, error) {
	res, err := m.Rank.Allgather(ctx, block, opts)
	if len(block) < 4096 {
		return res, err
	}
	return m.change(res, err)
}

func (m *meddler) change(res *client.Result, err error) (*client.Result, error) {
	if err != nil {
		return nil, err
	}
	// Mapped, as Close expects of it.
	data, err := unix.Mmap(-1, 0, len(res.Data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	copy(data, res.Data)
	m.meddle(m.calls, data)
	m.calls++
	changed := &client.Result{Data: data, Sizes: res.Sizes, Report: res.Report}
	return changed, res.Close()
}

// TestWrongData checks that each kind of wrong data at one rank ends the benchmark at all
// ranks with the same words, after the group has run the sizes before it, and leaves a group
// that can go on.
func TestWrongData(t *testing.T) {
	const size = 8 << 10
	swap := func(data []byte) {
		one := bytes.Clone(data[:size])
		copy(data, data[size:2*size])
		copy(data[size:], one)
	}
	var kept []byte
	for _, tc := range []struct {
		name   string
		meddle func(call int, data []byte)
		says   []string
	}{
		{"swapped", func(call int, data []byte) {
			if call == 2 {
				swap(data)
			}
		}, []string{"rank 2 on b0, 8KiB, iteration 2: block from rank 0 on a0: byte 0 of 8192 is wrong: it holds the block from rank 1"}},
		{"stale", func(call int, data []byte) {
			if call == 1 {
				copy(data[size:2*size], kept[size:])
			}
			kept = bytes.Clone(data)
		}, []string{"rank 2 on b0, 8KiB, iteration 1: block from rank 1 on a1: ", "it holds the block from rank 1", ", of the operation 1 before"}},
		{"shifted", func(call int, data []byte) {
			if call == 0 {
				copy(data[4000:size], bytes.Clone(data[:size]))
			}
		}, []string{"rank 2 on b0, 8KiB, warm-up 1: block from rank 0 on a0: byte 400", "it holds bytes of its own, which belong at -4000 bytes from there"}},
		{"one bit", func(call int, data []byte) {
			if call == 3 {
				data[len(data)-1] ^= 1
			}
		}, []string{"iteration 3: block from rank 2 on b0: byte 8191 of 8192 is wrong: it holds what no rank has sent"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "10Mbps", "5ms", 2, 1), Seed: 42}, func(c *gridtest.Cluster) {
				for _, collective := range []plan.Collective{plan.Allgather, plan.Alltoall} {
					cfg := bench.Config{Collective: collective, Sizes: []int64{size}, Iterations: 3, Warmup: 1}
					outs := run(c, tc.name+string(collective), c.EachHost(), cfg, nil, func(rank int, r bench.Rank) bench.Rank {
						if rank != 2 {
							return r
						}
						return &meddler{Rank: r, meddle: tc.meddle}
					})
					for rank, o := range outs {
						var wrong *bench.WrongDataError
						if !errors.As(o.err, &wrong) {
							c.T.Fatalf("%s: rank %d: %v", collective, rank, o.err)
						}
						if o.err.Error() != outs[0].err.Error() || wrong.Rank != 2 || len(o.report.Sizes) != 0 {
							c.T.Errorf("%s: rank %d: %v, and rank 0: %v", collective, rank, o.err, outs[0].err)
						}
						for _, says := range tc.says {
							if !strings.Contains(o.err.Error(), says) {
								c.T.Errorf("%s: %v, want it to say %q", collective, o.err, says)
							}
						}
					}
				}
			})
		})
	}
}

// TestMismatch gives rank 1 another value of each thing that ranks must agree on.
func TestMismatch(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "10Mbps", "5ms", 2, 1), Seed: 43}, func(c *gridtest.Cluster) {
		for i, tc := range []struct {
			edit func(cfg *bench.Config)
			says string
		}{
			{func(cfg *bench.Config) { cfg.Sizes = []int64{2 << 10} }, "--sizes: 2KiB at rank 1, 1KiB,3KiB at rank 0"},
			{func(cfg *bench.Config) { cfg.Iterations = 7 }, "--iterations: 7 at rank 1, 1 at rank 0"},
			{func(cfg *bench.Config) { cfg.Warmup = 1 }, "--warmup: 1 at rank 1, 0 at rank 0"},
			{func(cfg *bench.Config) { cfg.Apart = true }, "--together: false at rank 1, true at rank 0"},
			{func(cfg *bench.Config) { cfg.Options.Algorithm = "ring" }, "--algorithm: ring at rank 1, auto at rank 0"},
			{func(cfg *bench.Config) { cfg.Shape = "pair" }, "--shape: pair at rank 1, even at rank 0"},
			{func(cfg *bench.Config) { cfg.Options.Sync = "barrier" }, "--sync: barrier at rank 1, nothing at rank 0"},
			{func(cfg *bench.Config) { cfg.Collective = plan.Allgather }, "collective: allgather at rank 1, alltoall at rank 0"},
		} {
			cfg := bench.Config{Collective: plan.Alltoall, Sizes: []int64{1 << 10, 3 << 10}, Iterations: 1}
			outs := run(c, fmt.Sprint("mismatch ", i), c.EachHost(), cfg, func(rank int, cfg *bench.Config, _ func()) {
				if rank == 1 {
					tc.edit(cfg)
				}
			}, nil)
			for rank, o := range outs {
				var mismatch *bench.MismatchError
				if !errors.As(o.err, &mismatch) || mismatch.Rank != 1 || mismatch.Host != "a1" || mismatch.Cause != tc.says {
					c.T.Errorf("rank %d: %v, want %q", rank, o.err, tc.says)
				}
			}
		}
		// A rank that runs something else.
		outs := run(c, "other", c.EachHost(), bench.Config{Collective: plan.Allgather, Sizes: []int64{1}, Iterations: 1}, nil, func(rank int, r bench.Rank) bench.Rank {
			if rank == 2 {
				return other{r}
			}
			return r
		})
		for _, o := range outs[:2] {
			if o.err == nil || !strings.Contains(o.err.Error(), "rank 2 runs no benchmark of this version") {
				c.T.Errorf("a rank that runs something else: %v", o.err)
			}
		}
	})
}

// other is a rank that contributes a file to an allgather.
type other struct{ bench.Rank }

func (o other) Allgather(ctx context.Context, _ []byte, opts client.Options) (*client.Result, error) {
	return o.Rank.Allgather(ctx, []byte("the content of a file"), opts)
}

// TestRankLost ends one rank's client in the middle.
func TestRankLost(t *testing.T) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "1Mbps", "20ms", 2, 1), Seed: 44}, func(c *gridtest.Cluster) {
		var died time.Time
		cfg := bench.Config{Collective: plan.Allgather, Sizes: []int64{1 << 10, 64 << 10}, Iterations: 2}
		outs := run(c, "lost", c.EachHost(), cfg, func(rank int, cfg *bench.Config, die func()) {
			cfg.Progress = func(size int64, done, _ int) {
				if rank == 1 && size == 64<<10 && done == 1 {
					time.AfterFunc(300*time.Millisecond, func() { // the operation takes over 1 s
						died = time.Now()
						die()
					})
				}
			}
		}, nil)
		for rank, o := range outs {
			if rank == 1 {
				if o.err == nil {
					c.T.Error("rank 1 ended well")
				}
				continue
			}
			var ge *client.GroupError
			if !errors.As(o.err, &ge) || ge.Kind != "rank_lost" || ge.Rank != 1 {
				c.T.Errorf("rank %d: %v", rank, o.err)
			}
			if o.report == nil || len(o.report.Sizes) != 1 {
				c.T.Errorf("rank %d: the size before is not in the report: %+v", rank, o.report)
			}
		}
		if took := time.Since(died); took > 2*time.Second {
			c.T.Errorf("the others ended %v after rank 1", took)
		}
	})
}

// A starter notes when its operations begin.
type starter struct {
	bench.Rank
	at *[]time.Time
}

func (s starter) Alltoall(ctx context.Context, input []byte, opts client.AlltoallOptions) (*client.Result, error) {
	*s.at = append(*s.at, time.Now())
	return s.Rank.Alltoall(ctx, input, opts)
}

// TestRanksBeginTogether checks the barrier: on links of 30 ms the ranks begin an operation
// within a few, however long it took each of them to look at the one before; and not so, at some time, if they are to begin apart.
func TestRanksBeginTogether(t *testing.T) {
	t.Run("together", func(t *testing.T) {
		late := 0
		for _, spread := range spreads(t, bench.Config{Collective: plan.Alltoall, Sizes: []int64{8 << 10}, Iterations: 5}) {
			if spread > 5*time.Millisecond {
				late++
			}
		}
		// One word to begin may stand in a queue behind a probe that began before the group.
		if late > 1 {
			t.Errorf("in %d of 5 iterations the ranks begin more than 5 ms apart", late)
		}
	})
	t.Run("apart", func(t *testing.T) {
		got := spreads(t, bench.Config{Collective: plan.Alltoall, Sizes: []int64{8 << 10}, Iterations: 5, Apart: true})
		if slices.Max(got) < 20*time.Millisecond {
			t.Errorf("the ranks begin %v apart, behind a barrier whose word has 30 ms to go", got)
		}
	})
}

// spreads runs a benchmark over links of 30 ms and returns how far apart its ranks begin each operation.
func spreads(t *testing.T, cfg bench.Config) (out []time.Duration) {
	gridtest.Run(t, gridtest.Config{Grid: gridtest.Sites(t, "2Mbps", "30ms", 2, 1, 2), Seed: 45}, func(c *gridtest.Cluster) {
		ranks := c.EachHost()
		starts := make([][]time.Time, len(ranks))
		outs := run(c, "start", ranks, cfg, func(rank int, cfg *bench.Config, _ func()) {
			cfg.Progress = func(int64, int, int) { time.Sleep(time.Duration(rank) * 50 * time.Millisecond) }
		}, func(rank int, r bench.Rank) bench.Rank { return starter{r, &starts[rank]} })
		for rank, o := range outs {
			if o.err != nil {
				c.T.Fatalf("rank %d: %v", rank, o.err)
			}
		}
		for k := range cfg.Iterations {
			first, last := starts[0][k], starts[0][k]
			for _, s := range starts {
				if s[k].Before(first) {
					first = s[k]
				}
				if s[k].After(last) {
					last = s[k]
				}
			}
			out = append(out, last.Sub(first))
		}
	})
	t.Logf("ranks begin %v apart", out)
	return out
}
