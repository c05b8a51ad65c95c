package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/internal/treetest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// measureLanes: what one host's block to another takes in over so many lanes, of what the link could carry if it had no headers, the handshakes of all but
// the first lane and the last byte included.
func measureLanes(t *testing.T, r *Reading) {
	var rate, loss float64
	var lanes int
	if _, err := fmt.Sscanf(r.Cell.Network, "%fMbps-%f%%-%dlanes", &rate, &loss, &lanes); err != nil {
		t.Fatalf("network %q: %v", r.Cell.Network, err)
	}
	const delay = 50 * time.Millisecond
	net := gridtest.Pair(gridnet.Link{Rate: gridnet.Rate(rate * float64(gridnet.Mbps)), Latency: delay, Loss: loss / 100})
	net.Seed = r.Cell.Seed
	p, err := baseline.Ring([]string{net.Sites[0].Hosts[0], net.Sites[1].Hosts[0]}, []int64{r.Cell.Size, 0})
	if err != nil {
		t.Fatal(err)
	}
	link := netmap.BytesPerSec(rate*payload) * netmap.Mbps // as a map says it
	path := exchange.Path{RTT: 2 * delay, Rate: link}
	if loss > 0 { // what one flow gets then does not matter for a number that is given, only for its windows
		path = exchange.Path{RTT: 2 * delay, Rate: link / 12, Capacity: link, Loss: loss / 100}
	}
	cfg := treetest.Config{Net: net, Lanes: lanes, Path: func(string, string) exchange.Path { return path }}
	treetest.Run(t, cfg, func(cl *treetest.Cluster) {
		got := cl.Run(p)
		took := got.Makespan.Seconds()
		r.Makespans, r.Lost, r.Bound = []float64{took}, []int{got.Lost}, float64(r.Cell.Size)/(rate*1e6/8)
		r.Checks = append(r.Checks, Check{What: "share of the link", Value: share(float64(r.Cell.Size)/took, rate), Least: true})
	})
}

// TestLanesShare: headers are no part of the share, so that it is never above what they leave of a link without losses.
func TestLanesShare(t *testing.T) {
	if gridtest.Race {
		t.Skip("22 MiB: run without the race detector, which multiplies its CPU time by ten")
	}
	r := Reading{Cell: Cell{Row: Lanes, Network: "20Mbps-0%-4lanes", Size: 22 * mib, Runs: 1}}
	measureLanes(t, &r)
	if len(r.Checks) != 1 || r.Checks[0].Value > payload || r.Checks[0].Value < 0.9*payload {
		t.Errorf("%+v: want at most %.3f, and nearly that", r.Checks, payload)
	}
}
