package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// csvColumns are those of map -o csv, in order (docs/formats.md). New ones go to the end.
var csvColumns = []string{"from", "to", "from_site", "to_site", "bandwidth_mbps", "spread", "readings",
	"capacity_mbps", "lanes", "loss", "rtt_s", "latency_s", "age_s", "source", "carried_mbps"}

// writeMapCSV writes s as RFC 4180 has it, lines ended by CR LF: a head, then a line for every
// ordered pair of hosts. What is not known is an empty field.
func writeMapCSV(out io.Writer, s *netmap.Snapshot, now time.Time) error {
	w := csv.NewWriter(out)
	w.UseCRLF = true
	if err := w.Write(csvColumns); err != nil {
		return err
	}
	for i, from := range s.Hosts() {
		for j, to := range s.Hosts() {
			if i == j {
				continue
			}
			if err := w.Write(csvRecord(from, to, s.Estimate(i, j), now)); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

func csvRecord(from, to netmap.Host, e netmap.Estimate, now time.Time) []string {
	is := func(f netmap.Field, v float64) string {
		if !e.Has(f) {
			return ""
		}
		return csvNumber(v)
	}
	age, source, spread, readings, loss := "", "", "", "", ""
	if e.TellsLoss() {
		loss = csvNumber(e.Loss)
	}
	if e.Has(netmap.FieldBandwidth) && e.Spread > 0 { // 0: no second sample was seen
		spread = csvNumber(e.Spread)
	}
	if e.Has(netmap.FieldBandwidth) && e.Readings > 0 {
		readings = strconv.Itoa(e.Readings)
	}
	if !e.Measured.IsZero() {
		age = csvNumber(max(now.Sub(e.Measured), 0).Seconds())
	}
	if e.Has(netmap.FieldBandwidth) {
		source = e.Source.String()
	}
	return []string{
		from.Name, to.Name, from.Site, to.Site,
		is(netmap.FieldBandwidth, e.Bandwidth.Mbps()), spread, readings,
		is(netmap.FieldCapacity, e.Capacity.Mbps()), is(netmap.FieldLanes, float64(e.Lanes)), loss,
		// The map holds one way as half of the round trip, so twice that is what was measured.
		is(netmap.FieldLatency, 2*e.Latency.Seconds()), is(netmap.FieldLatency, e.Latency.Seconds()),
		age, source, is(netmap.FieldCarried, e.Carried.Mbps()),
	}
}

// csvNumber writes v without an exponent.
func csvNumber(v float64) string { return strconv.FormatFloat(nineDigits(v), 'f', -1, 64) }

// nineDigits returns v with nine significant digits, more than any probe knows.
func nineDigits(v float64) float64 {
	if r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 8, 64), 64); err == nil {
		return r
	}
	return v
}
