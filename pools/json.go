package pools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/gridagent/gridagent/probe/netmap"
)

// The file form of a tree, what `gridagent pools -o json` prints and `--pools FILE` reads.
// Hosts stand by name, so that a file fits a grid whose hosts have other indices.
type treeFile struct {
	Criterion  Criterion       `json:"criterion,omitempty"`
	Band       float64         `json:"band,omitempty"`
	Thresholds []thresholdFile `json:"thresholds_mbps,omitempty"`
	Root       *poolFile       `json:"root"`
}

type thresholdFile struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

type poolFile struct {
	Threshold float64     `json:"threshold_mbps,omitempty"`
	Hosts     []string    `json:"hosts,omitempty"`
	Children  []*poolFile `json:"children,omitempty"`
}

// MarshalJSON writes the tree with host names and rates in Mbit/s. It returns an error if
// the tree has hosts without a name in t.Hosts.
func (t *Tree) MarshalJSON() ([]byte, error) {
	if err := t.Check(len(t.Hosts)); err != nil {
		return nil, fmt.Errorf("write pool tree: %w", err)
	}
	f := treeFile{Criterion: t.Criterion, Band: t.Band, Root: t.poolFile(t.Root)}
	for _, th := range t.Thresholds {
		f.Thresholds = append(f.Thresholds, thresholdFile{inMbps(th.Low), inMbps(th.High)})
	}
	return json.Marshal(f)
}

func (t *Tree) poolFile(p *Pool) *poolFile {
	f := &poolFile{Threshold: inMbps(p.Threshold)}
	for _, h := range p.Hosts {
		f.Hosts = append(f.Hosts, t.Hosts[h].Name)
	}
	for _, c := range p.Children {
		f.Children = append(f.Children, t.poolFile(c))
	}
	return f
}

// inMbps rounds to twelve digits, which hides the noise of the conversion.
func inMbps(r netmap.BytesPerSec) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(r.Mbps(), 'g', 12, 64), 64)
	if err != nil {
		return r.Mbps()
	}
	return v
}

// Parse reads a tree from its JSON form and fits it to hosts: every host must stand in
// exactly one leaf. A pool with children may leave out its own hosts; thresholds are
// optional and not used for anything but display. The order of children does not matter.
// The error says the line of broken JSON, or the path of the pool that is wrong.
func Parse(data []byte, hosts []netmap.Host) (*Tree, error) {
	var f treeFile
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("pool tree: line %d: %w", lineOf(data, err), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("pool tree: line %d: more text after the end", 1+bytes.Count(data[:dec.InputOffset()], []byte{'\n'}))
	}
	if f.Root == nil {
		return nil, fmt.Errorf("pool tree: root is missing")
	}
	index := make(map[string]int, len(hosts))
	for i, h := range hosts {
		index[h.Name] = i
	}
	root, err := f.Root.pool("root", index)
	if err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}
	t := &Tree{Root: root, Criterion: f.Criterion, Band: f.Band, Hosts: slices.Clone(hosts)}
	if len(root.Hosts) < len(hosts) {
		for i, h := range hosts {
			if _, in := slices.BinarySearch(root.Hosts, i); !in {
				return nil, fmt.Errorf("pool tree: host %q is in no pool", h.Name)
			}
		}
	}
	if err := t.Check(len(hosts)); err != nil {
		return nil, fmt.Errorf("pool tree: %w", err)
	}
	return t, nil
}

func (f *poolFile) pool(path string, index map[string]int) (*Pool, error) {
	if !(f.Threshold >= 0 && f.Threshold <= netmap.MaxRate.Mbps()) {
		return nil, fmt.Errorf("%s: threshold_mbps %v is not in 0 … %g", path, f.Threshold, netmap.MaxRate.Mbps())
	}
	p := &Pool{Threshold: netmap.BytesPerSec(f.Threshold) * netmap.Mbps}
	for _, name := range f.Hosts {
		i, ok := index[name]
		if !ok {
			return nil, fmt.Errorf("%s: unknown host %q", path, name)
		}
		p.Hosts = append(p.Hosts, i)
	}
	slices.Sort(p.Hosts)
	var all []int
	for i, c := range f.Children {
		if c == nil {
			return nil, fmt.Errorf("%s.children[%d]: null", path, i)
		}
		child, err := c.pool(fmt.Sprintf("%s.children[%d]", path, i), index)
		if err != nil {
			return nil, err
		}
		all = append(all, child.Hosts...)
		p.Children = append(p.Children, child)
	}
	if len(f.Hosts) == 0 {
		p.Hosts = all
		slices.Sort(p.Hosts)
	}
	if len(p.Hosts) == 0 {
		return nil, fmt.Errorf("%s: neither hosts nor children", path)
	}
	for i, h := range p.Hosts[1:] {
		if h == p.Hosts[i] {
			return nil, fmt.Errorf("%s: host %q twice", path, nameAt(index, h))
		}
	}
	slices.SortFunc(p.Children, func(a, b *Pool) int { return a.Hosts[0] - b.Hosts[0] })
	return p, nil
}

func nameAt(index map[string]int, h int) string {
	for name, i := range index {
		if i == h {
			return name
		}
	}
	return strconv.Itoa(h)
}

// lineOf returns the line of a decoding error.
func lineOf(data []byte, err error) int {
	offset := int64(len(data))
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	} else if errors.As(err, &wrong) {
		offset = wrong.Offset
	}
	return 1 + bytes.Count(data[:max(0, min(offset, int64(len(data))))], []byte{'\n'})
}
