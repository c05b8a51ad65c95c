package gridtest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// patience is how much wall time a bubble gets. A goroutine that spins, or waits for
// something outside, stops the bubble's clock and with it every time-out inside. With the
// race detector on two busy cores the slowest test takes a tenth of it.
const patience = 6 * time.Minute

// Config says what to run a test on.
type Config struct {
	// Grid is the network, in the human form. Required.
	Grid *gridfile.Grid
	// Seed seeds losses and the content of blocks. Zero is a seed like any other.
	Seed uint64
	// Limit is the virtual time that the test may take. Zero means 30 min.
	Limit time.Duration
	// Agent changes the options of an agent before it starts. Nil changes nothing.
	Agent func(*agent.Options)
	// PathMTU is that of [grid.Config].
	PathMTU bool
	// Patience is how much wall time the test may take. Zero means 6 min.
	Patience time.Duration
	// Early gives the grid to the test without waiting for members and map.
	Early bool
}

// A Cluster is the running grid of one test.
type Cluster struct {
	*grid.Grid
	T   *testing.T      // of the bubble
	Ctx context.Context // ends after Config.Limit
	cfg Config
	rng *rand.Rand
}

// Run runs f in a bubble on a grid all of whose agents know each other and the map. When
// f has returned it closes the grid and checks that nothing is left.
func Run(t *testing.T, cfg Config, f func(c *Cluster)) {
	t.Helper()
	name, dir := t.Name(), t.TempDir()
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	watchdog := time.AfterFunc(cfg.Patience, func() {
		panic(fmt.Sprintf("%s: the bubble did not end within %v of wall time: its clock stands still", name, cfg.Patience))
	})
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) { run(t, cfg, dir, f) })
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "spool", "*.blk")); len(left) > 0 { // the pattern is good
		t.Errorf("left in spool folders: %q", left)
	}
}

func run(t *testing.T, cfg Config, dir string, f func(c *Cluster)) {
	if cfg.Limit == 0 {
		cfg.Limit = 30 * time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), cfg.Limit, fmt.Errorf("the test took over %v of virtual time", cfg.Limit))
	defer cancel()
	g, err := grid.Start(ctx, grid.Config{Grid: cfg.Grid, Dir: dir, Seed: cfg.Seed, PathMTU: cfg.PathMTU, Agent: cfg.Agent, Log: log()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Errorf("agents end: %v", err)
		}
	}()
	c := &Cluster{Grid: g, T: t, Ctx: ctx, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x67726964))}
	if !cfg.Early {
		c.Settle()
	}
	f(c)
}

// log is for the person who looks for the reason of a failure.
func log() *slog.Logger {
	if os.Getenv("GRIDTEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Settle waits until every agent sees all others and knows, or can predict, every pair.
func (c *Cluster) Settle() {
	c.T.Helper()
	if err := c.WaitMembers(c.Ctx); err != nil {
		c.T.Fatalf("members: %v", err)
	}
	if err := c.WaitMap(c.Ctx); err != nil {
		c.T.Fatalf("map: %v", err)
	}
}

// Map returns what the first host's agent knows of all pairs.
func (c *Cluster) Map() *netmap.Snapshot {
	hosts := make([]netmap.Host, len(c.Hosts))
	for i, h := range c.Hosts {
		hosts[i] = netmap.Host{Name: h.Name, Site: h.Site}
	}
	return c.Hosts[0].Agent.Map().Snapshot(hosts, time.Now())
}

// Load reads a grid file.
func Load(t testing.TB, path string) *gridfile.Grid {
	t.Helper()
	g, err := gridfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Sites returns a grid of sites a, b, c … with the given numbers of hosts, each pair of
// which is joined by a link of the given rate ("2Mbps") and one-way latency ("20ms") in
// each direction.
func Sites(t testing.TB, rate, latency string, hosts ...int) *gridfile.Grid {
	t.Helper()
	text := "sites:\n"
	for i, n := range hosts {
		text += fmt.Sprintf("  - {name: %c, hosts: %d, lan: {bandwidth: 100Mbps, latency: 60us}}\n", 'a'+i, n)
	}
	wan := ""
	for i := range hosts {
		for j := i + 1; j < len(hosts); j++ {
			wan += fmt.Sprintf("  - {from: %c, to: %c, bandwidth: %s, latency: %s, both: true}\n", 'a'+i, 'a'+j, rate, latency)
		}
	}
	if wan != "" {
		text += "wan:\n" + wan
	}
	g, err := gridfile.Parse("grid of "+t.Name(), []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return g
}
