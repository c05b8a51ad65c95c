package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/openshop"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/exchange/wan"
)

// An Algorithm makes plans for one collective.
type Algorithm struct {
	Name string
	// Timed says that the plan carries predicted times of the algorithm's own cost
	// model; the simulator supplies them otherwise.
	Timed bool
	// Options are the flags of gridagent plan that the algorithm looks at.
	Options []string
	Make    func(*Problem) (*plan.Plan, error)
	// Across says that it is made for links between clusters. Inside one, where all links are alike,
	// Min3 loses to rings and trees (Gupta & Vadhiyar, §6.3), and takes long to find that out.
	Across bool
	// Crowds says that nothing holds hosts back: all that a site has for another is sent at
	// once. The simulator shares links ideally; real ones lose packets then.
	Crowds bool
	// Kin is what algorithms are alike in that are fast and slow in the same places: what one of them takes over its forecast is expected of the others, until they run.
	Kin string
}

// kinOf returns what the algorithm of c called name is like: itself, if nothing else.
func kinOf(c plan.Collective, name string) string {
	if a, err := Named(c, name); err == nil && a.Kin != "" {
		return a.Kin
	}
	return name
}

// Algorithms lists the algorithms for c, the project's own first. A new one is a row here.
func Algorithms(c plan.Collective) []Algorithm {
	if c == plan.Alltoall {
		return alltoalls
	}
	return allgathers
}

var allgathers = []Algorithm{
	// Of one cluster the rings come before Min3: as good there as can be, and quickly made.
	akin(onSwitches("lr3", ring.KindLR3), "rings"),
	akin(onSwitches("lr2", ring.KindLR2), "rings"),
	akin(onSwitches("lr1", ring.KindLR1), "rings"),
	across(with("packed", false, (*Problem).packed)),
	across(with("min3", true, (*Problem).min3, "duplex", "links")),
	across(with("min3+ring", false, (*Problem).min3Ring, "duplex", "links")),
	across(with("mpich-g2", false, func(p *Problem) (*plan.Plan, error) {
		return baseline.MPICHG2(p.Hosts(), p.Sizes, p.Tree)
	})),
	across(with("magpie", false, func(p *Problem) (*plan.Plan, error) {
		return baseline.MagPIe(p.Hosts(), p.Sizes, p.Clusters())
	})),
	across(with("broadcast-trees", true, func(p *Problem) (*plan.Plan, error) {
		if err := p.needRates(); err != nil {
			return nil, err
		}
		return baseline.BroadcastTrees(p.Snapshot, p.Tree, p.Sizes, baseline.TreeOptions{Kind: p.Trees, Duplex: p.Duplex})
	}, "duplex", "tree")),
	akin(ofRanks("ring", baseline.Ring), "rings"),
	akin(ofRanks("neighbour-exchange", baseline.NeighbourExchange), "rings"),
	crowds(ofRanks("simple", baseline.Simple)),
	crowds(ofRanks("spreading-simple", baseline.SpreadingSimple)),
	akin(ofRanks("recursive-doubling", baseline.RecursiveDoubling), "doubling"),
	akin(ofRanks("bruck", baseline.Bruck), "doubling"),
}

// with is an algorithm that looks at more than ranks, and at the flags called options.
func with(name string, timed bool, make func(*Problem) (*plan.Plan, error), options ...string) Algorithm {
	return Algorithm{Name: name, Timed: timed, Options: options, Make: make}
}

// akin says what an algorithm is like.
func akin(a Algorithm, kin string) Algorithm {
	a.Kin = kin
	return a
}

// across marks an algorithm as made for links between clusters.
func across(a Algorithm) Algorithm {
	a.Across = true
	return a
}

// onSwitches is the allgather over a logical ring of a switch tree.
func onSwitches(name string, kind ring.Kind) Algorithm {
	return Algorithm{Name: name, Make: func(p *Problem) (*plan.Plan, error) {
		t, err := p.cables()
		if err != nil {
			return nil, err
		}
		return ring.Allgather(t, kind, p.Sizes)
	}}
}

// ofRanks is an allgather that knows nothing but ranks.
func ofRanks(name string, make func([]string, []int64) (*plan.Plan, error)) Algorithm {
	return Algorithm{Name: name, Make: func(p *Problem) (*plan.Plan, error) { return make(p.Hosts(), p.Sizes) }}
}

var alltoalls = []Algorithm{
	across(with(wan.Name, false, (*Problem).wan, "fanout")),
	with(aapcName, false, (*Problem).aapc, "sync", "sync-block", "within", "sync-strict"),
	amongRanks(shiftName, shuffle.Shift),
	amongRanks("pairwise", shuffle.Pairwise),
	crowds(amongRanks("sync-shuffle", shuffle.Synchronous)),
	with(groupName, false, func(p *Problem) (*plan.Plan, error) {
		return shuffle.Group(p.Hosts(), p.Alltoall, p.fanout())
	}, "fanout"),
	with(openshop.Name, false, (*Problem).openShop),
	across(with("hierarchical", false, func(p *Problem) (*plan.Plan, error) {
		return baseline.AlltoallHierarchical(p.Hosts(), p.Alltoall, p.Clusters())
	})),
	crowds(amongRanks("simple", baseline.AlltoallSimple)),
	crowds(amongRanks("spreading-simple", baseline.AlltoallSpreadingSimple)),
	amongRanks("pairwise-mpich", baseline.AlltoallPairwise),
	amongRanks("bruck", baseline.AlltoallBruck),
	amongRanks("ring", baseline.AlltoallRing),
}

const (
	aapcName  = "aapc" // the one alltoall that knows the cables between switches
	groupName = "group-shuffle"
	shiftName = "shift" // the one that is kind to those that nobody has declared
)

// amongRanks is an alltoall that knows nothing but ranks.
func amongRanks(name string, make func([]string, plan.AlltoallSizes) (*plan.Plan, error)) Algorithm {
	return Algorithm{Name: name, Make: func(p *Problem) (*plan.Plan, error) { return make(p.Hosts(), p.Alltoall) }}
}

// crowds marks an algorithm as one without synchronisation.
func crowds(a Algorithm) Algorithm {
	a.Crowds = true
	return a
}

// Names lists the names of the algorithms for c, in the order of [Algorithms].
func Names(c plan.Collective) []string {
	var names []string
	for _, a := range Algorithms(c) {
		names = append(names, a.Name)
	}
	return names
}

// An UnknownError means that there is no algorithm of that name for the collective.
type UnknownError struct {
	Collective plan.Collective
	Name       string
	Auto       bool // [Auto] could have been asked for as well
}

func (e *UnknownError) Error() string {
	auto := ""
	if e.Auto {
		auto = fmt.Sprintf(", and %s, which takes the best", Auto)
	}
	return fmt.Sprintf("no algorithm %.40q for %s; there are %s%s", e.Name, e.Collective, strings.Join(Names(e.Collective), ", "), auto)
}

// Named returns the algorithm for c called name, or an [UnknownError].
func Named(c plan.Collective, name string) (Algorithm, error) { return named(c, name, false) }

// Asked is Named where [Auto] may be asked for as well, which is another matter.
func Asked(c plan.Collective, name string) (Algorithm, error) { return named(c, name, true) }

func named(c plan.Collective, name string, auto bool) (Algorithm, error) {
	all := Algorithms(c)
	if i := slices.IndexFunc(all, func(a Algorithm) bool { return a.Name == name }); i >= 0 {
		return all[i], nil
	}
	return Algorithm{}, &UnknownError{Collective: c, Name: name, Auto: auto}
}
