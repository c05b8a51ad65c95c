package pools

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gridagent/gridagent/internal/jsonwalk"
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
// the tree has hosts without a name in t.Hosts, or a name that [Read] refuses.
func (t *Tree) MarshalJSON() ([]byte, error) {
	if err := t.Check(len(t.Hosts)); err != nil {
		return nil, fmt.Errorf("write pool tree: %w", err)
	}
	for _, h := range t.Hosts {
		if err := jsonwalk.CheckText(h.Name); err != nil {
			return nil, fmt.Errorf("write pool tree: host %w", err)
		}
	}
	f := treeFile{Criterion: t.Criterion, Band: digits(t.Band), Root: t.poolFile(t.Root)}
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
func inMbps(r netmap.BytesPerSec) float64 { return digits(r.Mbps()) }

// digits rounds to twelve of them.
func digits(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 12, 64), 64)
	if err != nil {
		return v
	}
	return r
}
