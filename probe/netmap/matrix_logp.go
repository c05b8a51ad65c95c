package netmap

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/logp"
)

// modelsKey is the key of the matrix file that lists LogP models: what each of host
// measured towards the hosts of site, its own (the LAN) or another.
//
//	"logp": [{"host":"ut0","site":"UK","points":[{"size_bytes":0,…}]}]
const modelsKey = "logp"

// maxModels bounds the list: more than a map of 4096 hosts holds.
const maxModels = 1 << 16

// appendModels appends the models of s as an entry of the file, or nothing.
func (s *Snapshot) appendModels(dst []byte) ([]byte, error) {
	if len(s.models) == 0 {
		return dst, nil
	}
	dst = append(dst, ",\n  \""+modelsKey+"\": ["...)
	for k, r := range s.models {
		name := s.hosts[r.host].Name
		if err := jsonwalk.CheckText(r.site); err != nil {
			return dst, fmt.Errorf("write LogP model of %q: site %w", name, err)
		}
		text, err := json.Marshal(struct {
			Host   string     `json:"host"`
			Site   string     `json:"site"`
			Points logp.Model `json:"points"`
		}{name, r.site, r.model})
		if err != nil {
			return dst, fmt.Errorf("write LogP model of %q: %w", name, err)
		}
		dst = append(append(comma(dst, k), "\n    "...), text...)
	}
	return append(dst, "\n  ]"...), nil
}

// A fileModel is a model of the file, before the hosts are known.
type fileModel struct {
	at         int // byte offset
	host, site string
	model      logp.Model
}

var modelKeys = []string{"host", "site", "points"}

func (r *matrixReader) readModels() error {
	return r.List(func(i int) error {
		r.Peek()
		m := fileModel{at: r.Pos()}
		if i == maxModels {
			return r.Fail(m.at, "more than %d models", maxModels)
		}
		found, err := r.Fields(modelKeys, func(k int) (err error) {
			switch modelKeys[k] {
			case "host":
				m.host, err = r.Text()
			case "site":
				m.site, err = r.Text()
			default:
				r.Peek()
				at := r.Pos()
				r.Skip()
				if jerr := json.Unmarshal(r.text(at), &m.model); jerr != nil {
					err = r.Fail(at, "%v", jerr)
				}
			}
			return err
		})
		if err == nil && found&0b101 != 0b101 {
			err = r.Fail(m.at, "a model needs host and points")
		}
		r.models = append(r.models, m)
		return jsonwalk.Within(err, jsonwalk.Element(i))
	})
}

// text returns what was read since offset at.
func (r *matrixReader) text(at int) []byte { return r.data[at:r.Pos()] }

// checkModels says which model names no host, or a host and site that another has named.
func (r *matrixReader) checkModels() error {
	index := make(map[string]bool, len(r.hosts))
	for _, h := range r.hosts {
		index[h.Name] = true
	}
	seen := map[[2]string]bool{}
	for i, m := range r.models {
		key := [2]string{m.host, m.site}
		switch {
		case !index[m.host]:
			return r.Fail(m.at, "%s[%d]: %s is not among the hosts", modelsKey, i, jsonwalk.Quote(m.host))
		case seen[key]:
			return r.Fail(m.at, "%s[%d]: the model of %s towards site %s is given twice", modelsKey, i, jsonwalk.Quote(m.host), jsonwalk.Quote(m.site))
		}
		seen[key] = true
	}
	return nil
}

// modelRows returns the models by host; checkModels has passed.
func (r *matrixReader) modelRows() []modelRow {
	index := make(map[string]int, len(r.hosts))
	for i, h := range r.hosts {
		index[h.Name] = i
	}
	var out []modelRow
	for _, m := range r.models {
		out = append(out, modelRow{host: index[m.host], site: m.site, model: m.model})
	}
	slices.SortStableFunc(out, func(a, b modelRow) int { return a.host - b.host })
	return out
}
