package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Options say what the demo runs.
type Options struct {
	// Grid is the emulated network, in the human form of a grid file.
	Grid *gridfile.Grid
	// Size is what each rank contributes, in bytes; there is one rank a host.
	Size int64
	// Algorithms run one after the other.
	Algorithms []string
	// Dir takes the agents' state; it is emptied by the caller.
	Dir string
	// Seed seeds the payload and the network's losses.
	Seed uint64
	// Progress, if not nil, is told what is being done, and how much of it: done of
	// total, or 0 of 0 where that cannot be said.
	Progress func(stage string, done, total int)
	// Run, if not nil, is told of each finished run.
	Run func(Run)
	// Tree, if not nil, is told of the pool tree that the agents agreed on.
	Tree func(*pools.Tree)
	// Log receives what the agents log. Nil discards.
	Log *slog.Logger
}

// A Run is one allgather.
type Run struct {
	Algorithm string  `json:"algorithm"`
	Seconds   float64 `json:"seconds"` // from the moment when the last rank was ready to the last rank's completion
	// Bound is the least time that any schedule could take over the links as the grid
	// file declares them, headers not counted.
	Bound    float64          `json:"bound_seconds"`
	Ratio    float64          `json:"bound_ratio"`
	WANBytes map[string]int64 `json:"wan_bytes"` // IP bytes over each WAN link, "FROM→TO", by the emulator's counters
	Verified bool             `json:"verified"`  // every rank holds every block, byte for byte
	// Late is the share of the time, 0 to 1, for which this machine was too busy to
	// deliver the emulated packets in time. Much of it makes Seconds too long.
	Late  float64 `json:"late_share"`
	Error string  `json:"error,omitempty"`
}

// A Report is what the demo found.
type Report struct {
	Runs  []Run           `json:"runs"`
	Pools json.RawMessage `json:"pools"` // as gridagent pools -o json prints it
	// Why says what binds the bound.
	Why   string `json:"bound"`
	Hosts int    `json:"hosts"`
	Size  int64  `json:"size_bytes"`
	// SetupSeconds is the time from the first agent's start to a map of all pairs.
	SetupSeconds float64 `json:"setup_seconds"`
}

// ErrNotVerified means that a rank got wrong bytes, or none.
var ErrNotVerified = errors.New("not every rank got the right bytes")

// Execute runs the demo in real time. The report holds the runs that ended, also when
// there is an error; a run that the end of ctx broke off is none of them.
func Execute(ctx context.Context, opts Options) (report *Report, err error) {
	return execute(ctx, opts, true)
}

// execute is Execute; without realTime it needs a synctest bubble.
func execute(ctx context.Context, opts Options, realTime bool) (report *Report, err error) {
	if opts.Progress == nil {
		opts.Progress = func(string, int, int) {}
	}
	report = &Report{Size: opts.Size}
	bound, why, err := declaredBound(opts.Grid, opts.Size)
	if err != nil {
		return report, err
	}
	report.Why = why
	begun := time.Now()
	g, err := grid.Start(ctx, grid.Config{Grid: opts.Grid, Dir: opts.Dir, Seed: opts.Seed, RealTime: realTime, Log: opts.Log})
	if err != nil {
		return report, err
	}
	defer func() {
		opts.Progress("agents leave", 0, 0)
		if closeErr := g.Close(); err == nil {
			err = closeErr
		}
	}()
	report.Hosts = len(g.Hosts)
	if err := settle(ctx, g, opts.Progress); err != nil {
		return report, err
	}
	report.SetupSeconds = time.Since(begun).Seconds()
	tree, err := poolTree(g)
	if err != nil {
		return report, err
	}
	if report.Pools, err = json.Marshal(tree); err != nil {
		return report, err
	}
	if opts.Tree != nil {
		opts.Tree(tree)
	}
	blocks := payload(opts.Seed, len(g.Hosts), opts.Size)
	for _, alg := range opts.Algorithms {
		opts.Progress("allgather by "+alg, 0, 0)
		run := allgather(ctx, g, alg, blocks)
		if !run.Verified && ctx.Err() != nil {
			return report, ctx.Err() // interrupted, which is no failure of the algorithm
		}
		run.Bound = bound
		if bound > 0 {
			run.Ratio = run.Seconds / bound
		}
		report.Runs = append(report.Runs, run)
		if opts.Run != nil {
			opts.Run(run)
		}
		if !run.Verified {
			return report, fmt.Errorf("%s: %w: %s", alg, ErrNotVerified, run.Error)
		}
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
	}
	return report, nil
}

// declaredBound bounds the allgather over the network as the file declares it: stricter
// than over what was measured, which leaves out what headers take.
func declaredBound(g *gridfile.Grid, size int64) (seconds float64, why string, err error) {
	snap, err := g.Snapshot()
	if err != nil {
		return 0, "", err
	}
	// One pool a site: the links of the file join sites, whatever their rates are.
	bySite := make(map[string]int)
	var sets [][]int
	sizes := make([]int64, snap.N())
	for i, h := range snap.Hosts() {
		s, ok := bySite[h.Site]
		if !ok {
			s = len(sets)
			bySite[h.Site] = s
			sets = append(sets, nil)
		}
		sets[s] = append(sets[s], i)
		sizes[i] = size
	}
	b, err := plan.SnapshotBound(snap, sets, sizes)
	if err != nil {
		return 0, "", err
	}
	return b.Seconds, b.Explain(snap.Names(), sets), nil
}

// settleTimeout is how long the agents may take to find each other and to measure. On
// the paper's grid they need about 10 s.
const settleTimeout = 60 * time.Second

// settle waits until every agent sees every other and has a map of all pairs.
func settle(ctx context.Context, g *grid.Grid, progress func(string, int, int)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleTimeout, fmt.Errorf("the agents have not settled within %v", settleTimeout))
	defer cancel()
	n := len(g.Hosts)
	stages := []struct {
		name  string
		total int // of all agents together
		at    func(h *grid.Host) int
	}{
		{"agents find each other", n * n, func(h *grid.Host) int { return h.Agent.Alive() }},
		{"agents measure the network", n * n * (n - 1), func(h *grid.Host) int {
			measured, predicted, _ := h.Agent.Coverage()
			return measured + predicted
		}},
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for _, s := range stages {
		for {
			done := 0
			for i := range g.Hosts {
				done += s.at(&g.Hosts[i])
			}
			progress(s.name, done, s.total)
			if done >= s.total {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %d of %d: %w", s.name, done, s.total, context.Cause(ctx))
			case <-tick.C:
			}
		}
	}
	return nil
}

// poolTree returns the tree as the first host builds it.
func poolTree(g *grid.Grid) (*pools.Tree, error) {
	hosts := make([]netmap.Host, len(g.Hosts))
	for i, h := range g.Hosts {
		hosts[i] = netmap.Host{Name: h.Name, Site: h.Site}
	}
	return pools.Build(netmap.Predict(g.Hosts[0].Agent.Map().Snapshot(hosts, time.Now())), pools.Config{})
}

// payload makes each rank's block: random, so that no two are alike and none compresses.
func payload(seed uint64, ranks int, size int64) [][]byte {
	blocks := make([][]byte, ranks)
	for r := range blocks {
		var key [32]byte
		key[0], key[1], key[2] = byte(r), byte(r>>8), byte(r>>16)
		for i := range 8 {
			key[8+i] = byte(seed >> (8 * i))
		}
		blocks[r] = make([]byte, size)
		rand.NewChaCha8(key).Read(blocks[r])
	}
	return blocks
}

// allgather runs one allgather, a rank on each host, and checks every byte.
func allgather(ctx context.Context, g *grid.Grid, alg string, blocks [][]byte) Run {
	ranks := make([]int, len(blocks))
	for r := range ranks {
		ranks[r] = r
	}
	before := g.Net.Stats()
	busy := startWatch()
	outcomes := g.Allgather(ctx, "demo-"+alg, ranks, blocks, client.Options{Algorithm: alg})
	after := g.Net.Stats()
	run := Run{Algorithm: alg, WANBytes: make(map[string]int64), Verified: true, Late: busy.done()}
	for i, l := range after.Links {
		run.WANBytes[l.From+"→"+l.To] = int64(l.Delivered.Bytes - before.Links[i].Delivered.Bytes)
	}
	want := bytes.Join(blocks, nil)
	for r, o := range outcomes {
		run.Seconds = max(run.Seconds, o.Took.Seconds())
		switch {
		case o.Err != nil:
			run.Verified, run.Error = false, fmt.Sprintf("rank %d: %v", r, o.Err)
		case !bytes.Equal(o.Result, want):
			run.Verified, run.Error = false, fmt.Sprintf("rank %d got wrong bytes", r)
		}
	}
	return run
}

// TempDir makes a folder for the agents' state, and a function that removes it.
func TempDir() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "gridagent-demo-"); err != nil {
		return "", nil, fmt.Errorf("folder for the agents' state: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}
