package exchange

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestSharing: how many pairs of hosts are taken to share a way. Of an alltoall whose hosts do not send to all of a site they are those
// that fill the link, however many hosts the sites have.
func TestSharing(t *testing.T) {
	flow := Path{RTT: 100 * time.Millisecond, Rate: 1e5}
	held := Path{RTT: 100 * time.Millisecond, Rate: 1e5, Capacity: 8e5}
	for _, c := range []struct {
		name               string
		op                 plan.Collective
		here, there, peers int
		path               Path
		want               int
	}{
		{"bridges of a small site", plan.Alltoall, 4, 8, 2, held, 8},
		{"bridges of a large site", plan.Alltoall, 20, 16, 1, held, 10},
		{"few flows fill the link", plan.Alltoall, 20, 16, 1, Path{RTT: time.Second, Rate: 1e5, Capacity: 3e5}, 8},
		{"to all hosts", plan.Alltoall, 8, 8, 8, held, 64},
		{"one flow fills the link", plan.Alltoall, 20, 16, 1, flow, 20},
		{"nothing is known", plan.Alltoall, 20, 16, 1, Path{}, 20},
		{"an allgather", plan.Allgather, 20, 16, 1, held, 20},
		{"nobody", plan.Alltoall, 3, 3, 0, flow, 3},
	} {
		x := &run{eng: &Engine{cfg: Config{Self: "a0", Site: func(host string) string { return host[:1] }}},
			part: &Part{Collective: c.op}, peers: make(map[string]*peer)}
		for i := range c.here {
			x.part.Hosts = append(x.part.Hosts, fmt.Sprint("a", i))
		}
		for i := range c.there {
			x.part.Hosts = append(x.part.Hosts, fmt.Sprint("b", i))
		}
		x.sites = sitesOf(x.part.Hosts, "a0", x.eng.cfg.Site)
		for i, name := range x.part.Hosts {
			if strings.HasPrefix(name, "b") && i-c.here < c.peers {
				x.peers[name] = &peer{name: name, sends: []*send{{}}, path: c.path}
			}
		}
		p := x.peers["b0"]
		if p == nil {
			p = &peer{name: "b0", path: c.path}
		}
		if got := x.sharing(p); got != c.want {
			t.Errorf("%s: %d pairs, want %d", c.name, got, c.want)
		}
	}
}

// A countedStream is a fake stream whose connection counts.
type countedStream struct {
	*fakeStream
	stats quic.ConnectionStats
}

func (s countedStream) Stats() quic.ConnectionStats { return s.stats }

// TestOpenedBesideLook: lanes open while others find out how much their path loses. It is the race detector's.
func TestOpenedBesideLook(t *testing.T) {
	x := loneRun(t)
	defer x.cancel(nil)
	p := x.peers["host1"]
	stream := func() Stream {
		s, _ := fakePair(1)
		return countedStream{s, quic.ConnectionStats{MinRTT: time.Millisecond, PacketsSent: 1000, PacketsLost: 10}}
	}
	x.opened(p, 1, stream(), "", nil)
	x.mu.Lock()
	p.win = x.tapOf(p, Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1}, "")
	x.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		p.look()
	})
	wg.Go(func() { x.opened(p, 2, stream(), "", nil) })
	wg.Wait()
	if p.path.Loss != 0.01 {
		t.Errorf("a look found that the path loses %v", p.path.Loss)
	}
}
