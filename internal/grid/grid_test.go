package grid

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func TestThreeSites(t *testing.T) {
	gf, err := gridfile.Load("../../configs/grids/paper-3site.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		start := time.Now()
		g, err := Start(ctx, Config{Grid: gf, Dir: dir, Seed: 1, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if err := g.WaitMembers(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("members after %v", time.Since(start))
		if err := g.WaitMap(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("map after %v", time.Since(start))
		ranks := make([]int, len(g.Hosts))
		blocks := make([][]byte, len(ranks))
		rng := rand.New(rand.NewPCG(1, 2))
		for r := range ranks {
			ranks[r] = r
			blocks[r] = make([]byte, 64<<10)
			for i := range blocks[r] {
				blocks[r][i] = byte(rng.Uint32())
			}
		}
		want := bytes.Join(blocks, nil)
		for _, alg := range []string{"min3", "magpie", "ring"} {
			var worst time.Duration
			for r, o := range g.Allgather(ctx, "job", ranks, blocks, client.Options{Algorithm: alg}) {
				if o.Err != nil {
					t.Fatalf("%s rank %d: %v", alg, r, o.Err)
				}
				if !bytes.Equal(o.Result, want) {
					t.Fatalf("%s rank %d: wrong bytes", alg, r)
				}
				worst = max(worst, o.Took)
			}
			t.Logf("%s: %v", alg, worst)
		}
	})
}
