package labtest

import (
	"strings"
	"testing"
	"time"
)

// TestNoUDP makes a cluster of sites between which firewalls let TCP pass only, and has UDP let through later.
func TestNoUDP(t *testing.T) {
	t.Parallel()
	const file = "testdata/three.yaml"
	l := up(t, "noudp", file)
	pairs := [][]string{{"A", "B"}, {"A", "C"}, {"B", "C"}}
	for _, p := range pairs {
		l.must(t, "set", append(p, "--block-udp")...)
	}
	c := newClusterIn(t, l, file, func(*node) {})
	c.allgather(t, "without", 64<<10)
	if s := succeed(t, c.client(t, "a0", "status")); !strings.Contains(s, "UDP does not get through") {
		t.Errorf("status says nothing of it:\n%s", s)
	}
	time.Sleep(10 * time.Second) // lost hosts are found within that
	for _, at := range []string{"a0", "c0"} {
		for name, state := range c.states(t, at) {
			if state != "alive" {
				t.Errorf("%s takes %s for %s", at, name, state)
			}
		}
	}
	for _, p := range pairs {
		l.must(t, "set", append(p, "--block-udp=false")...)
	}
	deadline := time.Now().Add(90 * time.Second)
	for strings.Contains(succeed(t, c.client(t, "a0", "status")), "UDP does not get through") {
		if time.Now().After(deadline) {
			t.Fatal("still without UDP 90 s after it was let through")
		}
		time.Sleep(time.Second)
	}
	c.allgather(t, "with", 64<<10)
}
