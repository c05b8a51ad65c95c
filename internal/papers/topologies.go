package main

import (
	"fmt"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// An arenaRow says how an arena is made.
type arenaRow struct {
	name  string // of a file in configs/grids, without ending; of one that is made of another, a name of its own
	title string
	make  func(*arenaRow) (*arena, error)
}

// arenas are the networks of the papers. Two rows can be of the same tree: the papers number it anew.
var arenas = []arenaRow{
	{"aapc-conf-a", "topology (a), 24 hosts on one switch", switchTree},
	{"aapc-conf-b", "topology (b), 4 switches of 8 in a star", switchTree},
	{"aapc-conf-c", "topology (c), 4 switches of 8 in a line", switchTree},
	{"aapc-journal-1", "topology (1), 24 hosts on one switch", switchTree},
	{"aapc-journal-2", "topology (2), 3 switches of 8 in a line", switchTree},
	{"aapc-journal-3", "topology (3), 4 switches of 8 in a star", switchTree},
	{"aapc-journal-4", "topology (4), 4 switches of 8 in a line", switchTree},
	{"allgather-a", "topology (a), 16 hosts on one switch", switchTree},
	{"allgather-b", "topology (b), 16 hosts on 2 switches", switchTree},
	{"allgather-c", "topology (c), 16 hosts, 4 switches in a star", switchTree},
	{"allgather-d", "topology (d), 16 hosts, 4 switches in a line", switchTree},
	{"allgather-e", "topology (e), 32 hosts, ranks in order of switches", switchTree},
	{"allgather-f", "topology (f), 32 hosts, ranks scattered over switches", switchTree},
	{"complete-exchange-16", "one switch of 16 hosts", deepSwitch},
	{"paper-3site", "3 sites, each WAN link one pipe for all", sites},
	{"paper-3site-held", "3 sites, WAN links hold each flow to its rate", sites},
	{"paper-2site-europe", "2 European sites, each WAN link one pipe for all", sites},
	{"paper-2site-europe-held", "2 European sites, WAN links hold each flow to its rate", europeHeld},
	{"paper-1site-nth", "the Netherlands' site", sites},
}

// same returns the name of the first arena that is the same switch tree as the one called name.
func same(name string) string {
	data, ok := configs.Topology(name)
	if !ok {
		return name
	}
	for i := range arenas {
		if other, ok := configs.Topology(arenas[i].name); ok && string(other) == string(data) {
			return arenas[i].name
		}
	}
	return name
}

// twin returns the name of the first arena on which all that is measured is the same as on a.
func twin(a *arena) (string, error) {
	for i := range arenas {
		if name := arenas[i].name; same(name) == same(a.name) {
			b, err := arenaOf(name)
			if err != nil {
				return "", err
			}
			if b.ports == a.ports {
				return name, nil
			}
		}
	}
	return a.name, nil
}

func switchTree(r *arenaRow) (*arena, error) {
	data, ok := configs.Topology(r.name)
	if !ok {
		return nil, fmt.Errorf("configs has no topology %q", r.name)
	}
	t, err := plan.ReadTopology(r.name, data)
	if err != nil {
		return nil, err
	}
	return onTree(r.name, r.title, t)
}

// deepSwitch is switchTree with ports that hold more.
func deepSwitch(r *arenaRow) (*arena, error) {
	a, err := switchTree(r)
	if err == nil {
		a.ports = deepPortPackets
	}
	return a, err
}

func sites(r *arenaRow) (*arena, error) {
	g, err := gridNamed(r.name)
	if err != nil {
		return nil, err
	}
	return onGrid(r.name, r.title, g)
}

func gridNamed(name string) (*gridfile.Grid, error) {
	data, ok := configs.Grid(name)
	if !ok {
		return nil, fmt.Errorf("configs has no grid %q", name)
	}
	return gridfile.Parse(name, data)
}

// europeHeld is setup 2 on links as setup 1 has them in paper-3site-held.
func europeHeld(r *arenaRow) (*arena, error) {
	g, err := gridNamed("paper-3site-held")
	if err != nil {
		return nil, err
	}
	return onGrid(r.name, r.title, keepSites(g, "UK", "NTH"))
}
