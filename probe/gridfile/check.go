package gridfile

import (
	"fmt"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A place is what a fault of a grid is about, so that the parser can tell the line.
type place struct {
	section string // "sites" or "wan"
	index   int    // -1: the section as a whole
	key     string // empty: the entry as a whole
}

// Check says why g is no grid: a value out of range, names that collide, a link twice or
// missing. Every ordered pair of sites needs a link of its own; there is no routing over a
// third site. Of the matrix form all was checked when it was read.
func (g *Grid) Check() error {
	if g.matrix != nil {
		return nil
	}
	_, err := g.check()
	return err
}

func (g *Grid) check() (place, error) {
	if at, err := g.checkSites(); err != nil {
		return at, err
	}
	first := map[[2]int]bool{}
	for i, l := range g.WAN {
		if key, err := g.checkLink(l); err != nil {
			return place{"wan", i, key}, err
		}
		if first[[2]int{l.From, l.To}] {
			return place{"wan", i, ""}, fmt.Errorf("the link %s is given twice", g.pair(l.From, l.To))
		}
		first[[2]int{l.From, l.To}] = true
	}
	for i := range g.Sites {
		for j := range g.Sites {
			if i != j && !first[[2]int{i, j}] {
				return place{"wan", -1, ""}, fmt.Errorf("no link %s; every ordered pair of sites needs one, or `both: true` on the link back", g.pair(i, j))
			}
		}
	}
	return place{}, nil
}

func (g *Grid) pair(from, to int) string { return g.Sites[from].Name + "→" + g.Sites[to].Name }

func (g *Grid) checkSites() (place, error) {
	if len(g.Sites) == 0 {
		return place{"sites", -1, ""}, fmt.Errorf("sites is empty")
	}
	names := map[string]string{} // lower case, as host names are made of it
	total := 0
	for i, s := range g.Sites {
		at := func(key string) place { return place{"sites", i, key} }
		if err := checkSiteName(s.Name); err != nil {
			return at("name"), err
		}
		lower := strings.ToLower(s.Name)
		if other, dup := names[lower]; dup {
			return at("name"), fmt.Errorf("the site %s is given twice (%s); host names are in lower case", s.Name, other)
		}
		names[lower] = s.Name
		if s.Hosts < 1 || s.Hosts > MaxHosts {
			return at("hosts"), fmt.Errorf("hosts: %d is not in 1 … %d", s.Hosts, MaxHosts)
		}
		if total += s.Hosts; total > MaxHosts {
			return at("hosts"), fmt.Errorf("hosts: %d up to here, more than %d in all", total, MaxHosts)
		}
		if s.Hosts == 1 && s.LAN == (LAN{}) {
			continue // nobody to talk to
		}
		if err := checkRate("lan: bandwidth", s.LAN.Bandwidth); err != nil {
			return at("lan"), err
		}
		if err := firstError(checkDelay("lan: latency", s.LAN.Latency), checkDelay("lan: jitter", s.LAN.Jitter), checkQueue(s.LAN.Queue)); err != nil {
			return at("lan"), err
		}
	}
	// "a" with 11 hosts and "a1" with one both have a host a10.
	owner := map[string]int{}
	for i, s := range g.Sites {
		for k := range s.Hosts {
			name := g.HostName(i, k)
			if other, dup := owner[name]; dup {
				return place{"sites", i, "name"}, fmt.Errorf("the sites %s and %s both have a host %s; rename one", g.Sites[other].Name, s.Name, name)
			}
			owner[name] = i
		}
	}
	return place{}, nil
}

// checkSiteName accepts what can stand in a host name and a metric label.
func checkSiteName(name string) error {
	if name == "" {
		return fmt.Errorf("name: a site without a name")
	}
	if len(name) > 63 {
		return fmt.Errorf("name: %.20q… has %d bytes, more than 63", name, len(name))
	}
	for _, r := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return fmt.Errorf("name: %q holds %q; write letters, digits, '-', '_' and '.'", name, r)
		}
	}
	return nil
}

// checkLink returns the key that a fault of l is about, and the fault.
func (g *Grid) checkLink(l Link) (key string, err error) {
	if l.From < 0 || l.From >= len(g.Sites) {
		return "from", fmt.Errorf("site %d of %d", l.From, len(g.Sites))
	}
	if l.To < 0 || l.To >= len(g.Sites) {
		return "to", fmt.Errorf("site %d of %d", l.To, len(g.Sites))
	}
	if l.From == l.To {
		return "to", fmt.Errorf("%s→%[1]s is no wide-area link; describe it under lan", g.Sites[l.From].Name)
	}
	for _, f := range []struct {
		key string
		err error
	}{
		{"bandwidth", checkRate("bandwidth", l.Bandwidth)},
		{"capacity", checkRate("capacity", l.Capacity)},
		{"latency", checkDelay("latency", l.Latency)},
		{"jitter", checkDelay("jitter", l.Jitter)},
		{"queue", checkQueue(l.Queue)},
	} {
		if f.err != nil {
			return f.key, f.err
		}
	}
	switch {
	case l.Capacity < l.Bandwidth:
		return "capacity", fmt.Errorf("capacity: all flows get %s together, less than the %s of one", FormatRate(l.Capacity), FormatRate(l.Bandwidth))
	case !(l.Loss >= 0 && l.Loss < 1):
		return "loss", fmt.Errorf("loss: %s leaves nothing", FormatPercent(l.Loss))
	case l.HeldBy != "" && l.HeldBy != HeldByCeiling && l.HeldBy != HeldByLoss:
		return "held_by", fmt.Errorf("held_by: %q is not %s or %s", string(l.HeldBy), HeldByCeiling, HeldByLoss)
	case l.HeldBy == HeldByLoss && l.Loss == 0:
		return "held_by", fmt.Errorf("held_by: loss, but the link loses nothing")
	case l.Burst < 0 || l.Burst > 0 && l.Burst < packet:
		return "burst", fmt.Errorf("burst: %s does not hold a packet of %s", FormatSize(l.Burst), FormatSize(packet))
	case l.Burst == 0 && l.Peak != 0:
		return "peak", fmt.Errorf("peak: a burst is missing, which passes at this rate")
	case l.Burst > 0 && !(l.Peak > l.Capacity && l.Peak <= netmap.MaxRate):
		return "peak", fmt.Errorf("peak: a burst passes at %s, which is not more than the capacity, %s", FormatRate(l.Peak), FormatRate(l.Capacity))
	}
	return "", nil
}

// packet is a full packet on the wire, in bytes: the unit of queues.
const packet = 1500

func checkRate(what string, r netmap.BytesPerSec) error {
	if r == 0 {
		return fmt.Errorf("%s: missing or zero", what)
	}
	if !(r >= 1 && r <= netmap.MaxRate) {
		return fmt.Errorf("%s: %s is not in 8bps … %s", what, FormatRate(r), FormatRate(netmap.MaxRate))
	}
	return nil
}

func checkDelay(what string, d time.Duration) error {
	if d < 0 || d > netmap.MaxLatency {
		return fmt.Errorf("%s: %v is not in 0s … %v", what, d, netmap.MaxLatency)
	}
	return nil
}

// maxQueue packets are 1.5 GB: more is a slip of the pen.
const maxQueue = 1_000_000

func checkQueue(n int) error {
	if n < 0 || n > maxQueue {
		return fmt.Errorf("queue: %d packets is not in 0 … %d", n, maxQueue)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
