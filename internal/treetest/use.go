package treetest

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// A LinkUse is what a link between two sites carried during a plan, in bins of [Config.Watch] from its start.
type LinkUse struct {
	From, To string
	Busy     []float64 // share of its rate, by bin; headers, acknowledgements and what it then lost count
	Lost     []int     // packets that its queue had no room for or that it lost, by bin
}

// Over returns the share of its rate that u used from the start to the end of the last of n bins.
func (u *LinkUse) Over(n int) float64 {
	var sum float64
	for _, b := range u.Busy[:min(n, len(u.Busy))] {
		sum += b
	}
	return sum / float64(max(n, 1))
}

// String is u for people: in percent, with the lost packets of a bin in brackets.
func (u *LinkUse) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s→%s", u.From, u.To)
	for i, busy := range u.Busy {
		fmt.Fprintf(&b, " %.0f", 100*busy)
		if u.Lost[i] > 0 {
			fmt.Fprintf(&b, "(%d)", u.Lost[i])
		}
	}
	return b.String()
}

// maxBins bounds what is kept of a plan.
const maxBins = 1 << 14

// A recorder sees the packets of a network.
type recorder struct {
	bin   time.Duration
	links []gridnet.Link

	mu    sync.Mutex // guards what follows; the network's loop calls see
	sites map[netip.Addr]string
	uses  map[[2]string]*LinkUse // nil: nobody wants to know
	began time.Duration          // -1: with the next packet
}

// record has cfg tell a recorder, nil where bin is 0.
func record(cfg *gridnet.Config, bin time.Duration) *recorder {
	if bin <= 0 {
		return nil
	}
	r := &recorder{bin: bin, links: cfg.Links, sites: make(map[netip.Addr]string)}
	also := cfg.OnPacket
	cfg.OnPacket = func(e gridnet.Event) {
		r.see(e)
		if also != nil {
			also(e)
		}
	}
	return r
}

// know notes which addresses hosts have. It is called before the first packet.
func (r *recorder) know(n *gridnet.Network, sites map[string]string) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for host, site := range sites {
		a, err := n.Addr(host)
		if err != nil {
			return err
		}
		r.sites[a] = site
	}
	return nil
}

// begin forgets what was seen: a plan starts now.
func (r *recorder) begin() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses, r.began = make(map[[2]string]*LinkUse), -1
}

// end returns what was seen of each link since begin.
func (r *recorder) end() (uses []LinkUse) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if u := r.uses[[2]string{l.From, l.To}]; u != nil && l.Rate > 0 {
			for i := range u.Busy {
				u.Busy[i] /= float64(l.Rate) * r.bin.Seconds()
			}
			uses = append(uses, *u)
		}
	}
	r.uses = nil
	return uses
}

// see counts a packet that crossed a link, or that it dropped. Busy is in bytes until end.
func (r *recorder) see(e gridnet.Event) {
	if e.Kind != gridnet.Crossed && e.Kind != gridnet.Dropped {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	pair := [2]string{r.sites[e.Src.Addr()], r.sites[e.Dst.Addr()]}
	if r.uses == nil || pair[0] == pair[1] {
		return
	}
	if r.began < 0 {
		r.began = e.At
	}
	i := int((e.At - r.began) / r.bin)
	if i < 0 || i >= maxBins {
		return
	}
	u := r.uses[pair]
	if u == nil {
		u = &LinkUse{From: pair[0], To: pair[1]}
		r.uses[pair] = u
	}
	for len(u.Busy) <= i {
		u.Busy, u.Lost = append(u.Busy, 0), append(u.Lost, 0)
	}
	if e.Kind == gridnet.Crossed || e.Reason == gridnet.Lost { // a packet is lost behind the bottleneck
		u.Busy[i] += float64(e.Size)
	}
	if e.Kind == gridnet.Dropped {
		u.Lost[i]++
	}
}
