package agent

import (
	"slices"

	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// leastLosses is of how many losses at least a share is made that says what a flow gets, as for the prober.
	leastLosses = 4
	// ownLosses is from how many on a pair's own are as good as those of its like.
	ownLosses = 20
	// heldMost is how many times what a flow gets losses may leave of one and yet be what holds it: with fewer, a queue that was full now and then,
	// or the network, does.
	heldMost = 2
	// heldTimes is how many times what one flow gets a link must carry for something to hold that flow, as for [exchange.Path].
	heldTimes = 1.25
	// strangers is from how many times what one flow gets trains read of a link that it is taken to carry for several, if no losses are known: below
	// that others may be on it, and several flows get no more.
	strangers = 2
)

// losses are counted over the pairs of two sites: of how many packets how many were lost. A pair alone meets few of them: 4 of 1 in
// 1,300 take 7 MB, and many pairs of a lossy link have met none, or not sent enough to say.
type losses struct {
	of, lost float64
	line     netmap.BytesPerSec // what trains read where bulk probes have told what a flow gets, 0 where none has
}

// add counts what e knows of its own.
func (l *losses) add(e netmap.Estimate) {
	if e.Has(netmap.FieldLoss) && e.LossOf > 0 {
		l.of += float64(e.LossOf)
		l.lost += float64(e.LossOf) * e.Loss
	}
}

// fill returns e, of a pair of which l are the losses, with what they say, see [losses.held]. As long as nobody has measured what several flows get, and
// one gets less than trains read, several are taken to get all of that; the trains are e's own, or those of a pair of which a bulk probe has told.
func (l losses) fill(e netmap.Estimate) netmap.Estimate {
	if !e.Has(netmap.FieldLatency | netmap.FieldBandwidth) {
		return e
	}
	switch {
	case l.lost >= leastLosses:
		e = l.held(e)
	case !e.TellsLoss():
		e.Loss, e.LossOf, e.Known = 0, 0, e.Known&^netmap.FieldLoss
	}
	if !e.Has(netmap.FieldCapacity) && l.line >= strangers*e.Bandwidth {
		e.Capacity, e.Known = l.line, e.Known|netmap.FieldCapacity
	}
	return e
}

// held returns e with what the losses say if they can be what holds a flow there: the share that is lost, unless e has
// met enough itself, and where many flows get more than one, no more for that one than losses leave of it. Bulk probes last for a
// few losses, and those that chance spared read up to twice that.
func (l losses) held(e netmap.Estimate) netmap.Estimate {
	loss := l.lost / l.of
	if e.Has(netmap.FieldLoss) && e.Loss*float64(e.LossOf) >= ownLosses {
		loss = e.Loss
	}
	rate := netmap.BytesPerSec(probe.HeldRate(loss, 2*e.Latency))
	if rate > heldMost*e.Bandwidth {
		return e
	}
	if loss != e.Loss {
		e.Loss, e.LossOf, e.Known = loss, int(min(l.of, netmap.MaxLossOf)), e.Known|netmap.FieldLoss
	}
	if e.Has(netmap.FieldCapacity) {
		if e.Capacity >= heldTimes*e.Bandwidth {
			e.Bandwidth = min(e.Bandwidth, rate)
		}
		return e
	}
	if one, all := min(e.Bandwidth, rate), max(e.Bandwidth, l.line); all >= heldTimes*one {
		e.Bandwidth, e.Capacity, e.Known = one, all, e.Known|netmap.FieldCapacity
	}
	return e
}

// lossesTo returns what all pairs of this host's site and host's have lost on the way there; nothing if they are one, or have no label.
func (a *Agent) lossesTo(host string) losses {
	like, sites := a.like()
	here, there := sites[a.name], sites[host]
	if here == "" || there == "" || here == there {
		return losses{}
	}
	of, lost := like.Losses(here, there)
	return losses{of, lost, like.Line(here, there)}
}

// linkTo is what is known of the link to host's site, over all pairs.
func (a *Agent) linkTo(host string) (l link) {
	l.losses = a.lossesTo(host)
	like, sites := a.like()
	if here, there := sites[a.name], sites[host]; here != "" && there != "" && here != there {
		l.flow, l.all, l.read = like.Flow(here, there), like.Link(here, there), like.Read(here, there)
		l.pairs = a.hostsOf(here) * a.hostsOf(there)
	}
	return l
}

// lossTo returns the share of packets that is lost on the way to host, 0 if that is not known or the way is short.
func (a *Agent) lossTo(host string) float64 {
	e, _ := a.believedEstimate(a.name, host)
	if beside(e) {
		return 0
	}
	return a.lossesTo(host).fill(e).Loss
}

// lossesIn returns s with what all pairs of two sites have lost in the estimates of each.
func lossesIn(s *netmap.Snapshot) *netmap.Snapshot {
	type direction struct{ from, to string }
	all, lines := make(map[direction]*losses), make(map[direction][]netmap.BytesPerSec)
	hosts := s.Hosts()
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for pass := range 2 {
		for d, v := range lines {
			slices.Sort(v)
			all[d].line = v[len(v)/2]
		}
		for i := range n {
			for j := range n {
				e := s.Estimate(i, j)
				d := direction{hosts[i].Site, hosts[j].Site}
				if i == j || d.from == "" || d.to == "" || d.from == d.to {
					est[i*n+j] = e
					continue
				}
				if all[d] == nil {
					all[d] = new(losses)
				}
				if pass == 0 {
					all[d].add(e)
					if e.Has(netmap.FieldLine) {
						lines[d] = append(lines[d], e.Line)
					}
				} else {
					est[i*n+j] = all[d].fill(e)
				}
			}
		}
	}
	return s.With(est)
}
