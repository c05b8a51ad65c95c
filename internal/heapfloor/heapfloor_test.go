package heapfloor

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
)

// goal is how large the heap may grow before the next collection.
func goal() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// resident is what the process has of the machine's memory, in bytes.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestHold(t *testing.T) {
	const held = 64 << 20
	os.Unsetenv("GOGC")
	before, had := goal(), resident(t)
	release := Hold(held)
	with, has := goal(), resident(t)
	release()
	after := goal()
	if with < 2*held || before > held || after > held {
		t.Errorf("goal of the heap: %d, %d with %d held, %d after it", before, with, held, after)
	}
	if has-had > held/8 {
		t.Errorf("%d bytes resident, %d with %d held", had, has, held)
	}
}

func TestHoldMinds(t *testing.T) {
	t.Setenv("GOGC", "100")
	before := goal()
	defer Hold(64 << 20)()
	if with := goal(); with > before+1<<20 {
		t.Errorf("goal of the heap with GOGC set: %d, and %d before", with, before)
	}
}
