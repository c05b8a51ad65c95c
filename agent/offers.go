package agent

import (
	"errors"
	"math"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What decides whether a plan of a small operation is offered (agent/group/offers.go): over which links it may go, and how long the operation takes without it.

// errLossy is why no plan of a small operation is offered.
var errLossy = errors.New("links lose packets, and a plan sends nothing twice")

// offerable says why no plan of r is to be offered, nil if one may.
func (a *Agent) offerable(r group.Request) error {
	snap := a.plansMap(r.Hosts)
	if err := complete(snap); err != nil {
		return err
	}
	if !safe(snap, r) {
		return errLossy
	}
	return nil
}

// smallTime forecasts how long what r asks for takes if it travels with its calls: group.Config.Small.
func (a *Agent) smallTime(r group.Request, leaders []int, straight bool) time.Duration {
	snap := a.snapshotOf(r.Hosts)
	switch {
	case r.Matrix == nil:
		return smallOver(snap, leaders, r.Sizes)
	case straight:
		return straightOver(snap, leaders, r.Matrix)
	}
	return smallOver(snap, leaders, given(r.Matrix))
}

// given returns about what each host gives in all: leaders pass on what its ranks have for itself as well, of which matrix says nothing, and which is taken to be as much as for
// others in the mean.
func given(matrix [][]int64) []int64 {
	sizes := make([]int64, len(matrix))
	for i, row := range matrix {
		for _, n := range row {
			sizes[i] += n
		}
		sizes[i] += sizes[i] / int64(max(len(matrix)-1, 1))
	}
	return sizes
}

// A siteWay is from the hosts that one leader leads to those of another.
type siteWay struct{ from, to int }

// safe reports whether no link is likely to lose a packet of what r asks for ([farRisk]). What travels with its call is sent twice there,
// and what a plan moves is not.
func safe(snap *netmap.Snapshot, r group.Request) bool {
	led := leaders(snap)
	packets, loss := make(map[siteWay]float64), make(map[siteWay]float64)
	for i, l := range led {
		counted := make(map[int]bool) // leaders to whose hosts a block of an allgather goes, once
		for j, m := range led {
			if l == m {
				continue
			}
			w := siteWay{l, m}
			if e := snap.Estimate(i, j); e.TellsLoss() {
				loss[w] = max(loss[w], e.Loss)
			}
			switch {
			case r.Matrix != nil:
				packets[w] += packetsOf(r.Matrix[i][j])
			case !counted[m]:
				packets[w] += packetsOf(r.Sizes[i])
				counted[m] = true
			}
		}
	}
	for w, p := range loss {
		if p*packets[w] > farRisk {
			return false
		}
	}
	return true
}

func packetsOf(bytes int64) float64 { return math.Ceil(float64(bytes) / straightBytes) }

// straightOver is smallTime for blocks that go straight from host to host: all of a site's share the way to another one.
func straightOver(snap *netmap.Snapshot, leaders []int, matrix [][]int64) time.Duration {
	bytes := make(map[siteWay]float64)
	for i, l := range leaders {
		for j, m := range leaders {
			if l != m {
				bytes[siteWay{l, m}] += float64(matrix[i][j]) + farHead
			}
		}
	}
	last := 0.
	for i, l := range leaders {
		for j, m := range leaders {
			e := snap.Estimate(i, j)
			if i == j || !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) {
				continue
			}
			rate, load := float64(e.Bandwidth), float64(matrix[i][j])+farHead
			if l != m {
				load = bytes[siteWay{l, m}]
				if e.Has(netmap.FieldCapacity) {
					rate = max(rate, float64(e.Capacity))
				}
				if e.TellsLoss() && e.Loss >= lossyWords {
					load *= 2 // they go twice
				}
			}
			last = max(last, e.Latency.Seconds()+load/rate)
		}
	}
	return seconds(last)
}

// smallOver is smallTime for contributions of sizes bytes that go by the leaders of their sites: each passes on what it has whole.
func smallOver(snap *netmap.Snapshot, leaders []int, sizes []int64) time.Duration {
	ways := waysOf(snap, leaders)
	takes := func(from, to int, bytes float64) float64 {
		e := snap.Estimate(from, to)
		if from == to || !e.Has(netmap.FieldLatency|netmap.FieldBandwidth) {
			return 0
		}
		latency := e.Latency
		if bytes <= group.ViaBytes {
			latency = ways.between(leaders[from], leaders[to], latency)
		}
		return latency.Seconds() + bytes/float64(e.Bandwidth)
	}
	gathered, bytes := make(map[int]float64), make(map[int]float64) // by leader
	for i, l := range leaders {
		bytes[l] += float64(sizes[i])
		gathered[l] = max(gathered[l], takes(i, l, float64(sizes[i])))
	}
	last := 0.
	for j, m := range leaders {
		for l, b := range bytes {
			last = max(last, gathered[l]+takes(l, m, b)+takes(m, j, b))
		}
	}
	return seconds(last)
}
