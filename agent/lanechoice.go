package agent

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// The kinds of lanes that carry the data of exchanges, and what an operator may choose.
const (
	LaneAuto = "auto"
	LaneQUIC = "quic"
	LaneTCP  = "tcp"
)

// LaneModes are the values of [Options.Lane].
func LaneModes() []string { return []string{LaneAuto, LaneQUIC, LaneTCP} }

const (
	// lanRTT is the round trip below which a peer is near: TCP fills the path with its default
	// windows and costs a quarter of QUIC's CPU time per byte. What is near stays so up to
	// twice that.
	lanRTT = 2 * time.Millisecond
	// kindLosses is of how many losses at least a share is made that chooses a kind of lane, to a quarter: hosts that know different ones of the first few
	// would choose differently.
	kindLosses = 16
	// tunnelLanes is how many flows it must take to fill a link where UDP does not get through for one of TCP that does not slow down for losses to be better than those with the
	// system's congestion control. Where UDP gets through it must take more than QUIC's lanes of all pairs of hosts, each [exchange.MaxLanes]. What the lab showed for it is in
	// docs/design/lanes.md.
	tunnelLanes = 10
	// fastLink is the rate of a link from which on what QUIC costs in CPU time counts, and fastBytes what may be under way on it: TCP's default
	// windows hold that. fastShare is the share of the link that one flow of QUIC must get. A link that is fast stays so down to half of the rate,
	// 0.7 of the share and up to twice the bytes. All three were chosen; what the lab showed is in docs/design/lanes.md.
	fastLink  = 80 * netmap.Mbps
	fastBytes = 2 << 20
	fastShare = 0.4
	// lossless is the congestion control that does not slow down for single losses.
	lossless = "bbr"
	// worse is the share of QUIC's measured rate below which TCP is given up on a lossy or a fast way: what a pair of hosts gets depends on how many
	// others share the link, and plans differ in that. leastRates is how many samples make a rate.
	worse      = 0.5
	leastRates = 3
	// tcpPatience is how long a TCP connection may take, beside four round trips, before the data
	// go over QUIC.
	tcpPatience = 2 * time.Second
	// A kind that failed is tried again after firstRetry, and then after twice as long each
	// time, up to lastRetry.
	firstRetry = time.Minute
	lastRetry  = 16 * time.Minute
)

// A laneChoice says over what the data to one host go, and why.
type laneChoice struct {
	kind       string // LaneQUIC or LaneTCP
	congestion string // of TCP, also of one to be tried; empty is the system's
	why        string
	try        bool // TCP is chosen once it is known to get through
}

// A way is what is known of the way to a host when a lane is chosen.
type way struct {
	listens bool          // the host takes TCP lanes
	tunnel  bool          // UDP does not reach the host: what is QUIC's goes inside TCP
	rtt     time.Duration // 0: not measured
	loss    float64
	flow    netmap.BytesPerSec // what one flow of QUIC gets; 0: not measured
	all     netmap.BytesPerSec // what the link carries; 0: not known
	read    netmap.BytesPerSec // what trains have read of it, if all is not known; 0: nothing
	pairs   int                // of hosts that share it; 0 is 1
	one     netmap.BytesPerSec // what one flow of this pair of hosts gets, and
	pair    netmap.BytesPerSec // several of it; 0: not known
}

// patience is how long a TCP connection may take before something goes over QUIC.
func (w way) patience() time.Duration { return tcpPatience + 4*w.rtt }

// A link is what is known of the way from one site to another: all pairs of their hosts share it.
type link struct {
	losses losses
	flow   netmap.BytesPerSec // what one flow of QUIC gets, in the middle of what bulk probes have told; 0: none has
	all    netmap.BytesPerSec // what several get, or else what trains read of pairs of which bulk probes have told; 0: neither is known
	read   netmap.BytesPerSec // what is believed of one flow: before the first bulk probe, what trains read; 0: nothing
	pairs  int                // of hosts
}

// of returns w as the link knows it better. All hosts of a site are to choose the same kind for a link, and go by what all of them have
// measured: pairs that by chance have met few losses, or many, would go over QUIC beside others over TCP with another idea of their share. On the 3-site grid with losses
// (a lab) pairs chose either, and alltoalls took up to half as long again as with either kind alone.
func (w way) of(l link) way {
	if l.losses.lost >= kindLosses {
		w.loss = l.losses.lost / l.losses.of
	}
	if l.flow > 0 {
		w.flow = l.flow
	}
	if l.read > 0 {
		w.read = l.read
	}
	w.all, w.pairs = l.all, l.pairs
	return w
}

// heldByLoss says that loss explains what one flow gets, and that it takes so many to fill the link. A flow that gets less than half of what
// the loss lets through is held by something else, such as a limit for each flow, which one of TCP would meet
// as well: several lanes help there.
func (w way) heldByLoss(lanes int) bool {
	all := w.all
	if all == 0 {
		all = w.read
	}
	left := netmap.BytesPerSec(probe.HeldRate(w.loss, w.rtt))
	return w.loss > 0 && w.flow >= left/2 && all >= netmap.BytesPerSec(lanes)*left
}

// fast says that the link carries so much that TCP's lower cost counts, and that one flow of QUIC gets much of it: where something holds each flow,
// one of TCP would meet it as well. was says that it was fast before.
func (w way) fast(was bool) bool {
	rate, bytes, share := fastLink, float64(fastBytes), netmap.BytesPerSec(fastShare)
	if was {
		rate, bytes, share = rate/2, 2*bytes, 0.7*share
	}
	return w.rtt > 0 && w.all >= rate && float64(w.all)*w.rtt.Seconds() <= bytes && w.flow >= share*w.all
}

// several says that one flow gets so much less than several of the same pair of hosts that these are worth having: over TCP a host has one to another. was says that it was so before.
func (w way) several(was bool) bool {
	times := netmap.BytesPerSec(strangers)
	if was {
		times = heldTimes
	}
	return w.one > 0 && w.pair >= times*w.one
}

// A laneRecord is what experience says of one kind of lane to one host.
type laneRecord struct {
	err   string // of the newest failure; empty: none since the last success
	retry time.Time
	pause time.Duration
}

// A laneRate is what a pair of hosts gets over one kind of lane, in the mean of those to one site: they share the link.
type laneRate struct {
	rate    netmap.BytesPerSec // smoothed, of what the network limited
	samples int
}

// A linkHistory is what this host remembers of the link to a site.
type linkHistory struct {
	quic, tcp laneRate
	through   bool       // a TCP connection to the site has been made
	tries     laneRecord // of connections that were made to find that out
}

// A laneHistory is what this host remembers of a peer.
type laneHistory struct {
	quic, tcp laneRecord
	near      bool   // TCP was chosen because the host is near
	fast      bool   // the link to it is fast
	several   bool   // several flows get more of it than one
	last      string // kind that was opened last

	held   laneChoice // that was used last
	way    way        // for which it was chosen,
	chosen time.Time  // at this time
}

// holds reports whether the choice that was used last is still to be.
func (h *laneHistory) holds(now time.Time) bool {
	return h.held.kind != "" && now.Sub(h.chosen) < holds && !h.of(h.held.kind).down(now)
}

// holds is how long a choice stays, unless its kind fails. The engine asks for the way once an exchange and for streams a little later: both are to
// speak of the same kind. It is no longer, or hosts that repeat an exchange every second would never change, and those of one link differ without end.
const holds = 10 * time.Second

// failed notes that a lane could not be opened.
func (r *laneRecord) failed(err error, now time.Time) {
	r.pause = min(max(2*r.pause, firstRetry), lastRetry)
	r.err, r.retry = fmt.Sprintf("%.200v", err), now.Add(r.pause)
}

func (r *laneRecord) worked() { r.err, r.pause = "", 0 }

func (r *laneRecord) down(now time.Time) bool { return r.err != "" && now.Before(r.retry) }

// seen takes the rate of a sample in.
func (r *laneRate) seen(rate netmap.BytesPerSec) {
	if r.samples++; r.samples == 1 {
		r.rate = rate
	}
	r.rate += (rate - r.rate) / 4
}

// chooseLane is the choice for one host. bbr says that the kernel offers lossless, l is what is remembered of the link to its site.
//
// TCP that suits a way may not get through, and a firewall that drops it would let exchanges wait. So between sites, and to a host to which it has failed, it is tried
// beside them first ([Agent.tryTCP]), unless the operator has chosen it or nothing else is left.
func chooseLane(mode string, bbr bool, w way, h *laneHistory, l *linkHistory, now time.Time) laneChoice {
	c := suits(mode, bbr, w, h, l, now)
	if c.kind == LaneQUIC || mode == LaneTCP || w.tunnel || h.quic.down(now) {
		return c
	}
	switch unknown := !h.near && !l.through; {
	case unknown && l.tries.down(now):
		return laneChoice{kind: LaneQUIC, why: "TCP does not get through: " + l.tries.err}
	case unknown || h.tcp.err != "":
		return laneChoice{kind: LaneQUIC, congestion: c.congestion, why: "TCP is tried first", try: true}
	}
	return c
}

// suits is the choice among what gets through, as far as failures have told.
func suits(mode string, bbr bool, w way, h *laneHistory, l *linkHistory, now time.Time) laneChoice {
	quic := func(why string, args ...any) laneChoice {
		return laneChoice{kind: LaneQUIC, why: fmt.Sprintf(why, args...)}
	}
	h.near = w.rtt > 0 && (w.rtt < lanRTT || h.near && w.rtt < 2*lanRTT)
	h.fast, h.several = w.fast(h.fast), w.several(h.several)
	q, t := l.quic, l.tcp
	slower := q.samples >= leastRates && t.samples >= leastRates && float64(t.rate) < worse*float64(q.rate)
	switch {
	case mode == LaneQUIC:
		return quic("chosen by the operator")
	case !w.listens:
		return quic("the host takes no TCP lanes")
	case h.tcp.down(now):
		return quic("TCP failed: %s", h.tcp.err)
	case mode == LaneTCP && !h.near && bbr:
		return laneChoice{kind: LaneTCP, congestion: lossless, why: "chosen by the operator"}
	case mode == LaneTCP:
		return laneChoice{kind: LaneTCP, why: "chosen by the operator"}
	case h.near && !h.several:
		return laneChoice{kind: LaneTCP, why: fmt.Sprintf("round trip of %v", w.rtt.Round(10*time.Microsecond))}
	case w.tunnel && bbr && w.heldByLoss(tunnelLanes):
		return laneChoice{kind: LaneTCP, congestion: lossless, why: "UDP does not get through"}
	case w.tunnel:
		return laneChoice{kind: LaneTCP, why: "UDP does not get through"}
	case h.quic.down(now):
		return laneChoice{kind: LaneTCP, why: "QUIC failed: " + h.quic.err}
	case w.rtt == 0:
		return quic("round trip not measured")
	case h.fast && slower:
		return quic("measured %.3g Mbit/s, TCP %.3g", q.rate.Mbps(), t.rate.Mbps())
	case h.fast:
		return laneChoice{kind: LaneTCP, why: fmt.Sprintf("cheaper, and one flow gets much of the link of %.3g Mbit/s", w.all.Mbps())}
	case !w.heldByLoss(exchange.MaxLanes * max(w.pairs, 1)):
		return quic("round trip of %v", w.rtt.Round(100*time.Microsecond))
	case !bbr:
		return quic("loss of %.2g %%, and the kernel offers no %s", 100*w.loss, lossless)
	case slower:
		return quic("loss of %.2g %%; measured %.3g Mbit/s, TCP with %s %.3g", 100*w.loss, q.rate.Mbps(), lossless, t.rate.Mbps())
	}
	why := fmt.Sprintf("loss of %.2g %%, for which %s does not slow down", 100*w.loss, lossless)
	if t.samples >= leastRates {
		why += fmt.Sprintf("; measured %.3g Mbit/s", t.rate.Mbps())
	}
	return laneChoice{kind: LaneTCP, congestion: lossless, why: why}
}

// of returns the record of a kind.
func (h *laneHistory) of(kind string) *laneRecord {
	if kind == LaneTCP {
		return &h.tcp
	}
	return &h.quic
}
