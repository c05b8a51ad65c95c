package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Lab is a running lab, in the supervisor.
type Lab struct {
	spec   *Spec
	fabric *fabric
	wan    *forwarder // nil for a switch tree
	begun  time.Time

	checking sync.Mutex // held by the check that runs

	mu  sync.Mutex      // guards cut; held over the kernel's answer to a change, so that changes come one by one
	cut map[string]bool // hosts whose cable is out
}

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
}

// parse reads a grid or switch-tree file as a Spec.
func (r *Request) parse() (*Spec, error) {
	if isTopology(r.Data) {
		t, err := plan.ReadTopology(r.File, r.Data)
		if err != nil {
			return nil, err
		}
		if r.LinkRate > 0 {
			t = t.WithBandwidth(netmap.BytesPerSec(r.LinkRate))
		}
		return FromTopology(t)
	}
	if r.LinkRate > 0 {
		return nil, fmt.Errorf("%s: a link rate is for switch trees; a grid file says the rate of each link", r.File)
	}
	g, err := gridfile.Parse(r.File, r.Data)
	if err != nil {
		return nil, err
	}
	s, err := FromGrid(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return s, nil
}

// isTopology tells the two kinds of file apart: only one has switches.
func isTopology(data []byte) bool {
	var v struct {
		Switches json.RawMessage `json:"switches"`
	}
	return json.Unmarshal(data, &v) == nil && v.Switches != nil
}

// newLab makes the lab in the network namespace of this process.
func newLab(req *Request, id string, log func(string, ...any)) (*Lab, error) {
	spec, err := req.parse()
	if err != nil {
		return nil, err
	}
	l := &Lab{spec: spec, begun: time.Now(), cut: make(map[string]bool)}
	if l.fabric, err = build(spec, id, req.Congestion); err != nil {
		return nil, err
	}
	if spec.WAN != nil {
		cfg := *spec.WAN
		cfg.Seed = req.Seed
		if l.wan, err = forward(cfg, l.fabric.taps, log); err != nil {
			l.fabric.close()
			return nil, err
		}
	}
	return l, nil
}

// Close ends the processes in the hosts and takes everything down.
func (l *Lab) Close() error {
	inodes := make(map[uint64]bool)
	for _, h := range l.fabric.hosts {
		inodes[h.ns.inode] = true
	}
	var err error
	if left := endProcesses(inodes, nil); len(left) > 0 {
		err = fmt.Errorf("processes %v do not end", left)
	}
	if l.wan != nil {
		err = errors.Join(err, l.wan.close())
	}
	l.fabric.close()
	return err
}

// Change changes a link while it is in use. Where a link holds one flow to less than its
// capacity, bandwidth is that ceiling; where all share one pipe, it is the pipe's.
func (l *Lab) Change(link Link, c Change) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if link.To == "" {
		return l.changePort(link.From, c)
	}
	if i, reverse := l.spec.Trunk(link.From, link.To); i >= 0 {
		return l.changeTrunk(i, reverse, c)
	}
	if l.wan == nil {
		return l.noLink(link)
	}
	var wrong error
	err := l.wan.net.SetLink(link.From, link.To, func(g *gridnet.Link) { wrong = c.apply(g) })
	if wrong != nil {
		return fmt.Errorf("link %v: %w", link, wrong)
	}
	return err
}

// apply edits g. On an error g is unchanged.
func (c *Change) apply(g *gridnet.Link) error {
	n := *g
	shared := n.FlowRate == 0
	flow := n.FlowRate
	if shared {
		flow = n.Rate
	}
	if c.Bandwidth != nil {
		flow = gridnet.Rate(*c.Bandwidth)
		if shared {
			n.Rate = flow
		}
	}
	if c.Capacity != nil {
		n.Rate = gridnet.Rate(*c.Capacity)
	}
	if flow > n.Rate {
		return fmt.Errorf("one flow cannot get %s of a capacity of %s; give both --bandwidth and --capacity",
			rate(flow), rate(n.Rate))
	}
	n.FlowRate = 0
	if flow < n.Rate {
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
	*g = n
	return nil
}

func rate(r gridnet.Rate) string { return gridfile.FormatRate(netmap.BytesPerSec(r)) }

// onlyRate refuses what the kernel's cables cannot do.
func (c *Change) onlyRate(what string) (gridnet.Rate, error) {
	if c.Bandwidth == nil || c.Capacity != nil || c.Latency != nil || c.Jitter != nil || c.Loss != nil || c.Queue != nil {
		return 0, fmt.Errorf("%s has only a bandwidth to set; capacity, latency, jitter, loss and queue are of links between sites", what)
	}
	if *c.Bandwidth < 1000 {
		return 0, fmt.Errorf("%s: bandwidth of %s: want at least 0.008Mbps", what, rate(gridnet.Rate(*c.Bandwidth)))
	}
	return gridnet.Rate(*c.Bandwidth), nil
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
	h.shape.Rate = r
	return errors.Join(
		setShape(h.handle, h.inside, r, h.shape.Out),
		setShape(l.fabric.handle, h.port, r, h.shape.Queue))
}

func (l *Lab) changeTrunk(i int, reverse bool, c Change) error {
	t := l.spec.Trunks[i]
	r, err := c.onlyRate(fmt.Sprintf("the cable %s – %s", l.spec.Sites[t.A], l.spec.Sites[t.B]))
	if err != nil {
		return err
	}
	end := 0
	if reverse {
		end = 1
	}
	l.fabric.trunks[i].rate[end] = r
	return setShape(l.fabric.handle, l.fabric.trunks[i].ends[end], r, t.Shape.Queue)
}

// Cut pulls a cable or heals it: of a host, of a trunk in both directions, or of a link between
// sites in the direction given.
func (l *Lab) Cut(link Link, cut bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := l.fabric.handle.LinkSetUp
	if cut {
		set = l.fabric.handle.LinkSetDown
	}
	if link.To == "" {
		i := l.spec.Host(link.From)
		if i < 0 {
			return l.noLink(link)
		}
		l.cut[link.From] = cut
		return set(l.fabric.hosts[i].port)
	}
	if i, _ := l.spec.Trunk(link.From, link.To); i >= 0 {
		ends := l.fabric.trunks[i].ends
		return errors.Join(set(ends[0]), set(ends[1]))
	}
	if l.wan == nil {
		return l.noLink(link)
	}
	return l.wan.net.CutLink(link.From, link.To, cut)
}

// Reaches tells whether there is a link or trunk of this name.
func (l *Lab) Reaches(link Link) bool {
	if i, _ := l.spec.Trunk(link.From, link.To); i >= 0 {
		return true
	}
	if l.wan == nil {
		return false
	}
	_, err := l.wan.net.Link(link.From, link.To)
	return err == nil
}

func (l *Lab) noLink(link Link) error {
	var have []string
	if l.wan != nil {
		for _, w := range l.spec.WAN.Links {
			have = append(have, w.From+" "+w.To)
		}
	}
	for _, t := range l.spec.Trunks {
		have = append(have, l.spec.Sites[t.A]+" "+l.spec.Sites[t.B])
	}
	if len(have) == 0 {
		have = append(have, "none but the hosts' ports")
	}
	if link.To == "" {
		return fmt.Errorf("no host %q; name a host, or the two ends of a link: %s", link.From, shorten(have))
	}
	return fmt.Errorf("no link %s; the links are %s", link, shorten(have))
}

// counters reads the counters of a link anew.
func (f *fabric) counters(link netlink.Link) (*netlink.LinkStatistics, error) {
	fresh, err := f.handle.LinkByIndex(link.Attrs().Index)
	if err != nil {
		return nil, err
	}
	if s := fresh.Attrs().Statistics; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%s has no counters", link.Attrs().Name)
}
