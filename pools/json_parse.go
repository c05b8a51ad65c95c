package pools

import (
	"slices"

	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/netmap"
)

var (
	treeKeys = []string{"criterion", "band", "root"}
	poolKeys = []string{"threshold_mbps", "hosts", "children"}
)

// Read reads a tree from its JSON form and fits it to hosts: every host must stand in
// exactly one leaf. A pool with children may leave out its own hosts; thresholds are
// optional and not used for anything but display. The order of children does not matter,
// and unknown keys are passed over. The tree returned passes [Tree.Check].
//
// Errors are [*jsonwalk.Error] with name, which may be empty, line and reason.
func Read(name string, data []byte, hosts []netmap.Host) (*Tree, error) {
	c, err := jsonwalk.New(name, data)
	if err != nil {
		return nil, err
	}
	r := treeReader{Cursor: c, hosts: hosts, index: make(map[string]int, len(hosts))}
	for i, h := range hosts {
		r.index[h.Name] = i
	}
	t := &Tree{Hosts: slices.Clone(hosts)}
	root := 0
	_, err = c.Fields(treeKeys, func(k int) (err error) {
		switch treeKeys[k] {
		case "criterion":
			var s string
			s, err = c.Text()
			t.Criterion = Criterion(s)
		case "band":
			t.Band, err = r.number(1)
		case "root":
			c.Peek()
			root = c.Pos()
			t.Root, err = r.pool()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if t.Root == nil {
		return nil, c.Fail(0, "root is missing")
	}
	for i, h := range hosts {
		if _, in := slices.BinarySearch(t.Root.Hosts, i); !in {
			return nil, c.Fail(root, "host %q is in no pool", h.Name)
		}
	}
	return t, nil
}

// A treeReader turns names into indices as it reads.
type treeReader struct {
	*jsonwalk.Cursor
	hosts []netmap.Host
	index map[string]int // of each name in hosts
}

// pool reads a pool and those below it. How deep they go is bounded by encoding/json, which
// checked the syntax.
func (r *treeReader) pool() (*Pool, error) {
	r.Peek()
	start := r.Pos()
	p := &Pool{}
	_, err := r.Fields(poolKeys, func(k int) (err error) {
		switch poolKeys[k] {
		case "threshold_mbps":
			var mbps float64
			mbps, err = r.number(netmap.MaxRate.Mbps())
			p.Threshold = netmap.BytesPerSec(mbps) * netmap.Mbps
		case "hosts":
			p.Hosts, err = r.names()
		case "children":
			p.Children, err = r.children()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := r.fit(p, start); err != nil {
		return nil, err
	}
	slices.SortFunc(p.Children, func(a, b *Pool) int { return a.Hosts[0] - b.Hosts[0] })
	return p, nil
}

// fit gives a pool that leaves out its hosts those of its children, and checks that both
// agree where it has both. start is where the pool stands.
func (r *treeReader) fit(p *Pool, start int) error {
	var below []int
	for _, c := range p.Children {
		below = append(below, c.Hosts...)
	}
	slices.Sort(below)
	if at := firstDouble(below); at >= 0 {
		return r.Fail(start, "host %q is in two of the children", r.hosts[below[at]].Name)
	}
	if len(p.Hosts) == 0 {
		p.Hosts = below
	}
	switch {
	case len(p.Hosts) == 0:
		return r.Fail(start, "neither hosts nor children")
	case p.Leaf():
		return nil
	case len(p.Children) == 1:
		return r.Fail(start, "one child, which splits nothing")
	}
	for _, h := range p.Hosts {
		if _, ok := slices.BinarySearch(below, h); !ok {
			return r.Fail(start, "host %q is in none of the children", r.hosts[h].Name)
		}
	}
	for _, h := range below {
		if _, ok := slices.BinarySearch(p.Hosts, h); !ok {
			return r.Fail(start, "host %q of a child is not among the hosts", r.hosts[h].Name)
		}
	}
	return nil
}

// firstDouble returns the index of the first of sorted that equals the one before it, or -1.
func firstDouble(sorted []int) int {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return i
		}
	}
	return -1
}

// names reads a list of hosts and returns their indices, sorted.
func (r *treeReader) names() ([]int, error) {
	var hosts []int
	seen := map[int]bool{}
	err := r.List(func(i int) error {
		at := r.Pos()
		name, err := r.Text()
		if err != nil {
			return jsonwalk.Within(err, jsonwalk.Element(i))
		}
		h, ok := r.index[name]
		switch {
		case !ok:
			return jsonwalk.Within(r.Fail(at, "unknown host %q", name), jsonwalk.Element(i))
		case seen[h]:
			return jsonwalk.Within(r.Fail(at, "host %q twice", name), jsonwalk.Element(i))
		}
		seen[h] = true
		hosts = append(hosts, h)
		return nil
	})
	slices.Sort(hosts)
	return hosts, err
}

func (r *treeReader) children() ([]*Pool, error) {
	var children []*Pool
	err := r.List(func(i int) error {
		p, err := r.pool()
		children = append(children, p)
		return jsonwalk.Within(err, jsonwalk.Element(i))
	})
	return children, err
}

// number reads a number in 0 … most.
func (r *treeReader) number(most float64) (float64, error) {
	r.Peek()
	at := r.Pos()
	v, err := r.Number()
	if err == nil && !(v >= 0 && v <= most) {
		return 0, r.Fail(at, "%v is not in 0 … %g", v, most)
	}
	return v, err
}
