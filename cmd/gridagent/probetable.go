package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// printProbe shows what was measured of a pair.
func (a *app) printProbe(j *probeJSON) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(a.out, "%s → %s\n", j.From, j.To)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) // Flush returns the writer's error
	}
	// after shows a value that says more of another one, where there is one.
	after := func(format string, v *float64, show func(float64) string) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf(format, show(*v))
	}
	if j.RTT != nil {
		line("round trip", "%s%s", formatSeconds(*j.RTT), after(" ± %s", j.Variation, formatSeconds))
	}
	if j.Bandwidth != nil {
		line("one flow", "%s Mbit/s%s", significant(*j.Bandwidth), after(" (spread %s)", j.Spread, formatShare))
	}
	if j.Capacity != nil {
		with := ""
		if j.Lanes != nil {
			with = " with " + plural(*j.Lanes, "lane")
		}
		line("capacity", "%s Mbit/s%s", significant(*j.Capacity), with)
	}
	if j.Loss != nil {
		line("loss", "%s of the probe's own packets", formatShare(*j.Loss))
	}
	line("cost", "%s in %s", formatBytes(j.Bytes), formatSeconds(j.Seconds))
	for _, n := range j.Notes {
		line("note", "%s", oneLine(n))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := a.printCurve(j.Curve); err != nil {
		return err
	}
	return a.printLogP(j.LogP)
}

func plural(n uint32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printCurve shows what so many lanes got together, and what each of them did.
func (a *app) printCurve(curve []laneJSON) error {
	if len(curve) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	t := a.table("lanes", "Mbit/s", "each")
	for _, c := range curve {
		t.row(c.Lanes, significant(c.Bandwidth), significant(c.Bandwidth/float64(max(c.Lanes, 1))))
	}
	return t.flush()
}

// printLogP shows a model at its points; between them it is linear.
func (a *app) printLogP(points []logpJSON) error {
	if len(points) == 0 {
		return nil
	}
	fmt.Fprintln(a.out)
	t := a.table("size", "os", "or", "g")
	for _, p := range points {
		t.row(formatBytes(p.Size), formatSeconds(p.Send), formatSeconds(p.Receive), formatSeconds(p.Gap))
	}
	return t.flush()
}

// A probeJSON is what probe -o json prints (docs/formats.md): one object whatever was asked
// for. What was not measured is null.
type probeJSON struct {
	From      string     `json:"from"`
	To        string     `json:"to"`
	Kinds     []string   `json:"kinds"`
	RTT       *float64   `json:"rtt_s"`
	Variation *float64   `json:"rtt_variation_s"`
	Bandwidth *float64   `json:"bandwidth_mbps"`
	Spread    *float64   `json:"spread"`
	Capacity  *float64   `json:"capacity_mbps"`
	Lanes     *uint32    `json:"lanes"`
	Curve     []laneJSON `json:"curve"`
	Loss      *float64   `json:"loss"`
	LogP      []logpJSON `json:"logp"`
	Bytes     uint64     `json:"bytes"`
	Seconds   float64    `json:"seconds"`
	Notes     []string   `json:"notes"`
}

type laneJSON struct {
	Lanes     uint32  `json:"lanes"`
	Bandwidth float64 `json:"bandwidth_mbps"`
}

// A logpJSON has the keys of a point of the matrix form.
type logpJSON struct {
	Size    uint64  `json:"size_bytes"`
	Send    float64 `json:"send_overhead_s"`
	Receive float64 `json:"receive_overhead_s"`
	Gap     float64 `json:"gap_s"`
}

// probeReport joins the results of one pair, which are not empty. Where two have the same part,
// the later one counts.
func probeReport(results []*apiv1.ProbeResult) *probeJSON {
	j := &probeJSON{From: results[0].GetFrom(), To: results[0].GetTo(), Kinds: []string{}, Curve: []laneJSON{}, LogP: []logpJSON{}, Notes: []string{}}
	set := func(to **float64, v float64) {
		if v = nineDigits(v); v > 0 {
			*to = &v
		}
	}
	for _, r := range results {
		j.Kinds = append(j.Kinds, r.GetKind())
		set(&j.RTT, r.GetRttSeconds())
		set(&j.Variation, r.GetRttVariationSeconds())
		set(&j.Bandwidth, r.GetBandwidthMbps())
		set(&j.Spread, r.GetSpread())
		set(&j.Capacity, r.GetCapacityMbps())
		if r.Loss != nil {
			loss := nineDigits(r.GetLoss())
			j.Loss = &loss
		}
		for _, n := range r.GetNotes() {
			if !slices.Contains(j.Notes, n) {
				j.Notes = append(j.Notes, n)
			}
		}
		if n := r.GetLanes(); n > 0 {
			j.Lanes = &n
		}
		for _, c := range r.GetCurve() {
			j.Curve = append(j.Curve, laneJSON{c.GetLanes(), nineDigits(c.GetMbps())})
		}
		for _, p := range r.GetLogp() {
			j.LogP = append(j.LogP, logpJSON{p.GetSizeBytes(), p.GetSendOverheadSeconds(), p.GetReceiveOverheadSeconds(), p.GetGapSeconds()})
		}
		j.Bytes += r.GetBytes()
		j.Seconds += r.GetSeconds()
	}
	return j
}
