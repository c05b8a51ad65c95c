package probe

import (
	"math"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// What an observation must cover to say anything of a rate.
	observeTime  = time.Second
	observeTrips = 8 // round trips, where that is shorter
	observeBytes = 64 << 10

	// observeRaised is how far over the estimate a lower bound must lie to be news: under that it
	// is noise of either.
	observeRaised = 1.10
	// observeAgree is how far apart two observations in a row may lie of a flow in its steady state.
	observeAgree = 0.15
	// observeFallen is the share of what was expected under which a lane is suspicious. Half would
	// miss what a queue and a sample that began before the fall hide of it; more would
	// take the saw tooth of a congestion window for a fall.
	observeFallen = 0.6
	// observeFair is up to how many flows share a link so evenly that one which gets far
	// less than its part is news.
	observeFair = 2
	// observeRefresh is the age at which an estimate that an exchange confirms is written again:
	// rows of the map travel.
	observeRefresh = 15 * time.Second
)

// An Observation is what one lane of an exchange carried to Peer for a while, by the
// receiver's count. [Prober.Observe] says what follows from it.
type Observation struct {
	Peer     string
	Bytes    int64 // user bytes of QUIC streams
	Duration time.Duration
	RTT      time.Duration // round trip with queues; 0 if unknown
	End      time.Time
	// Network says that the network was the limit. Otherwise nothing follows.
	Network bool
	// Alone says that, as far as anybody knows, no other flow was on the directed link
	// between the sites, or between the two hosts where they are of one site.
	Alone bool
	// Sharers is how many flows may have shared that link, this one included, at most. Zero
	// means that nobody knows.
	Sharers int
	// Before is what the lane carried in the observation before this one, and Mean what it
	// carried in this exchange so far, both limited by the network and with as many lanes
	// beside it. Zero means that there is none. Several lanes may be observed together, with
	// the sum of their means, and without Before; what follows is only whether they have fallen.
	Before, Mean netmap.BytesPerSec
}

// Observe takes what an exchange has seen of a link, for nothing. It may be called while
// trains run, and does not block.
//
// What the network limits is a lower bound of what one flow gets: others may share the
// link. It raises an estimate that is lower, if two observations in a row lie over it, and
// never lowers one. Of a flow that was alone it is the truth, and moves the estimate both ways
// like a bulk probe, if two in a row agree. A lane that falls far under what it carried
// before, or under its share of the estimate, makes the link suspect: one short train says
// whether the link has changed or somebody else has come, and other hosts whose lanes have fallen take its word
// (see [recorder.hear]).
func (p *Prober) Observe(o Observation) {
	if !o.telling() {
		return
	}
	known, _ := p.rec.known(o.Peer)
	v := o.judge(known)
	p.rec.used(o.Peer, p.siteOf(o.Peer), v.suspect)
	if v.rate > 0 {
		p.rec.observed(o.Peer, p.siteOf(o.Peer), v.rate, v.exact)
	}
	if v.suspect {
		p.Suspect(o.Peer)
	}
}

// Lost takes what an exchange has counted of the way to peer while no queue stood there: how many packets were sent, and how many of them were lost. It counts
// like what trains and bulk probes have met, and does not block. On a grid that is never idle nothing else tells of losses.
func (p *Prober) Lost(peer string, sent, lost uint64) {
	if site := p.siteOf(peer); site != "" && site != p.cfg.Self.site() && lost <= sent {
		p.rec.met(peer, site, lossCount{float64(sent), float64(lost)})
	}
}

// A verdict is what follows from an observation.
type verdict struct {
	rate    netmap.BytesPerSec // 0: nothing to record
	exact   bool
	suspect bool
}

// telling says whether anything can follow from o, and whether its numbers can be at all.
func (o Observation) telling() bool {
	return o.Network && o.Duration > 0 && o.Bytes >= 0 && o.RTT >= 0 && o.Sharers >= 0 &&
		rateOK(o.Before) && rateOK(o.Mean)
}

// rateOK is false for NaN, too.
func rateOK(r netmap.BytesPerSec) bool { return r >= 0 && !math.IsInf(float64(r), 1) }

// judge says what follows from o, of which telling holds, where known is the estimate.
func (o Observation) judge(known netmap.Estimate) (v verdict) {
	rate := netmap.BytesPerSec(float64(o.Bytes) / o.Duration.Seconds())
	var estimate netmap.BytesPerSec // 0: none that was measured
	if known.Has(netmap.FieldBandwidth) && known.Source >= netmap.SourceProbed {
		estimate = known.Bandwidth
	}
	if o.Duration >= observeTime {
		expected := o.Mean
		if o.Sharers > 0 && o.Sharers <= observeFair {
			expected = max(expected, estimate/netmap.BytesPerSec(o.Sharers))
		}
		// Of a few packets more or fewer nothing follows: in a crowd one flow may get
		// nothing for a second. Alone it would be news.
		enough := o.Sharers == 1 || float64(expected)*o.Duration.Seconds() >= observeBytes
		v.suspect = enough && rate < observeFallen*expected
	}
	long := o.Duration >= observeTime || o.RTT > 0 && o.Duration >= observeTrips*o.RTT
	if !long || o.Bytes < observeBytes || o.Before == 0 {
		return v
	}
	if o.Alone {
		if apart(float64(rate), float64(o.Before)) > observeAgree {
			return v // it has just begun, or falls: the next one will tell
		}
		mean := (rate + o.Before) / 2
		young := o.End.Sub(known.Measured) < observeRefresh
		if estimate == 0 || !young || apart(float64(mean), float64(estimate)) > observeAgree/3 {
			v.rate, v.exact = mean, true
		}
		return v
	}
	if least := min(rate, o.Before); estimate > 0 && least > observeRaised*estimate {
		v.rate = least
	}
	return v
}
