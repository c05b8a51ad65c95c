package lane

import (
	"testing"
	"time"
)

// Of what waits behind a lost segment nothing can be read, and then all at once. What is counted comes evenly.
func TestTCPArrivalsBehindALoss(t *testing.T) {
	const segment = 1448
	for _, c := range []struct {
		name string
		now  arrivals
		want uint64
	}{
		{"in order", arrivals{read: 10 * segment, segs: 10, segment: segment}, 10 * segment},
		{"the third is lost", arrivals{read: 2 * segment, segs: 9, early: 7, segment: segment}, 9 * segment},
		{"others still wait", arrivals{read: 0, segs: 20, early: 20, segment: segment}, 20 * segment},
		{"it comes again, alone", arrivals{read: 101 * segment, segs: 1, segment: segment}, segment},
		{"it comes again, with others", arrivals{read: 111 * segment, segs: 11, segment: segment}, 11 * segment},
		{"words of 20 bytes", arrivals{read: 40 * 20, segs: 40, segment: segment}, 40 * 20},
		{"nothing", arrivals{segment: segment}, 0},
	} {
		const wrapped = 1<<32 - 5 // counters of segments go round
		before := arrivals{read: 1 << 40, segs: wrapped, early: wrapped, segment: 536}
		now := c.now
		now.read, now.segs, now.early = now.read+before.read, now.segs+before.segs, now.early+before.early
		if got := now.since(before); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

// What has come and nobody has read counts; what a connection has brought stays counted when it ends.
func TestTCPArrivals(t *testing.T) {
	plain, fast := tcpPair(t)
	c := &tcpConn{raw: fast, peer: Peer{Name: "b"}}
	var lanes tcpLanes
	if !lanes.add(c) {
		t.Fatal("refused")
	}
	const n = 30_000
	if _, err := plain.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); lanes.arrived("b") != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes have arrived, want %d", lanes.arrived("b"), n)
		}
	}
	if got := c.received.Load(); got != 0 {
		t.Errorf("%d bytes read", got)
	}
	lanes.remove(c)
	if got := lanes.arrived("b"); got != n {
		t.Errorf("%d bytes after its end, want %d", got, n)
	}
}
