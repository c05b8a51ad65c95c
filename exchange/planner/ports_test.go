package planner

import (
	"math"
	"slices"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestPortsUnderALink: a link between sites that carries what the ports of two hosts do. One pair of hosts that has it to itself gets a port's
// rate of it: taken for 207 Mbit/s, plans in which few pairs cross were forecast at 0.7 of what they take, and the bound was half of what is true.
func TestPortsUnderALink(t *testing.T) {
	p := ofGrid(t, `
sites:
  - {name: A, hosts: 4, lan: {bandwidth: 105Mbps, latency: 100us}}
  - {name: B, hosts: 4, lan: {bandwidth: 105Mbps, latency: 100us}}
wan:
  - {from: A, to: B, bandwidth: 207Mbps, latency: 5ms, both: true}
`)
	net, err := p.network()
	if err != nil {
		t.Fatal(err)
	}
	port := 105 * netmap.Mbps
	for h := range net.Hosts {
		if net.Egress[h] != port || net.Ingress[h] != port {
			t.Errorf("%s: %.0f Mbit/s out, %.0f in", net.Hosts[h], net.Egress[h].Mbps(), net.Ingress[h].Mbps())
		}
	}
	if want := 207 * netmap.Mbps; net.Pipe[1] != want || net.Pipe[2] != want {
		t.Errorf("links of %.0f and %.0f Mbit/s", net.Pipe[1].Mbps(), net.Pipe[2].Mbps())
	}
	const size = 1 << 20
	p.Collective, p.Sizes = plan.Allgather, slices.Repeat([]int64{size}, 8)
	bound, err := p.bound(net)
	if err != nil {
		t.Fatal(err)
	}
	if want := port.Time(7 * size).Seconds(); math.Abs(bound.Seconds/want-1) > 1e-6 {
		t.Errorf("a bound of %.1f ms, want the %.1f of seven blocks through a port", 1e3*bound.Seconds, 1e3*want)
	}
	across := &plan.Plan{
		Collective: plan.Alltoall, Hosts: net.Hosts, MessageBytes: size,
		Transfers: []plan.Transfer{{Src: 0, Dst: 4, Blocks: []plan.Block{{Origin: 0, Dest: 4}}, Phase: -1}},
	}
	m := newModel(net, p.Snapshot)
	times, err := m.spans(across, 4096, math.Inf(1))
	if err != nil {
		t.Fatal(err)
	}
	if took, least := times[0].end-times[0].start, port.Time(size).Seconds(); took < least {
		t.Errorf("a block of one pair is forecast to cross in %.1f ms, and its ports need %.1f", 1e3*took, 1e3*least)
	}
	if got := m.capacity[4]; got > float64(port) {
		t.Errorf("one pair is taken to get %.0f Mbit/s", netmap.BytesPerSec(got).Mbps())
	}
}
