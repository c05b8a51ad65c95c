package pools

import (
	"fmt"
	"strings"

	"github.com/gridagent/gridagent/probe/netmap"
)

// maxOutline bounds an outline, in bytes: it stands in log lines.
const maxOutline = 240

// outline draws the tree in one line: "UT | {UK | NTH}".
func (t *Tree) outline() string {
	perSite := map[string]int{}
	for _, h := range t.Hosts {
		perSite[h.Site]++
	}
	if t.Root.Leaf() {
		return "one pool, " + t.label(t.Root, perSite)
	}
	var b strings.Builder
	var draw func(p *Pool, depth int)
	draw = func(p *Pool, depth int) {
		if b.Len() > maxOutline {
			return
		}
		if p.Leaf() {
			b.WriteString(t.label(p, perSite))
			return
		}
		if depth > 0 {
			b.WriteByte('{')
			defer b.WriteByte('}')
		}
		for i, c := range p.Children {
			if i > 0 {
				b.WriteString(" | ")
			}
			draw(c, depth+1)
		}
	}
	draw(t.Root, 0)
	if s := b.String(); len(s) > maxOutline {
		return strings.ToValidUTF8(s[:maxOutline], "") + "…"
	}
	return b.String()
}

// hostNews says how the hosts differ, both by name: "host c3 joined", "hosts a, b left";
// empty if they do not.
func hostNews(before, now []netmap.Host) string {
	was := make(map[string]string, len(before))
	for _, h := range before {
		was[h.Name] = h.Site
	}
	var joined, left, moved []string
	is := make(map[string]bool, len(now))
	for _, h := range now {
		is[h.Name] = true
		site, ok := was[h.Name]
		switch {
		case !ok:
			joined = append(joined, h.Name)
		case site != h.Site:
			moved = append(moved, h.Name)
		}
	}
	for _, h := range before {
		if !is[h.Name] {
			left = append(left, h.Name)
		}
	}
	var parts []string
	for _, p := range []struct {
		names []string
		verb  string
	}{{joined, "joined"}, {left, "left"}, {moved, "changed the site label"}} {
		if len(p.names) > 0 {
			parts = append(parts, listHosts(p.names)+" "+p.verb)
		}
	}
	return strings.Join(parts, ", ")
}

// maxListed is how many hosts a sentence names.
const maxListed = 5

func listHosts(names []string) string {
	if len(names) == 1 {
		return "host " + names[0]
	}
	more := ""
	if extra := len(names) - maxListed; extra > 0 {
		names, more = names[:maxListed], fmt.Sprintf(" and %d more", extra)
	}
	return "hosts " + strings.Join(names, ", ") + more
}

// A turn is the change of an estimate that turned one tree into another.
type turn struct {
	from, to    string // hosts, or sites where the whole direction changed alike
	before, now float64
	factor      float64 // by which it moved, 1 or more
	broad       bool    // most pairs of the direction between two sites have moved like it
	lone        bool    // most of them have hardly moved
}

func (t turn) String() string {
	verb := "rose"
	switch {
	case t.factor < 1.005:
		return "links have moved past a threshold"
	case t.now < t.before:
		verb = "fell"
	}
	mbps := func(v float64) string {
		return formatMbps(netmap.BytesPerSec(v), 3)
	}
	return fmt.Sprintf("%s→%s %s from %s to %s Mbit/s", t.from, t.to, verb, mbps(t.before), mbps(t.now))
}

// turn finds what made the candidate differ from the current tree: of the pairs that it puts
// closer together or further apart, the one whose link moved most since the current one took
// over. A link is as wide as its narrower direction; the one named is that which made it narrow.
func (t *Tracker) turn() turn {
	n := len(t.hosts)
	before, now := together(t.cur.Tree.Root, n), together(t.cand.Root, n)
	best, most := -1, 0.0
	for _, all := range []bool{false, true} {
		for at := range t.pairs {
			back := at%n*n + at/n
			if at/n >= at%n || !all && before[at] == now[at] {
				continue
			}
			was, is := min(t.ref[at], t.ref[back]), min(t.pairs[at].out, t.pairs[back].out)
			if r := ratio(was, is); r > most {
				best, most = at, r
				if is < was && t.pairs[back].out == is || is > was && t.ref[back] == was {
					best = back
				}
			}
		}
		if best >= 0 && most > 1.005 {
			break // else a pair that itself stayed where it was decided by what others did
		}
	}
	if best < 0 {
		return turn{}
	}
	i, j := best/n, best%n
	found := turn{from: t.hosts[i].Name, to: t.hosts[j].Name, before: t.ref[best], now: t.pairs[best].out}
	found.factor = ratio(found.before, found.now)
	a, b := t.hosts[i].Site, t.hosts[j].Site
	if a == "" || b == "" || a == b {
		return found
	}
	// The whole direction, if most of its pairs have gone the same way about as far.
	var refs, outs []float64
	for k := range t.pairs {
		if t.hosts[k/n].Site == a && t.hosts[k%n].Site == b {
			refs, outs = append(refs, t.ref[k]), append(outs, t.pairs[k].out)
		}
	}
	was, is := middle(refs), middle(outs)
	if (is < was) == (found.now < found.before) && ratio(is, was) > 1+(found.factor-1)/2 {
		found.from, found.to, found.before, found.now, found.broad = a, b, was, is, len(refs) > 1
	}
	found.lone = found.factor > largeChange && ratio(is, was) <= 1+t.cfg.Margin
	return found
}

// together returns for each pair of n hosts, row-major, how many hosts the smallest pool
// below root has that holds both.
func together(root *Pool, n int) []int {
	size := make([]int, n*n)
	t := Tree{Root: root}
	t.Walk(func(p *Pool, _ int) bool {
		for _, i := range p.Hosts {
			for _, j := range p.Hosts {
				size[i*n+j] = len(p.Hosts)
			}
		}
		return true
	})
	return size
}
