package labtest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// promptly is what a lost host may cost the others: 7 to 8.5 s of silence, and the message.
const promptly = 10 * time.Second

// TestAgentKilled ends an agent in the middle of an allgather, and brings it back.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "killed", "testdata/three.yaml")
	c.waitMap(t, "b0")
	const victim = "b1"
	at := c.of()
	out := e2etest.Files(t, len(at))
	ps := c.ranks(t, "allgather", "lost", at, e2etest.Sparse(t, len(at), 2<<20), out)
	c.underWay(t, "a0", "lost", 0)
	c.node(victim).Signal(syscall.SIGKILL)
	began := time.Now()
	for r, p := range ps {
		got := p.Wait(t, promptly-time.Since(began))
		if at[r] == victim {
			if got != e2etest.StatusUnreachable {
				t.Errorf("rank %d, of the killed agent: status %d, want %d", r, got, e2etest.StatusUnreachable)
			}
			e2etest.OneLine(t, p.Stderr.String(), "the agent on this host is gone")
			continue
		}
		if got != e2etest.StatusGroup {
			t.Errorf("rank %d: status %d, want %d", r, got, e2etest.StatusGroup)
		}
		e2etest.OneLine(t, p.Stderr.String(), fmt.Sprintf("rank %d on host %s is lost", slices.Index(at, victim), victim))
	}
	t.Logf("all commands had ended %.1f s after the kill", time.Since(began).Seconds())
	e2etest.NoOutput(t, out)

	c.restart(t, victim)
	c.waitMembers(t, len(at))
	c.allgather(t, "again", 64<<10)
}

// TestPartitionHeals cuts a site off in the middle of an allgather.
func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "partition", "testdata/three.yaml")
	c.waitMap(t, "b0")
	at := c.of()
	out := e2etest.Files(t, len(at))
	ps := c.ranks(t, "allgather", "split", at, e2etest.Sparse(t, len(at), 2<<20), out)
	c.underWay(t, "a1", "split", 1)
	began := time.Now()
	c.must(t, "cut", "A", "C")
	c.must(t, "cut", "B", "C")
	for r, p := range ps {
		if got := p.Wait(t, time.Minute); got != e2etest.StatusGroup {
			t.Errorf("rank %d at %s: status %d, want %d", r, at[r], got, e2etest.StatusGroup)
		}
		e2etest.OneLine(t, p.Stderr.String(), " is lost")
		t.Logf("%s, seen %.1f s after the cut: %s", at[r], time.Since(began).Seconds(), strings.TrimSpace(p.Stderr.String()))
	}
	e2etest.NoOutput(t, out)

	two := []string{"a0", "c0"}
	out = e2etest.Files(t, len(two))
	for r, p := range c.ranks(t, "allgather", "across", two, e2etest.Sparse(t, len(two), 1000), out, "--timeout", "3s") {
		if got := p.Wait(t, 30*time.Second); got != e2etest.StatusGroup {
			t.Errorf("rank %d at %s: status %d, want %d", r, two[r], got, e2etest.StatusGroup)
		}
		// Each is told what its side knows: there the other rank, or the host that was to bring the two
		// together, is missing.
		s := p.Stderr.String()
		e2etest.OneLine(t, s, `job "across"`)
		if !strings.Contains(s, "has not joined") && !strings.Contains(s, "does not answer") {
			t.Errorf("rank %d at %s does not say why: %s", r, two[r], s)
		}
	}

	// Each side finds hosts of the other dead, and none of its own. To find all takes the small side
	// half a minute longer: there are few to agree with.
	sides := [][]string{c.of("A", "B"), c.of("C")}
	for i, side := range sides {
		e2etest.Eventually(t, time.Minute, func() error {
			states := c.states(t, side[0])
			for _, name := range side {
				if states[name] != "alive" {
					t.Fatalf("%s believes of its own side: %v", side[0], states)
				}
			}
			failed := func(name string) bool { return states[name] == "failed" }
			if !slices.ContainsFunc(sides[1-i], failed) {
				return fmt.Errorf("%s believes of the other side: %v", side[0], states)
			}
			return nil
		})
		t.Logf("%s had found a host of the other side failed %.1f s after the cut", side[0], time.Since(began).Seconds())
	}

	c.must(t, "heal", "A", "C")
	c.must(t, "heal", "B", "C")
	healed := time.Now()
	c.waitMembers(t, len(at))
	t.Logf("all saw all %.1f s after the cable was back", time.Since(healed).Seconds())
	c.allgather(t, "healed", 64<<10)
}
