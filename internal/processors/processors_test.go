package processors

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/beat"
)

func TestLook(t *testing.T) {
	g := governor{most: 8, now: 8}
	for i, c := range []struct {
		used, load float64
		want       int
		changed    bool
	}{
		{0.1, 0.1, 8, false},  // the machine idles
		{0.1, 0.45, 8, false}, // not yet
		{0.1, 0.6, 1, true},   // it does not
		{0.5, 0.4, 1, false},  // half of it still is scarce
		{0.8, 0.4, 2, true},   // more than one would be used
		{1.9, 0.9, 4, true},
		{3.9, 0.9, 8, true},
		{8.5, 0.9, 8, false}, // there are no more
		{2.5, 0.9, 4, true},
		{0, 0.9, 1, true},
		{0, 0.2, 8, true}, // plenty again
	} {
		if changed := g.look(c.used, c.load); g.now != c.want || changed != c.changed {
			t.Fatalf("look %d, %v used at load %v: %d processors, changed %v; want %d, %v", i, c.used, c.load, g.now, changed, c.want, c.changed)
		}
	}
}

// Whatever is seen, there is a processor, never more than there are, and who can use all of them gets them within a few looks.
func TestLookNeverStarves(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		most := 1 + rng.IntN(128)
		g := governor{most: most, now: most}
		for range 100 {
			g.look(rng.Float64()*float64(g.now), rng.Float64()*2)
			if g.now < 1 || g.now > most {
				t.Fatalf("seed %d: %d of %d processors", seed, g.now, most)
			}
		}
		for range 8 {
			g.look(float64(g.now), 2)
		}
		if g.now != most {
			t.Fatalf("seed %d: who uses all that it has got %d of %d", seed, g.now, most)
		}
	}
}

// TestGovern: the numbers of the system are read, and what was is put back.
func TestGovern(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	at := cpuTime()
	for spin := time.Now(); time.Since(spin) < 50*time.Millisecond; {
	}
	if d := cpuTime() - at; d <= 0 || d > 10*time.Second {
		t.Errorf("%v of CPU time were taken in 50 ms", d)
	}
	if l := load(); !(l >= 0 && l < 1e5) {
		t.Errorf("load %v", l)
	}
	Govern(ctx, beat.Of("x"), slog.New(slog.DiscardHandler))
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d processors are left of %d", now, before)
	}
}
