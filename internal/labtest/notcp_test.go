package labtest

import (
	"strings"
	"testing"
	"time"
)

// TestNoTCP: two sites with a fast link, over which data would go over TCP, and a firewall that lets UDP pass only. No exchange waits for TCP.
func TestNoTCP(t *testing.T) {
	t.Parallel()
	const file = "testdata/cheaper.yaml"
	l := up(t, "notcp", file)
	l.must(t, "set", "A", "B", "--block-tcp")
	c := newClusterIn(t, l, file, func(*node) {})
	c.says(t, "TCP does not get through", 2*time.Minute)
	if slow := c.allgather(t, "without", 64<<10); slow > 1.5 {
		t.Errorf("it took %.2f s, as if it had waited for TCP", slow)
	}
	l.must(t, "set", "A", "B", "--block-tcp=false")
	c.says(t, "cheaper", 3*time.Minute) // it is tried again a minute after the first time, and two after that
	c.allgather(t, "with", 64<<10)
}

// says waits until the status of a host of A says words of its lanes.
func (c *cluster) says(t *testing.T, words string, limit time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		s := succeed(t, c.client(t, "a0", "status"))
		if strings.Contains(s, words) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not %q within %v:\n%s", words, limit, s)
		}
		time.Sleep(time.Second)
	}
}
