package lab

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Link names what [Lab.Change] and [Lab.Cut] work on: the directed link or trunk between two
// sites or switches, or with To empty the port of a host.
type Link struct {
	From string `json:"from"`
	To   string `json:"to,omitempty"`
}

func (l Link) String() string {
	if l.To == "" {
		return l.From
	}
	return l.From + "→" + l.To
}

// A Change is what is to be different; what is nil stays as it is.
type Change struct {
	Bandwidth *float64       `json:"bandwidth,omitempty"` // what one flow gets, IP bytes/s; of a port or trunk: its rate
	Capacity  *float64       `json:"capacity,omitempty"`  // what all flows get together
	Latency   *time.Duration `json:"latency,omitempty"`   // one way
	Jitter    *time.Duration `json:"jitter,omitempty"`
	Loss      *float64       `json:"loss,omitempty"` // 0 … 1
	Queue     *int           `json:"queue,omitempty"`
	BlockUDP  *bool          `json:"block_udp,omitempty"`
	BlockTCP  *bool          `json:"block_tcp,omitempty"`
}

// Change changes a link while it is in use, and with both the one back as well: all of it or nothing.
// Where a link holds one flow to less than its capacity, bandwidth is that ceiling; where
// all share one pipe, it is the pipe's.
func (l *Lab) Change(link Link, both bool, c Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if link.To == "" {
		return l.changePort(link.From, c)
	}
	if i, reverse := l.spec.Trunk(link.From, link.To); i >= 0 {
		return l.changeTrunk(i, reverse, both, c)
	}
	if l.wan == nil {
		return l.noLink(link)
	}
	if _, err := l.wan.net.Link(link.From, link.To); err != nil {
		return l.noLink(link)
	}
	before, err := l.changeLink(link, c)
	if err != nil || !both {
		return err
	}
	back := Link{link.To, link.From}
	if _, err := l.wan.net.Link(back.From, back.To); err != nil {
		return nil // a one-way link is no mistake
	}
	if _, err := l.changeLink(back, c); err != nil {
		undo := l.wan.net.SetLink(link.From, link.To, func(g *gridnet.Link) { *g = before })
		return errors.Join(err, undo)
	}
	return nil
}

// changeLink changes a link between sites and returns it as it was.
func (l *Lab) changeLink(link Link, c Change) (before gridnet.Link, err error) {
	var wrong error
	err = l.wan.net.SetLink(link.From, link.To, func(g *gridnet.Link) {
		before = *g
		wrong = c.apply(g)
	})
	if wrong != nil {
		err = fmt.Errorf("link %v: %w", link, wrong)
	}
	return before, err
}

// apply edits g. On an error g is unchanged.
func (c *Change) apply(g *gridnet.Link) error {
	n := *g
	capacity := &n.Rate
	if n.ShapeRate > 0 {
		capacity = &n.ShapeRate // the rate is what bursts pass at
	}
	shared := n.FlowRate == 0
	flow := n.FlowRate
	if shared {
		flow = *capacity
	}
	if c.Bandwidth != nil {
		flow = gridnet.Rate(*c.Bandwidth)
		if shared {
			*capacity = flow
		}
	}
	if c.Capacity != nil {
		*capacity = gridnet.Rate(*c.Capacity)
	}
	switch {
	case flow > *capacity:
		return fmt.Errorf("one flow cannot get %s of a capacity of %s; give both --bandwidth and --capacity",
			rate(flow), rate(*capacity))
	case n.ShapeRate > 0 && n.ShapeRate >= n.Rate:
		return fmt.Errorf("a capacity of %s is not less than the %s at which the link's bursts pass", rate(n.ShapeRate), rate(n.Rate))
	}
	n.FlowRate = 0
	if flow < *capacity {
		n.FlowRate = flow
	}
	if c.Latency != nil {
		n.Latency = *c.Latency
	}
	if c.Jitter != nil {
		n.Jitter = *c.Jitter
	}
	if c.Loss != nil {
		n.Loss = *c.Loss
	}
	if c.Queue != nil {
		n.Queue = *c.Queue
	}
	if c.BlockUDP != nil {
		n.BlockUDP = *c.BlockUDP
	}
	if c.BlockTCP != nil {
		n.BlockTCP = *c.BlockTCP
	}
	*g = n
	return nil
}

func rate(r gridnet.Rate) string { return gridfile.FormatRate(netmap.BytesPerSec(r)) }

// onlyRate refuses what the kernel's cables cannot do.
func (c *Change) onlyRate(what string) (gridnet.Rate, error) {
	if c.Bandwidth == nil || c.Capacity != nil || c.Latency != nil || c.Jitter != nil || c.Loss != nil || c.Queue != nil || c.BlockUDP != nil || c.BlockTCP != nil {
		return 0, fmt.Errorf("%s has only a bandwidth to set; capacity, latency, jitter, loss, queue and what becomes of UDP and TCP are of links between sites", what)
	}
	r := gridnet.Rate(*c.Bandwidth)
	if r == 0 {
		return 0, fmt.Errorf("%s: bandwidth of 0: want more", what)
	}
	return r, checkRate(what, r)
}

func (l *Lab) changePort(host string, c Change) error {
	i := l.spec.Host(host)
	if i < 0 {
		return l.noLink(Link{From: host})
	}
	r, err := c.onlyRate("the port of host " + host)
	if err != nil {
		return err
	}
	h := l.fabric.hosts[i]
	if err := setShape(h.handle, h.inside, r, h.shape.Out); err != nil {
		return fmt.Errorf("host %s: %w", host, err)
	}
	if err := setShape(l.fabric.handle, h.port, r, h.shape.Queue); err != nil {
		return fmt.Errorf("host %s: %w", host, err)
	}
	h.shape.Rate = r
	return nil
}

func (l *Lab) changeTrunk(i int, reverse, both bool, c Change) error {
	t := l.spec.Trunks[i]
	r, err := c.onlyRate(fmt.Sprintf("the cable %s – %s", l.spec.Sites[t.A], l.spec.Sites[t.B]))
	if err != nil {
		return err
	}
	for end := range 2 {
		if !both && reverse != (end == 1) {
			continue
		}
		if err := setShape(l.fabric.handle, l.fabric.trunks[i].ends[end], r, t.Shape.Queue); err != nil {
			return err
		}
		l.fabric.trunks[i].rate[end] = r
	}
	return nil
}

// Cut pulls a cable or, with cut false, heals it: of a host; of a trunk, in both directions;
// of a link between sites in the direction given, and with both in the other one too.
func (l *Lab) Cut(link Link, both, cut bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := func(end netlink.Link) error {
		if cut {
			return l.fabric.handle.LinkSetDown(end)
		}
		return l.fabric.handle.LinkSetUp(end)
	}
	back := Link{link.To, link.From}
	if link.To == "" {
		i := l.spec.Host(link.From)
		if i < 0 {
			return l.noLink(link)
		}
		if err := set(l.fabric.hosts[i].port); err != nil {
			return fmt.Errorf("host %s: %w", link.From, err)
		}
		l.cut[link] = cut
		return nil
	}
	if i, _ := l.spec.Trunk(link.From, link.To); i >= 0 {
		ends := l.fabric.trunks[i].ends
		l.cut[link], l.cut[back] = cut, cut
		return errors.Join(set(ends[0]), set(ends[1]))
	}
	if l.wan == nil || l.wan.net.CutLink(link.From, link.To, cut) != nil {
		return l.noLink(link)
	}
	l.cut[link] = cut
	if both && l.wan.net.CutLink(back.From, back.To, cut) == nil {
		l.cut[back] = cut
	}
	return nil
}

func (l *Lab) noLink(link Link) error {
	var have []string
	for _, k := range l.spec.Links() {
		have = append(have, k.From+" "+k.To)
	}
	if len(have) == 0 {
		have = append(have, "none but the hosts' ports")
	}
	if link.To == "" {
		return fmt.Errorf("no host %q; name a host, or the two ends of a link: %s", link.From, shorten(have))
	}
	return fmt.Errorf("no link %s; the links are %s", link, shorten(have))
}
