package plan

import (
	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/netmap"
)

var topologyKeys = []string{"switches", "links", "hosts", "bandwidth_mbps"}

// ParseTopology reads a switch-tree file. See [ReadTopology].
func ParseTopology(data []byte) (*Topology, error) { return ReadTopology("", data) }

// ReadTopology reads a switch-tree file (docs/formats.md, "Switch-tree file"). The order
// of the keys of "hosts" is the rank order. Errors are [*ParseError] with name, line and
// reason; of a graph that is no tree the reason names the loop.
func ReadTopology(name string, data []byte) (*Topology, error) {
	r, err := readSwitchFile(name, data)
	if err != nil {
		return nil, err
	}
	links, home, err := r.resolve()
	if err != nil {
		return nil, err
	}
	t, err := NewTopology(r.switches, links, r.hosts, home, r.bandwidth)
	if err != nil {
		return nil, locate(r.Cursor, err, r.at, r.elements)
	}
	return t, nil
}

// readSwitchFile reads a switch-tree file as far as its values can be judged one by one.
func readSwitchFile(name string, data []byte) (*topologyReader, error) {
	c, err := jsonwalk.New(name, data)
	if err != nil {
		return nil, err
	}
	r := &topologyReader{Cursor: c, at: make(map[string]int), elements: make(map[string][]int)}
	found, err := c.Fields(topologyKeys, r.field)
	if err != nil {
		return nil, err
	}
	for i, key := range topologyKeys {
		if key != "bandwidth_mbps" && key != "links" && found&(1<<i) == 0 {
			return nil, c.Fail(0, "%q is missing", key)
		}
	}
	return r, nil
}

// A topologyReader holds the names as they stand in the file: a link may come before
// the list of switches that it names.
type topologyReader struct {
	*jsonwalk.Cursor
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
	r.Peek()
	r.at[key] = r.Pos()
	switch key {
	case "switches":
		return r.List(func(i int) error {
			r.elements[key] = append(r.elements[key], r.Pos())
			s, err := r.Text()
			r.switches = append(r.switches, s)
			return jsonwalk.Within(err, jsonwalk.Element(i))
		})
	case "links":
		return r.List(func(i int) error {
			r.elements[key] = append(r.elements[key], r.Pos())
			l, err := r.link()
			r.links = append(r.links, l)
			return jsonwalk.Within(err, jsonwalk.Element(i))
		})
	case "hosts":
		return r.Entries(func(key []byte, at int) error {
			host, err := r.Key(key, at)
			if err != nil {
				return err
			}
			r.elements["hosts"] = append(r.elements["hosts"], at)
			s, err := r.Text()
			r.hosts, r.home = append(r.hosts, host), append(r.home, s)
			return jsonwalk.Within(err, host)
		})
	}
	at := r.Pos()
	v, err := r.Number()
	if least, most := netmap.BytesPerSec(1).Mbps(), netmap.MaxRate.Mbps(); err == nil && !(v >= least && v <= most) {
		return r.Fail(at, "%v is not in %g … %g", v, least, most)
	}
	r.bandwidth = netmap.BytesPerSec(v) * netmap.Mbps
	return err
}

func (r *topologyReader) link() ([2]string, error) {
	var l [2]string
	start, n := r.Pos(), 0
	err := r.List(func(i int) error {
		s, err := r.Text()
		if i < len(l) {
			l[i] = s
		}
		n = i + 1
		return err
	})
	if err == nil && n != len(l) {
		err = r.Fail(start, "want the two switches of a link, found %d", n)
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
			err = r.Fail(r.elements[key][element], "%s: %q is none of the %d switches", key, name, len(r.switches))
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
