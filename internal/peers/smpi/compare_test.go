package smpi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// find skips the test where SimGrid is not installed.
func find(t *testing.T) (context.Context, *Tool) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles MPI programs")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	tool, err := Find(ctx)
	if errors.Is(err, ErrMissing) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v; CI must have it: scripts/mpi simgrid", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ctx, tool
}

// agreement is how far two predictions may lie apart. SMPI adds 16 bytes to a message, which is
// 0.024 % of 64 KiB; the rest is what the package documentation says of ports and latencies.
const agreement = 0.0006

// disagreement says what of a row is further apart than band, or is missing.
func disagreement(r Row, band float64) string {
	if r.Error != "" {
		return r.Error
	}
	if math.Abs(r.Queued/r.Plan.Seconds-1) > band {
		return fmt.Sprintf("simulated %v s, SimGrid %v s", r.Queued, r.Plan.Seconds)
	}
	if r.Own != nil && math.Abs(r.InStep/r.Own.Seconds-1) > band {
		return fmt.Sprintf("simulated in step %v s, SMPI's %s %v s", r.InStep, r.Own.Algorithm, r.Own.Seconds)
	}
	return ""
}

// TestAgreement: plan.Simulate and SimGrid predict the same, of plans of ours and of SMPI's own code.
func TestAgreement(t *testing.T) {
	ctx, tool := find(t)
	for _, tt := range []struct {
		world      *World
		collective plan.Collective
		algorithms string
		own        int // algorithms that SMPI has too
	}{
		{world(t, "paper-3site.yaml"), plan.Allgather, "spreading-simple broadcast-trees", 1},
		{world(t, "paper-3site-held.yaml"), plan.Alltoall, "group-shuffle", 0},
		{tree(t), plan.Allgather, "neighbour-exchange", 1},
	} {
		b, err := tool.NewBench(ctx, t.TempDir(), tt.world)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := Compare(ctx, b, tt.world, tt.collective, 65536, Even, strings.Fields(tt.algorithms)...)
		if err != nil {
			t.Fatal(err)
		}
		own := 0
		for _, r := range rows {
			if wrong := disagreement(r, agreement); wrong != "" {
				t.Errorf("%s, %s %s: %s", tt.world.Name, r.Collective, r.Algorithm, wrong)
				continue
			}
			if r.Own == nil {
				continue
			}
			own++
			if r.Own.Version != tool.Version() || r.Own.Grid != tt.world.Name || r.Own.Bytes != 65536 || r.Own.Plan || !r.Plan.Plan {
				t.Errorf("records %+v and %+v", r.Own, r.Plan)
			}
		}
		if len(rows) != len(strings.Fields(tt.algorithms)) || own != tt.own {
			t.Errorf("%s: %d rows, %d with SMPI's own, want %d", tt.world.Name, len(rows), own, tt.own)
		}
		var out strings.Builder
		if err := WriteTable(&out, rows, []Record{{Algorithm: "x", Error: "refused"}}); err != nil || !strings.Contains(out.String(), rows[0].Algorithm) || !strings.Contains(out.String(), "refused") {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}

// TestRandomWorlds: they do so on random switch trees, and on random grids of short latency, where the
// message of a random size goes through ports, shared links and ceilings for each flow.
func TestRandomWorlds(t *testing.T) {
	ctx, tool := find(t)
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 0))
		w, text := randomWorld(t, rng)
		b, err := tool.NewBench(ctx, t.TempDir(), w)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		c := []plan.Collective{plan.Allgather, plan.Alltoall}[rng.IntN(2)]
		names := []string{"ring", "spreading-simple", "bruck"}
		size := 100_000 + rng.Int64N(400_000)
		rows, err := Compare(ctx, b, w, c, size, Even, names[rng.IntN(len(names))])
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if wrong := disagreement(rows[0], agreement); wrong != "" {
			t.Errorf("seed %d: %s of %d bytes by %s: %s\n%s", seed, c, size, rows[0].Algorithm, wrong, text)
		}
	}
}

func randomWorld(t *testing.T, rng *rand.Rand) (*World, string) {
	t.Helper()
	var text strings.Builder
	file, load := "grid.yaml", LoadGrid
	if rng.IntN(2) == 0 {
		file, load = "tree.json", LoadTopology
		switches := 1 + rng.IntN(4)
		var names, links, hosts []string
		for s := range switches {
			if names = append(names, fmt.Sprintf(`"s%d"`, s)); s > 0 {
				links = append(links, fmt.Sprintf(`["s%d", "s%d"]`, rng.IntN(s), s))
			}
		}
		for h := range 2 + rng.IntN(8) {
			hosts = append(hosts, fmt.Sprintf(`"h%d": "s%d"`, h, rng.IntN(switches)))
		}
		fmt.Fprintf(&text, `{"switches": [%s], "links": [%s], "hosts": {%s}, "bandwidth_mbps": 100}`,
			strings.Join(names, ", "), strings.Join(links, ", "), strings.Join(hosts, ", "))
	} else {
		sites := 2 + rng.IntN(2)
		text.WriteString("sites:\n")
		for s := range sites {
			fmt.Fprintf(&text, "  - {name: S%d, hosts: %d, lan: {bandwidth: %dMbps, latency: %dus}}\n", s, 1+rng.IntN(4), 50+rng.IntN(300), rng.IntN(200))
		}
		text.WriteString("wan:\n")
		for a := range sites {
			for b := range sites {
				if flow := 2 + rng.IntN(30); a != b {
					fmt.Fprintf(&text, "  - {from: S%d, to: S%d, bandwidth: %dMbps, capacity: %dMbps, latency: %dus}\n", a, b, flow, flow*(1+rng.IntN(3)), rng.IntN(500))
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := load(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return w, text.String()
}

// TestDisagreement: two networks of which one has a link that is 1 % slower are told apart.
func TestDisagreement(t *testing.T) {
	ctx, tool := find(t)
	g, err := gridfile.Load("../../../configs/grids/paper-3site.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.WAN {
		if g.WAN[i].From == 2 && g.WAN[i].To == 0 { // the ring's bottleneck, NTH→UT
			g.WAN[i].Bandwidth *= 0.99
			g.WAN[i].Capacity = g.WAN[i].Bandwidth
		}
	}
	w := world(t, "paper-3site.yaml")
	if w.Platform, err = ofGrid(g); err != nil {
		t.Fatal(err)
	}
	b, err := tool.NewBench(ctx, t.TempDir(), w)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Compare(ctx, b, w, plan.Allgather, 65536, Even, "ring")
	if err != nil {
		t.Fatal(err)
	}
	if wrong := disagreement(rows[0], agreement); !strings.Contains(wrong, "simulated") {
		t.Errorf("a link that is 1 %% slower goes unnoticed: %q, %+v", wrong, rows[0])
	}
}

func tree(t *testing.T) *World {
	t.Helper()
	w, err := LoadTopology("testdata/tree.json")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestTCP: the corrections of LV08 make everything slower, by 13.01 latencies instead of one.
func TestTCP(t *testing.T) {
	ctx, tool := find(t)
	w := world(t, "paper-3site.yaml")
	b, err := tool.NewBench(ctx, t.TempDir(), w)
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Collective(ctx, TCP, plan.Allgather, "NTSLR", 65536)
	if err != nil {
		t.Fatal(err)
	}
	// The ring's 19 steps over the slowest link, from NTH to UT: 1.16 Mbit/s and 50 ms.
	want := 19 * (13.01*0.05 + 65536*8/(0.97*1.16e6))
	if math.Abs(r.Seconds/want-1) > 0.001 {
		t.Errorf("the ring takes %v s, want %v", r.Seconds, want)
	}
}

func TestRunErrors(t *testing.T) {
	ctx, tool := find(t)
	w := world(t, "paper-3site.yaml")
	b, err := tool.NewBench(ctx, t.TempDir(), w)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := b.Collective(ctx, Even, plan.Allgather, "none-such", 1); err == nil || !strings.Contains(r.Error, "no algorithm 'none-such'") {
		t.Errorf("an unknown algorithm: %v", err)
	}
	if _, err := b.Collective(ctx, Even, plan.Alltoall, "pair", 1); err == nil || !strings.Contains(err.Error(), "power of two") {
		t.Errorf("20 ranks for an algorithm of powers of two: %v", err)
	}
	if _, err := b.Collective(ctx, Even, plan.Alltoall, "ring", maxBlock+1); err == nil {
		t.Error("a block that is too large is taken")
	}
	other, err := baseline.Ring([]string{"a", "b"}, []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Plan(ctx, Even, other); err == nil {
		t.Error("a plan over other hosts is taken")
	}
	v, err := baseline.Ring(w.Platform.hosts, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Plan(ctx, Even, v); err == nil || !strings.Contains(err.Error(), "different sizes") {
		t.Errorf("blocks of different sizes: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Compare(short, b, w, plan.Allgather, 1, Even, "ring"); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(ctx); !errors.Is(err, ErrMissing) {
		t.Errorf("without programs: %v", err)
	}
}
