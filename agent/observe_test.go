package agent

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe"
)

// TestObserver: a flow is alone if no other host of the exchange and no other lane of this
// host may have sent the same way.
func TestObserver(t *testing.T) {
	labels := map[string]string{"a0": "A", "a1": "A", "a2": "A", "b0": "B", "b1": "B", "n0": "", "n1": ""}
	for i, tc := range []struct {
		self, peer string
		hosts      []string
		lanes      int // of this host to the peer's site
		sharers    int
	}{
		{"a0", "b0", []string{"a0", "b0", "b1"}, 1, 1},
		{"a0", "b0", []string{"a0", "b0", "b1"}, 2, 2},
		{"a0", "b0", []string{"a0", "a1", "b0"}, 1, 2},
		{"a0", "b0", []string{"a0", "a1", "a2", "b0"}, 2, 6},
		{"a0", "a1", []string{"a0", "a1", "b0"}, 1, 1},
		{"a0", "a1", []string{"a0", "a1", "a2"}, 1, 2},
		{"a0", "a1", []string{"a0", "a1", "a2"}, 3, 3},
		{"n0", "n1", []string{"n0", "n1"}, 1, 1},
		{"a0", "new", []string{"a0", "new"}, 1, 1},
	} {
		var got []probe.Observation
		o := &observer{self: tc.self, labels: func() map[string]string { return labels }, take: func(x probe.Observation) { got = append(got, x) }}
		s := exchange.Sample{
			Exchange: exchange.ID{byte(i)}, Hosts: tc.hosts, Peer: tc.peer, Begin: time.Unix(5, 0), Duration: time.Second,
			Bytes: 7, Limit: exchange.Network, PeerLanes: 1, SiteLanes: tc.lanes, Before: 3, Mean: 4, RTT: time.Millisecond,
		}
		o.observe(s)
		o.observe(s) // from memory
		want := probe.Observation{
			Peer: tc.peer, Bytes: 7, Duration: time.Second, RTT: time.Millisecond, End: time.Unix(6, 0),
			Network: true, Alone: tc.sharers == 1, Sharers: tc.sharers, Before: 3, Mean: 4,
		}
		if tc.lanes > 1 {
			want.Mean = 0 // whether several have fallen is asked of all of them
		}
		if len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s→%s of %v, %d lanes: %+v, want %+v twice", tc.self, tc.peer, tc.hosts, tc.lanes, got, want)
		}
	}
}

// TestPool: of many lanes to a site, one that gets nothing is no news; all of them are.
func TestPool(t *testing.T) {
	for _, tc := range []struct {
		name  string
		bytes func(lane, round int) int64
		low   bool
	}{
		{"all as before", func(lane, round int) int64 { return 10000 }, false},
		{"one after the other gets nothing", func(lane, round int) int64 {
			if lane == round%8 {
				return 0
			}
			return 80000 / 7
		}, false},
		{"all fall to a quarter", func(lane, round int) int64 { return 2500 }, true},
	} {
		var pooled, low int
		o := &observer{self: "a0", labels: func() map[string]string { return map[string]string{"a0": "A"} }, take: func(x probe.Observation) {
			if x.Mean == 0 {
				return
			}
			pooled++
			if float64(x.Bytes)/x.Duration.Seconds() < 0.6*float64(x.Mean) {
				low++
			}
			if x.Before != 0 || !x.Network || x.Duration < time.Second {
				t.Errorf("%s: %+v", tc.name, x)
			}
		}}
		for round := range 20 {
			for lane := range 8 {
				o.observe(exchange.Sample{
					Hosts: []string{"a0", "b0"}, Peer: "b0", Lane: lane, Begin: time.Unix(int64(round), int64(lane)*1e8), Duration: time.Second,
					Bytes: tc.bytes(lane, round), Limit: exchange.Network, PeerLanes: 8, SiteLanes: 8, Mean: 10000,
				})
			}
		}
		if pooled < 15 || (low > 0) != tc.low || tc.low && low != pooled {
			t.Errorf("%s: %d of %d pools are low", tc.name, low, pooled)
		}
	}
}

// TestObserverIsBounded: many exchanges at once, from many goroutines.
func TestObserverIsBounded(t *testing.T) {
	var mu sync.Mutex
	n := 0
	o := &observer{self: "a", labels: func() map[string]string { return nil }, take: func(probe.Observation) { mu.Lock(); n++; mu.Unlock() }}
	var wg sync.WaitGroup
	for i := range 10 * maxCrowds {
		wg.Go(func() {
			o.site(fmt.Sprint("h", i))
			o.observe(exchange.Sample{Exchange: exchange.ID{byte(i), byte(i >> 8)}, Hosts: []string{"a", "b"}, Peer: "b", Duration: 1})
		})
	}
	wg.Wait()
	if n != 10*maxCrowds || len(o.crowds) > maxCrowds {
		t.Errorf("%d samples taken of %d, %d exchanges remembered, at most %d are to be", n, 10*maxCrowds, len(o.crowds), maxCrowds)
	}
}
