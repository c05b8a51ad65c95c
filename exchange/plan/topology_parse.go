package plan

import "github.com/gridagent/gridagent/probe/netmap"

var topologyKeys = []string{"switches", "links", "hosts", "bandwidth_mbps"}

// ParseTopology reads a switch-tree file. See [ReadTopology].
func ParseTopology(data []byte) (*Topology, error) { return ReadTopology("", data) }

// ReadTopology reads a switch-tree file (docs/formats.md, "Switch-tree file"). The order
// of the keys of "hosts" is the rank order. Errors are [*ParseError] with name, line and
// reason; of a graph that is no tree the reason names the loop.
func ReadTopology(name string, data []byte) (*Topology, error) {
	c, err := newCursor(name, data)
	if err != nil {
		return nil, err
	}
	r := topologyReader{cursor: c, at: make(map[string]int), elements: make(map[string][]int)}
	found, err := c.fields(topologyKeys, r.field)
	if err != nil {
		return nil, err
	}
	for i, key := range topologyKeys {
		if key != "bandwidth_mbps" && key != "links" && found&(1<<i) == 0 {
			return nil, c.fail(0, "%q is missing", key)
		}
	}
	links, home, err := r.resolve()
	if err != nil {
		return nil, err
	}
	t, err := NewTopology(r.switches, links, r.hosts, home, r.bandwidth)
	if err != nil {
		return nil, locate(c, err, r.at, r.elements)
	}
	return t, nil
}

// A topologyReader holds the names as they stand in the file: a link may come before
// the list of switches that it names.
type topologyReader struct {
	*cursor
	switches  []string
	links     [][2]string
	hosts     []string
	home      []string
	bandwidth netmap.BytesPerSec
	at        map[string]int   // byte offset of each top-level value
	elements  map[string][]int // byte offsets of the elements of switches, links and hosts
}

func (r *topologyReader) field(i int) error {
	key := topologyKeys[i]
	r.peek()
	r.at[key] = r.pos
	switch key {
	case "switches":
		return r.list(func(int) error {
			r.elements[key] = append(r.elements[key], r.pos)
			s, err := r.text()
			r.switches = append(r.switches, s)
			return err
		})
	case "links":
		return r.list(func(i int) error {
			r.elements[key] = append(r.elements[key], r.pos)
			l, err := r.link()
			r.links = append(r.links, l)
			return within(err, element(i))
		})
	case "hosts":
		return r.entries(func(key []byte, at int) error {
			host := string(key)
			r.elements["hosts"] = append(r.elements["hosts"], at)
			s, err := r.text()
			r.hosts, r.home = append(r.hosts, host), append(r.home, s)
			return within(err, host)
		})
	}
	at := r.pos
	v, err := r.number()
	if err == nil && v <= 0 {
		return r.fail(at, "%v is not above 0", v)
	}
	r.bandwidth = netmap.BytesPerSec(v) * netmap.Mbps
	return err
}

func (r *topologyReader) link() ([2]string, error) {
	var l [2]string
	start, n := r.pos, 0
	err := r.list(func(i int) error {
		s, err := r.text()
		if i < len(l) {
			l[i] = s
		}
		n = i + 1
		return err
	})
	if err == nil && n != len(l) {
		err = r.fail(start, "want the two switches of a link, found %d", n)
	}
	return l, err
}

// resolve turns names of switches into indices.
func (r *topologyReader) resolve() (links [][2]int, home []int, err error) {
	index := make(map[string]int, len(r.switches))
	for i, s := range r.switches {
		index[s] = i
	}
	find := func(name, key string, element int) int {
		i, ok := index[name]
		if !ok && err == nil {
			err = r.fail(r.elements[key][element], "%s: %q is none of the %d switches", key, name, len(r.switches))
		}
		return i
	}
	for i, l := range r.links {
		links = append(links, [2]int{find(l[0], "links", i), find(l[1], "links", i)})
	}
	for i, s := range r.home {
		home = append(home, find(s, "hosts", i))
	}
	return links, home, err
}
