package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// On small switches posting everything at once overflows their ports, as IPDPS 2005, §6, finds: LAM/MPI takes 2.15 times
// the scheduled routine's time for 64 KB on one switch of 24 hosts (figure 6), here at least 1.5 times.
func TestAtOnceOverflowsSmallSwitches(t *testing.T) {
	if testing.Short() || gridtest.Race {
		t.Skip("two exchanges of 36 MB; TestEmulateOne runs the same code with small blocks")
	}
	seconds := make(map[string]float64)
	for _, name := range []string{"lam", "aapc sender all"} {
		emulateGroup(t, []job{{Arena: "aapc-conf-a", Collective: plan.Alltoall, Contender: name, Size: 64 << 10, Repeats: 1}}, func(e emulation) {
			seconds[name] = e.Mean
			if e.Ports != 48 {
				t.Errorf("%s over ports of %d packets", name, e.Ports)
			}
			t.Logf("%s: %v s, %v of the bound, %v packets lost", name, e.Mean, e.ratio(), e.Lost)
		})
	}
	if lam, sender := seconds["lam"], seconds["aapc sender all"]; !(lam >= 1.5*sender && sender > 0) {
		t.Errorf("at once %v s, by the sender %v s: %v times", lam, sender, lam/sender)
	}
}

// Pages of emulated switch trees say what the ports of switches and hosts hold, and where both depths are.
func TestPagesSayWhatPortsHold(t *testing.T) {
	for _, e := range experiments {
		for _, s := range e.sweeps {
			a, err := arenaOf(s.arena)
			if err != nil {
				t.Fatal(err)
			}
			if a.topology == nil || len(s.emulated) == 0 {
				continue
			}
			if a.ports == 0 {
				t.Errorf("%s: ports of %s hold what the network has by default", e.id, s.arena)
			}
			for _, want := range []string{fmt.Sprintf("holds %d packets", a.ports), fmt.Sprintf("%d bytes", hostQueue), "switches.md"} {
				if !strings.Contains(e.about, want) {
					t.Errorf("%s does not say %q", e.id, want)
				}
			}
		}
	}
}

// What is measured on one tree is not taken for another one whose ports hold less.
func TestTwin(t *testing.T) {
	if same("complete-exchange-16") != same("allgather-a") || same("aapc-journal-3") != "aapc-conf-b" {
		t.Fatal("trees are no longer the same: the next lines need other ones")
	}
	for name, want := range map[string]string{"complete-exchange-16": "complete-exchange-16", "aapc-journal-3": "aapc-conf-b", "allgather-a": "allgather-a", "paper-3site": "paper-3site"} {
		a, err := arenaOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := twin(a); got != want || err != nil {
			t.Errorf("%s is measured as %s, want %s; %v", name, got, want, err)
		}
	}
}

// Emulated records on ports of one depth are titled with it.
func TestPortsInTitles(t *testing.T) {
	raw := invented(&ringsFig10, 0)
	for i := range raw.Records {
		if r := &raw.Records[i]; r.Source == Emulated {
			r.Ports = 17
		}
	}
	for _, d := range ringsFig10.page(raw).panels {
		if got := strings.Contains(d.title, "ports of 17 packets"); got != strings.HasPrefix(d.title, "emulated") {
			t.Errorf("%q", d.title)
		}
	}
}
