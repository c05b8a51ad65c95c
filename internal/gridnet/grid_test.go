package gridnet_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func TestFromGrid(t *testing.T) {
	g, err := gridfile.Parse("grid.yaml", []byte(`
sites:
  - {name: UT,  hosts: 2, lan: {bandwidth: 80Mbps, latency: 60us, queue: 99, jitter: 100us}}
  - {name: UK,  hosts: 1, lan: {bandwidth: 160Mbps, latency: 6us}}
wan:
  - {from: UT, to: UK, bandwidth: 1.25Mbps, latency: 50ms, capacity: 10Mbps, loss: 0.1%, queue: 64, jitter: 2ms}
  - {from: UK, to: UT, bandwidth: 4Mbps, latency: 20ms, burst: 64KiB, peak: 40Mbps}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := gridnet.FromGrid(g)
	if err != nil {
		t.Fatal(err)
	}
	const ms, us = time.Millisecond, time.Microsecond
	want := gridnet.Config{
		Sites: []gridnet.Site{
			{Name: "UT", Hosts: []string{"ut0", "ut1"}, Rate: 80 * gridnet.Mbps, Latency: 60 * us, IngressQueue: 99, ReceiveJitter: 100 * us},
			{Name: "UK", Hosts: []string{"uk0"}, Rate: 160 * gridnet.Mbps, Latency: 6 * us},
		},
		Links: []gridnet.Link{
			{From: "UT", To: "UK", Rate: 10 * gridnet.Mbps, FlowRate: 1.25 * gridnet.Mbps, Latency: 50 * ms, Jitter: 2 * ms, Loss: 0.001, Queue: 64},
			{From: "UK", To: "UT", Rate: 40 * gridnet.Mbps, Latency: 20 * ms, ShapeRate: 4 * gridnet.Mbps, ShapeBurst: 64 << 10},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	n, err := gridnet.New(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// A grid that was changed by hand into nonsense, or has no pipes, is refused.
func TestFromGridRefuses(t *testing.T) {
	matrix, err := gridfile.Parse("m.json", []byte(`{"hosts":[{"name":"a"},{"name":"b"}],"bandwidth_mbps":[[0,1],[1,0]],"latency_s":[[0,0.1],[0.1,0]]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*gridfile.Grid{
		"matrix": matrix,
		"empty":  {},
		"index":  {Sites: []gridfile.Site{{Name: "a", Hosts: 1}}, WAN: []gridfile.Link{{From: 0, To: 7}}},
	} {
		if _, err := gridnet.FromGrid(g); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
