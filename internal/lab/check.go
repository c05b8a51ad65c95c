package lab

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// What a lab is held to.
const (
	RateTolerance  = 0.03             // of a rate
	DelayTolerance = time.Millisecond // of a one-way delay
)

// A Measurement compares what is declared of one link with what packets find.
type Measurement struct {
	What     string  `json:"what"`     // the link: UT→UK, ut0→ut1, s0→s1
	Quantity string  `json:"quantity"` // one of those below
	Declared float64 `json:"declared"` // IP bytes/s, seconds, or a share
	Measured float64 `json:"measured"`
	// Error is the measured value's: a share of the declared rate, seconds, or a difference of shares.
	Error float64 `json:"error"`
	Limit float64 `json:"limit"` // what Error may be
	OK    bool    `json:"ok"`
	// Attempts is how often it was measured; the result is the best one's.
	Attempts int `json:"attempts"`
	// Skipped says why it was not measured, and is OK: the lab was told so.
	Skipped string `json:"skipped,omitempty"`
}

// The quantities.
const (
	QuantityRate    = "rate"           // of all flows together, IP bytes/s
	QuantityFlow    = "rate of a flow" // where it is held to less
	QuantityDelay   = "delay"          // one way, of a small packet, seconds
	QuantityLoss    = "loss"           // share of packets
	QuantityReached = "reached"        // 0 or 1: whether any packet came through
)

// isCut is why what is cut is not measured.
const isCut = "cut"

// A checker measures a network: a lab, or the emulator alone.
type checker struct {
	spec *Spec
	open func(host int) (net.PacketConn, error)      // a UDP socket
	link func(from, to string) (gridnet.Link, error) // as it is now
	port func(host int) gridnet.Rate
	cut  func(Link) bool // now
	// trunk is the rate of a trunk from its A end (0) or B end (1).
	trunk    func(trunk, end int) gridnet.Rate
	progress func(done, total int)
	found    func(Measurement)
}

// A probe is one measurement of several hosts' packets.
type probe struct {
	what     string
	flows    [][2]int // from host, to host; several with one pair are several flows
	quantity string
	declared float64
	hold     gridnet.Rate  // least rate on the way of one flow, for times; zero: none
	delay    time.Duration // one way, about
	jitter   time.Duration
	loss     float64
	drain    time.Duration // how long a token bucket lets more pass
	skipped  string        // why it is not measured
}

// run measures everything, one link at a time.
func (c *checker) run(ctx context.Context) error {
	probes, err := c.probes()
	if err != nil {
		return err
	}
	for i, p := range probes {
		c.progress(i, len(probes))
		if p.skipped != "" {
			c.found(Measurement{What: p.what, Quantity: QuantityReached, OK: true, Skipped: p.skipped})
			continue
		}
		m, err := c.measure(ctx, &p)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", p.what, p.quantity, err)
		}
		c.found(m)
	}
	c.progress(len(probes), len(probes))
	return nil
}

// probes lists what there is to measure.
func (c *checker) probes() ([]probe, error) {
	var list []probe
	bySite := make([][]int, len(c.spec.Sites))
	for h, s := range c.spec.Hosts {
		if c.cut(Link{From: s.Name}) {
			list = append(list, probe{what: s.Name, skipped: isCut})
			continue
		}
		bySite[s.Site] = append(bySite[s.Site], h)
	}
	for _, hosts := range bySite {
		for i, h := range hosts {
			if next := hosts[(i+1)%len(hosts)]; next != h {
				list = append(list, c.portProbes(h, next, i == 0)...)
			}
		}
	}
	for i, t := range c.spec.Trunks {
		sides := [2][]int{c.side(t.A, i, bySite), c.side(t.B, i, bySite)}
		for end := range 2 {
			if p, ok := c.trunkProbe(i, end, sides[end], sides[1-end]); ok {
				list = append(list, p)
			}
		}
	}
	if c.spec.WAN != nil {
		for _, l := range c.spec.WAN.Links {
			now, err := c.link(l.From, l.To)
			if err != nil {
				return nil, err
			}
			from := bySite[slices.Index(c.spec.Sites, l.From)]
			to := bySite[slices.Index(c.spec.Sites, l.To)]
			switch {
			case c.cut(Link{l.From, l.To}):
				list = append(list, probe{what: l.From + "→" + l.To, skipped: isCut})
			case now.BlockUDP:
				list = append(list, probe{what: l.From + "→" + l.To, skipped: "UDP is blocked"})
			case len(from) > 0 && len(to) > 0:
				list = append(list, c.linkProbes(now, from, to)...)
			}
		}
	}
	return list, nil
}

func (c *checker) portProbes(from, to int, withDelay bool) []probe {
	p := probe{
		what:  c.spec.Hosts[from].Name + "→" + c.spec.Hosts[to].Name,
		flows: [][2]int{{from, to}},
		hold:  least(c.port(from), c.port(to)),
	}
	var list []probe
	if withDelay {
		d := p
		d.quantity = QuantityDelay
		d.declared = c.spec.Emulated.Sites[c.spec.Hosts[from].Site].Latency.Seconds()
		list = append(list, d)
	}
	if p.hold > 0 {
		p.quantity, p.declared = QuantityRate, float64(p.hold)
		list = append(list, p)
	}
	return list
}

// side returns the hosts that are on the side of a bridge when trunk is cut, nearest first.
func (c *checker) side(site, trunk int, bySite [][]int) []int {
	hosts := slices.Clone(bySite[site])
	for i, t := range c.spec.Trunks {
		switch {
		case i == trunk || c.cut(c.spec.cable(i, 0)):
		case t.A == site:
			hosts = append(hosts, c.side(t.B, i, bySite)...)
		case t.B == site:
			hosts = append(hosts, c.side(t.A, i, bySite)...)
		}
	}
	return hosts
}

// trunkProbe loads a trunk from two hosts to two where it can: one alone might be held by its port.
func (c *checker) trunkProbe(trunk, end int, from, to []int) (probe, bool) {
	cable := c.spec.cable(trunk, end)
	if c.cut(cable) {
		return probe{what: cable.String(), skipped: isCut}, true
	}
	r := c.trunk(trunk, end)
	if len(from) == 0 || len(to) == 0 || r == 0 {
		return probe{}, false
	}
	p := probe{what: cable.String(), quantity: QuantityRate, hold: r}
	for i := range min(2, len(from), len(to)) {
		p.flows = append(p.flows, [2]int{from[i], to[i]})
	}
	p.declared = float64(c.reach(p.flows, r))
	return p, true
}

// reach is what flows get together over a link of rate r between ports, which flows of one host share.
func (c *checker) reach(flows [][2]int, r gridnet.Rate) gridnet.Rate {
	free := make(map[[2]int]gridnet.Rate) // of a host's port, out (0) or in (1)
	left := func(host, way int) gridnet.Rate {
		if v, ok := free[[2]int{host, way}]; ok {
			return v
		}
		return gridnet.Rate(cmp.Or(float64(c.port(host)), math.Inf(1)))
	}
	var sum gridnet.Rate
	for _, f := range flows {
		out, in := left(f[0], 0), left(f[1], 1)
		one := min(out, in, r)
		free[[2]int{f[0], 0}], free[[2]int{f[1], 1}] = out-one, in-one
		sum += one
	}
	return min(sum, r)
}

func (c *checker) linkProbes(l gridnet.Link, from, to []int) []probe {
	ports := least(c.port(from[0]), c.port(to[0]))
	base := probe{
		what: l.From + "→" + l.To, flows: [][2]int{{from[0], to[0]}},
		delay: l.Latency, jitter: l.Jitter, loss: l.Loss,
		hold: least(least(l.Sustained(), l.FlowRate), ports),
	}
	delay := base
	delay.quantity, delay.declared = QuantityDelay, l.Latency.Seconds()
	delay.hold = least(least(l.Rate, l.FlowRate), ports) // so few bytes are within any burst
	list := []probe{delay}
	if l.Loss > 0 {
		loss := base
		loss.quantity, loss.declared = QuantityLoss, l.Loss
		list = append(list, loss)
	}
	if l.FlowRate > 0 {
		flow := base
		flow.quantity, flow.declared = QuantityFlow, float64(base.hold)
		list = append(list, flow)
	}
	if l.Sustained() > 0 {
		all := base
		all.quantity = QuantityRate
		all.flows = nil
		for i := range c.flowsFor(l) {
			all.flows = append(all.flows, [2]int{from[i%len(from)], to[i%len(to)]})
		}
		all.declared = float64(c.reach(all.flows, l.Sustained()))
		all.drain = c.drain(l, all.flows)
		list = append(list, all)
	}
	return list
}

// drain is how long the token bucket of a link lets more pass than its rate when flows send [shapedOverload] times that.
func (c *checker) drain(l gridnet.Link, flows [][2]int) time.Duration {
	fill := min(l.Rate, shapedOverload*l.ShapeRate)
	if l.FlowRate > 0 {
		fill = min(fill, gridnet.Rate(len(flows))*l.FlowRate)
	}
	if fill = c.reach(flows, fill); l.ShapeRate == 0 || fill <= l.ShapeRate {
		return 0
	}
	return min(seconds(float64(l.ShapeBurst)/float64(fill-l.ShapeRate)), maxDrain)
}

// flowsFor is how many flows fill a link: with a ceiling, two more than would do.
func (c *checker) flowsFor(l gridnet.Link) int {
	if l.FlowRate == 0 {
		return 1
	}
	const most = 64
	return min(int(math.Ceil(float64(l.Sustained()/l.FlowRate)))+2, most)
}

// least returns the smaller of two rates, of which zero is no limit.
func least(a, b gridnet.Rate) gridnet.Rate {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
