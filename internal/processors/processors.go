// Package processors has a process make do with few processors where they are scarce.
//
// A goroutine that becomes ready while a processor of the Go runtime idles wakes a thread to look for work, which mostly comes too late and
// sleeps again. Where the machine idles, that costs nobody anything and is the quickest. Where many agents share a machine, as in a lab,
// these switches are a sixth to a third of what they take of it (docs/design/lanes.md, "What a packet costs").
package processors

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/beat"
)

const (
	// pause is how often is looked.
	pause = time.Second
	// full is the share of its processors that a process uses when it may want more.
	full = 0.7
	// scarceLoad is from which load average on, a processor of the machine, processors are scarce, and plentyLoad below which they are not
	// any more.
	scarceLoad, plentyLoad = 0.5, 0.3
)

// Govern sets how many processors the Go runtime uses, until ctx ends: all that it began with where the machine has processors to spare, else as many as
// the process has used in the last second with some left over, and at least one. It does nothing where the variable GOMAXPROCS
// says how many, or there is but one.
func Govern(ctx context.Context, b beat.Beat, log *slog.Logger) {
	most := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	defer runtime.GOMAXPROCS(most)
	g := governor{most: most, now: most}
	last, at := cpuTime(), time.Now()
	timer := time.NewTimer(b.Next(at, pause))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		used, now := cpuTime(), time.Now()
		if g.look(float64(used-last)/float64(now.Sub(at)), load()/float64(runtime.NumCPU())) {
			log.Debug("processors", "now", g.now, "scarce", g.scarce)
			runtime.GOMAXPROCS(g.now)
		}
		last, at = used, now
		timer.Reset(b.Next(now, pause))
	}
}

// A governor decides how many processors a process uses.
type governor struct {
	most   int
	now    int
	scarce bool
}

// look takes how many processors the process has used, on average, and the load of each of the machine's. It reports whether now is another.
func (g *governor) look(used, load float64) (changed bool) {
	before := g.now
	switch {
	case load >= scarceLoad:
		g.scarce = true
	case load < plentyLoad:
		g.scarce = false
	}
	switch {
	case !g.scarce:
		g.now = g.most
	case used > full*float64(g.now):
		g.now *= 2 // how many more it would use is not seen
	default:
		g.now = max(1, int(math.Ceil(used/full)))
	}
	g.now = min(g.now, g.most)
	return g.now != before
}

// cpuTime returns what the process has taken.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load returns the machine's load average of the last minute; 0 if it is not known.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil || !(v >= 0) {
		return 0
	}
	return v
}
