package main

import "github.com/gridagent/gridagent/probe/netmap"

// A diffJSON is what map diff -o json prints (docs/formats.md).
type diffJSON struct {
	From       string        `json:"from"`
	To         string        `json:"to"`
	FromEpoch  uint64        `json:"from_map_epoch"`
	ToEpoch    uint64        `json:"to_map_epoch"`
	Threshold  float64       `json:"threshold"`
	Pairs      int           `json:"pairs"`
	Came       []hostJSON    `json:"came"`
	Left       []hostJSON    `json:"left"`
	Relabelled []relabelJSON `json:"relabelled"`
	Changes    []changeJSON  `json:"changes"`
}

type hostJSON struct {
	Name string `json:"name"`
	Site string `json:"site"`
}

type relabelJSON struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// A changeJSON holds all parts of a pair: before and after, null where not known.
type changeJSON struct {
	From      string      `json:"from"`
	To        string      `json:"to"`
	FromSite  string      `json:"from_site"`
	ToSite    string      `json:"to_site"`
	Moved     []string    `json:"moved"`
	Bandwidth [2]*float64 `json:"bandwidth_mbps"`
	Latency   [2]*float64 `json:"latency_s"`
	Capacity  [2]*float64 `json:"capacity_mbps"`
	Loss      [2]*float64 `json:"loss"`
}

func diffReport(two *twoMaps, d *netmap.Diff, threshold float64) *diffJSON {
	r := &diffJSON{From: two.from, To: two.to, FromEpoch: two.before.Epoch(), ToEpoch: two.after.Epoch(), Threshold: threshold, Pairs: d.Pairs,
		Came: []hostJSON{}, Left: []hostJSON{}, Relabelled: []relabelJSON{}, Changes: []changeJSON{}}
	for _, h := range d.Came {
		r.Came = append(r.Came, hostJSON{Name: h.Name, Site: h.Site})
	}
	for _, h := range d.Left {
		r.Left = append(r.Left, hostJSON{Name: h.Name, Site: h.Site})
	}
	for _, l := range d.Relabelled {
		r.Relabelled = append(r.Relabelled, relabelJSON{l.Host.Name, l.Before, l.Host.Site})
	}
	for _, c := range d.Changes {
		both := func(f netmap.Field, v func(netmap.Estimate) float64) (out [2]*float64) {
			for i, e := range [2]netmap.Estimate{c.Before, c.After} {
				if e.Has(f) {
					x := nineDigits(v(e))
					out[i] = &x
				}
			}
			return out
		}
		j := changeJSON{
			From: c.From.Name, To: c.To.Name, FromSite: c.From.Site, ToSite: c.To.Site,
			Bandwidth: both(netmap.FieldBandwidth, func(e netmap.Estimate) float64 { return e.Bandwidth.Mbps() }),
			Latency:   both(netmap.FieldLatency, func(e netmap.Estimate) float64 { return e.Latency.Seconds() }),
			Capacity:  both(netmap.FieldCapacity, func(e netmap.Estimate) float64 { return e.Capacity.Mbps() }),
			Loss:      both(netmap.FieldLoss, func(e netmap.Estimate) float64 { return e.Loss }),
		}
		for _, f := range netmap.DiffFields {
			if c.Moved&f != 0 {
				j.Moved = append(j.Moved, diffFieldNames[f].key)
			}
		}
		r.Changes = append(r.Changes, j)
	}
	return r
}
