package agent

import (
	"sync"
	"testing"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// TestReportOfPeers checks that a report names who sent what to whom: in an allgather by the
// ring, in which each host sends to one, and in an alltoall, several of them in one group.
func TestReportOfPeers(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	c := startHost(t, admit(t, first, "c"), nil, a)
	waitMembers(t, a, b, c)
	hosts := []*testHost{a, b, c, c}
	ranks := joinAll(t, "peers", hosts...)
	all := func(do func(r *client.Rank) (*client.Result, error)) []*apiv1.Report {
		reports := make([]*apiv1.Report, len(ranks))
		var wg sync.WaitGroup
		for i, r := range ranks {
			wg.Go(func() {
				res, err := do(r)
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
					return
				}
				reports[i] = res.Report
				res.Close()
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return reports
	}
	// check compares both ends of each pair, and the sums with the totals.
	check := func(name string, reports []*apiv1.Report, want [][]uint64) {
		t.Helper()
		names := []string{"a", "b", "c"}
		for i, host := range []int{0, 1, 2, 2} {
			sent, received := make([]uint64, 3), make([]uint64, 3)
			var out, in uint64
			for _, p := range reports[i].Peers {
				for j, n := range names {
					if n == p.Host {
						sent[j], received[j] = p.BytesSent, p.BytesReceived
					}
				}
				out, in = out+p.BytesSent, in+p.BytesReceived
			}
			if out != reports[i].BytesSent || in != reports[i].BytesReceived {
				t.Errorf("%s: rank %d: %v is not %d sent and %d received", name, i, reports[i].Peers, reports[i].BytesSent, reports[i].BytesReceived)
			}
			for j := range names {
				if sent[j] != want[host][j] || received[j] != want[j][host] {
					t.Errorf("%s: rank %d on %s and host %s: sent %d, received %d, want %d and %d", name, i, names[host], names[j], sent[j], received[j], want[host][j], want[j][host])
				}
			}
		}
	}
	ring := all(func(r *client.Rank) (*client.Result, error) {
		return r.Allgather(t.Context(), make([]byte, 1000), client.Options{Algorithm: "ring", Timeout: 20 * time.Second})
	})
	// c has two ranks; each host sends on all but the block of its successor.
	check("ring", ring, [][]uint64{{0, 3000, 0}, {0, 0, 2000}, {3000, 0, 0}})
	check("shift", all(func(r *client.Rank) (*client.Result, error) {
		opts := client.AlltoallOptions{Options: client.Options{Algorithm: "shift", Timeout: 20 * time.Second}}
		return r.Alltoall(t.Context(), make([]byte, 4*100), opts)
	}), [][]uint64{{0, 100, 200}, {100, 0, 200}, {200, 200, 0}})
	if empty := all(func(r *client.Rank) (*client.Result, error) {
		return r.Alltoall(t.Context(), nil, client.AlltoallOptions{Options: client.Options{Algorithm: "shift"}})
	}); len(empty[0].Peers) > 0 {
		t.Errorf("nothing was sent, to %v", empty[0].Peers)
	}
}
