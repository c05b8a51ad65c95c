package labtest

import (
	"fmt"
	"math"
	"os/exec"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// tcpShare is what of a link's IP bytes one TCP flow gets: 1,448 of 1,500, with time stamps.
const tcpShare = 1448.0 / 1500

// firstProbes is how long the bulk probes and searches of a young grid go on, about, when its map is whole. Those that meet a flow read too little,
// and are repeated into the next one.
const firstProbes = time.Minute

// iperf3 lets one TCP flow fill one pair of each of three links, all at once, and compares what it
// got with what a map said before.
func (c *cluster) iperf3(t *testing.T, list []pairing) {
	if _, err := exec.LookPath("iperf3"); err != nil {
		t.Skip("no iperf3 here: scripts/peers installs it, or the system's package manager")
	}
	type run struct {
		pairing
		client *e2etest.Process
	}
	var runs []run
	for _, p := range list {
		switch p.from + p.to {
		case "a0b0", "b1c1", "c0a1": // no host twice on one side, and no link twice
			runs = append(runs, run{pairing: p})
		}
	}
	if len(runs) != 3 {
		t.Fatalf("%d of the pairs are in the map: %v", len(runs), list)
	}
	start := func(r *run) {
		c.exec(t, r.to, "iperf3", "-s", "-1")
		// A server says nothing that tells when it listens, so the client comes again until it does.
		// What the 4 s that are left out leave in the queues is part of the steady state.
		line := fmt.Sprintf(`for i in 1 2 3 4 5 6 7 8 9 10; do
			said=$(iperf3 -c %s -O 4 -t 6 -C reno -J) && case $said in *'"error"'*) ;; *) printf %%s "$said"; exit ;; esac
			sleep 0.3
		done; exit 1`, c.node(r.to).Addr)
		r.client = c.exec(t, r.from, "sh", "-c", line)
	}
	// off returns by how much what TCP got differs from what the map says.
	off := func(r run) float64 {
		var said struct {
			End struct {
				Received struct {
					Rate float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		text := succeed(t, r.client)
		decode(t, text, &said)
		tcp := netmap.BytesPerSec(said.End.Received.Rate / 8)
		want := r.rate / userShare * tcpShare
		t.Logf("%s→%s: the map says %s, so that TCP should get %s; it got %s, %+.1f %%", r.from, r.to,
			gridfile.FormatRate(r.rate), gridfile.FormatRate(want), gridfile.FormatRate(tcp), 100*(float64(tcp/want)-1))
		return float64(tcp/want) - 1
	}
	time.Sleep(firstProbes)
	for i := range runs {
		start(&runs[i])
	}
	// Bulk probes share the links for seconds, and a flow that meets one is measured again.
	const tries = 4
	for i := range runs {
		far := off(runs[i])
		for n := 1; n < tries && !(math.Abs(far) <= pairTolerance); n++ {
			time.Sleep(15 * time.Second)
			start(&runs[i])
			far = off(runs[i])
		}
		if !(math.Abs(far) <= pairTolerance) {
			t.Errorf("%s→%s: one flow of iperf3 is %+.1f %% off what the map promises, %d times", runs[i].from, runs[i].to, 100*far, tries)
		}
	}
}
