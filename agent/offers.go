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
	if !safe(snap, r.Sizes) {
		return errLossy
	}
	return nil
}

// smallTime forecasts how long contributions of sizes bytes take by the leaders of their sites until the last host has all: each leader passes on
// what it has whole. That is group.Config.Small.
func (a *Agent) smallTime(hosts []string, leaders []int, sizes []int64) time.Duration {
	return smallOver(a.snapshotOf(hosts), leaders, sizes)
}

// safe reports whether no link is likely to lose a packet of an allgather of sizes bytes ([farRisk]). What travels with its call is sent twice there,
// and what a plan moves is not.
func safe(snap *netmap.Snapshot, sizes []int64) bool {
	type way struct{ from, to int } // leaders
	led := leaders(snap)
	packets, loss := make(map[int]float64), make(map[way]float64)
	for i, l := range led {
		packets[l] += math.Ceil(float64(sizes[i]) / straightBytes)
		for j, m := range led {
			if e := snap.Estimate(i, j); l != m && e.TellsLoss() {
				loss[way{l, m}] = max(loss[way{l, m}], e.Loss)
			}
		}
	}
	for w, p := range loss {
		if p*packets[w.from] > farRisk {
			return false
		}
	}
	return true
}

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
