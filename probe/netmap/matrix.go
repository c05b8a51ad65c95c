package netmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gridagent/gridagent/internal/jsonwalk"
)

// MaxHosts bounds the hosts of a matrix file, of a [Map], and of a delta or digest.
const MaxHosts = 4096

// A column is one N×N matrix of the matrix file. Every cell is a number, or null where
// the pair was not measured.
type column struct {
	key      string
	field    Field // 0: the cell is not a measured field
	required bool
	whole    bool                         // every cell is a whole number
	min, max float64                      // of a cell, in the file's unit
	load     func(Estimate) float64       // NaN: not known
	store    func(e *Estimate, v float64) // v is in min … max
}

// columns lists the matrices in the order in which they are written.
var columns = []column{
	{
		key: "bandwidth_mbps", field: FieldBandwidth, required: true, min: 1 / float64(Mbps), max: MaxRate.Mbps(),
		load:  func(e Estimate) float64 { return e.Bandwidth.Mbps() },
		store: func(e *Estimate, v float64) { e.Bandwidth = BytesPerSec(v) * Mbps },
	},
	{
		key: "latency_s", field: FieldLatency, required: true, max: MaxLatency.Seconds(),
		load:  func(e Estimate) float64 { return e.Latency.Seconds() },
		store: func(e *Estimate, v float64) { e.Latency = seconds(v) },
	},
	{
		key: "rtt_variation_s", field: FieldVariation, max: MaxLatency.Seconds(),
		load:  func(e Estimate) float64 { return e.Variation.Seconds() },
		store: func(e *Estimate, v float64) { e.Variation = seconds(v) },
	},
	{
		key: "gap_s", field: FieldGap, max: MaxLatency.Seconds(),
		load:  func(e Estimate) float64 { return e.Gap.Seconds() },
		store: func(e *Estimate, v float64) { e.Gap = seconds(v) },
	},
	{
		key: "send_overhead_s", field: FieldSendOverhead, max: MaxLatency.Seconds(),
		load:  func(e Estimate) float64 { return e.SendOverhead.Seconds() },
		store: func(e *Estimate, v float64) { e.SendOverhead = seconds(v) },
	},
	{
		key: "capacity_mbps", field: FieldCapacity, min: 1 / float64(Mbps), max: MaxRate.Mbps(),
		load:  func(e Estimate) float64 { return e.Capacity.Mbps() },
		store: func(e *Estimate, v float64) { e.Capacity = BytesPerSec(v) * Mbps },
	},
	{
		key: "line_mbps", field: FieldLine, min: 1 / float64(Mbps), max: MaxRate.Mbps(),
		load:  func(e Estimate) float64 { return e.Line.Mbps() },
		store: func(e *Estimate, v float64) { e.Line = BytesPerSec(v) * Mbps },
	},
	{
		key: "carried_mbps", field: FieldCarried, min: 1 / float64(Mbps), max: MaxRate.Mbps(),
		load:  func(e Estimate) float64 { return e.Carried.Mbps() },
		store: func(e *Estimate, v float64) { e.Carried = BytesPerSec(v) * Mbps },
	},
	{
		key: "lanes", field: FieldLanes, whole: true, min: 1, max: MaxLanes,
		load:  func(e Estimate) float64 { return float64(e.Lanes) },
		store: func(e *Estimate, v float64) { e.Lanes = int(v) },
	},
	{
		key: "loss", field: FieldLoss, max: 1,
		load:  func(e Estimate) float64 { return e.Loss },
		store: func(e *Estimate, v float64) { e.Loss = v },
	},
	{
		key: "loss_of", whole: true, min: 1, max: MaxLossOf,
		load: func(e Estimate) float64 {
			if e.LossOf == 0 {
				return math.NaN()
			}
			return float64(e.LossOf)
		},
		store: func(e *Estimate, v float64) { e.LossOf = int(v) },
	},
	{
		key: "spread", max: maxSpread,
		load: func(e Estimate) float64 {
			if e.Spread == 0 {
				return math.NaN()
			}
			return e.Spread
		},
		store: func(e *Estimate, v float64) { e.Spread = v },
	},
	{
		key: "readings", whole: true, min: 1, max: MaxReadings,
		load: func(e Estimate) float64 {
			if e.Readings == 0 {
				return math.NaN()
			}
			return float64(e.Readings)
		},
		store: func(e *Estimate, v float64) { e.Readings = int(v) },
	},
	{
		// The strength of the bandwidth, as the numbers of Source: without it a
		// prediction that was saved and loaded would come back as a measurement.
		key: "source", whole: true, max: float64(SourceObserved),
		load: func(e Estimate) float64 {
			if !e.Has(FieldBandwidth) || e.Source == SourceDeclared {
				return math.NaN() // what the reader assumes anyway
			}
			return float64(e.Source)
		},
		store: func(e *Estimate, v float64) { e.Source = Source(v) },
	},
}

// ageColumn is not among columns: it needs to know what time it is.
var ageColumn = column{key: "age_s", max: maxAge}

// maxAge bounds age_s in seconds: a century, far inside what a Duration holds.
const maxAge = 100 * 365 * 24 * 3600

func seconds(v float64) time.Duration { return time.Duration(math.Round(v * 1e9)) }

// cell returns the value of c in e, NaN where it is not known.
func (c *column) cell(e Estimate) float64 {
	if c.field != 0 && !e.Has(c.field) {
		return math.NaN()
	}
	return c.load(e)
}

// AppendMatrix appends s in the matrix form of the grid file (docs/formats.md): hosts,
// then N×N matrices, row = sender, one row a line. Rates are in Mbit/s and rounded to
// twelve digits, times in seconds. A pair that was not measured is null; the diagonal is
// 0. Matrices in which nothing is known are left out, except the two required ones.
// age_s is the age of the newest sample at now; a sample from the future has age 0. logp
// lists the LogP models, if there are any.
//
// It returns an error, naming the pair or host, if an estimate does not pass
// [Estimate.Check] or a name holds control characters: what it writes, [ParseMatrix] reads.
func AppendMatrix(dst []byte, s *Snapshot, now time.Time) ([]byte, error) {
	n := s.N()
	used := make([]bool, len(columns))
	aged := false
	for i := range n {
		for j := range n {
			e := s.Estimate(i, j)
			if i == j {
				continue
			}
			if err := e.Check(); err != nil {
				return dst, fmt.Errorf("write %s→%s: %w", s.hosts[i].Name, s.hosts[j].Name, err)
			}
			for k := range columns {
				used[k] = used[k] || !math.IsNaN(columns[k].cell(e.clean()))
			}
			aged = aged || !e.Measured.IsZero()
		}
	}

	dst = append(dst, "{\n  \"hosts\": ["...)
	for i, h := range s.hosts {
		dst = comma(dst, i)
		text, err := json.Marshal(h)
		if err == nil {
			err = errors.Join(checkName(h.Name), jsonwalk.CheckText(h.Site))
		}
		if err != nil {
			return dst, fmt.Errorf("write host %q: %w", h.Name, err)
		}
		dst = append(append(dst, "\n    "...), text...)
	}
	dst = append(dst, "\n  ]"...)
	for k := range columns {
		if c := &columns[k]; c.required || used[k] {
			dst = appendRows(dst, c.key, s, c.cell)
		}
	}
	if aged {
		dst = appendRows(dst, ageColumn.key, s, func(e Estimate) float64 {
			if e.Measured.IsZero() {
				return math.NaN()
			}
			return math.Min(math.Max(0, now.Sub(e.Measured).Seconds()), maxAge)
		})
	}
	dst, err := s.appendModels(dst)
	if err != nil {
		return dst, err
	}
	dst = append(dst, ",\n  \"epoch\": "...)
	dst = strconv.AppendUint(dst, s.epoch, 10)
	return append(dst, "\n}\n"...), nil
}

func appendRows(dst []byte, key string, s *Snapshot, cell func(Estimate) float64) []byte {
	dst = append(dst, ",\n  \""...)
	dst = append(append(dst, key...), "\": ["...)
	for i := range s.N() {
		dst = comma(dst, i)
		dst = append(dst, "\n    ["...)
		for j := range s.N() {
			dst = comma(dst, j)
			if i == j {
				dst = append(dst, '0')
				continue
			}
			if v := cell(s.Estimate(i, j).clean()); math.IsNaN(v) {
				dst = append(dst, "null"...)
			} else {
				dst = appendNumber(dst, v)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, "\n  ]"...)
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// appendNumber writes v with at most twelve significant digits, without an exponent where
// a person would not write one. Twelve hide the noise of the Mbit/s conversion (1.44
// Mbit/s is not 1.4400000000000002) and keep more than any probe knows.
func appendNumber(dst []byte, v float64) []byte {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 11, 64), 64)
	if err == nil {
		v = rounded
	}
	if a := math.Abs(v); a != 0 && (a < 1e-9 || a >= 1e15) {
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}
