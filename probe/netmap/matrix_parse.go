package netmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// A FormatError says what is wrong with a matrix file, and where.
type FormatError struct {
	Line   int // counted from 1
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// ParseMatrix reads the matrix form of the grid file, as [AppendMatrix] writes it. hosts,
// bandwidth_mbps and latency_s are required; null is a pair that was not measured; the
// diagonal is ignored. An estimate with a bandwidth counts as declared where the file
// does not give its source. age_s is counted back from now; with the zero time it is
// checked and otherwise ignored.
//
// Keys that it does not know are skipped, since a later release may add some, unless they
// look like a known quantity in another unit (latency_ms). All errors are a [*FormatError].
func ParseMatrix(data []byte, now time.Time) (*Snapshot, error) {
	p := &matrixParser{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	p.dec.UseNumber()
	s, err := p.parse(now)
	if err != nil {
		var fe *FormatError
		if !errors.As(err, &fe) {
			err = p.jsonError(err)
		}
		return nil, err
	}
	return s, nil
}

// matrixParser walks the JSON tokens, so that it can say on which line a value stands and
// allocates no more than the text that it has read accounts for.
type matrixParser struct {
	data   []byte
	dec    *json.Decoder
	line   int // of the end of the last token
	offset int // up to which line has counted
}

// A table is one matrix of the file before the number of hosts is known.
type table struct {
	line  int         // of its key
	rows  [][]float64 // NaN is null
	lines []int       // of the end of each row
}

func (p *matrixParser) parse(now time.Time) (*Snapshot, error) {
	if err := p.open('{', "the file", "an object"); err != nil {
		return nil, err
	}
	var hosts []Host
	var epoch uint64
	tables := map[string]*table{}
	seen := map[string]int{}
	for p.dec.More() {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string) // an object's key is always a string
		if first, dup := seen[key]; dup {
			return nil, p.errorf("key %q is given twice, first on line %d", key, first)
		}
		seen[key] = p.line
		switch c := columnByKey(key); {
		case c != nil:
			tables[key], err = p.table(key, c.min, c.max)
		case key == ageKey:
			tables[key], err = p.table(key, 0, maxAge)
		case key == "hosts":
			hosts, err = p.hosts()
		case key == "epoch":
			epoch, err = p.epoch()
		default:
			err = p.skip(key)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := p.token(); err != nil { // the closing brace
		return nil, err
	}
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, p.errorf("more text after the end of the object")
	}
	if _, ok := seen["hosts"]; !ok {
		return nil, p.errorf("hosts is missing")
	}
	return p.build(hosts, epoch, tables, now)
}

// build turns the tables into a snapshot once all sizes are known.
func (p *matrixParser) build(hosts []Host, epoch uint64, tables map[string]*table, now time.Time) (*Snapshot, error) {
	n := len(hosts)
	for i := range columns {
		if key := columns[i].key; columns[i].required && tables[key] == nil {
			return nil, p.errorf("%s is missing", key)
		}
	}
	for _, key := range columnKeys() { // in a fixed order: the same file gives the same error
		t := tables[key]
		if t == nil {
			continue
		}
		if len(t.rows) != n {
			return nil, &FormatError{t.line, fmt.Sprintf("%s has %d rows for %d hosts", key, len(t.rows), n)}
		}
		for i, row := range t.rows {
			if len(row) != n {
				return nil, &FormatError{t.lines[i], fmt.Sprintf("%s[%d], the row of %s, has %d values for %d hosts", key, i, hosts[i].Name, len(row), n)}
			}
		}
	}
	est := make([]Estimate, n*n)
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			e := &est[i*n+j]
			e.Source = SourceDeclared
			for k := range columns {
				c := &columns[k]
				t := tables[c.key]
				if t == nil || math.IsNaN(t.rows[i][j]) {
					continue
				}
				c.store(e, t.rows[i][j])
				e.Known |= c.field
			}
			if t := tables[ageKey]; t != nil && !now.IsZero() && !math.IsNaN(t.rows[i][j]) {
				e.Measured = now.Add(-seconds(t.rows[i][j])).Round(0)
			}
			*e = e.clean()
		}
	}
	return NewSnapshot(epoch, hosts, est), nil
}

func (p *matrixParser) hosts() ([]Host, error) {
	if err := p.open('[', "hosts", "a list"); err != nil {
		return nil, err
	}
	var hosts []Host
	first := map[string]int{}
	for p.dec.More() {
		var h struct {
			Name *string `json:"name"`
			Site string  `json:"site"`
		}
		err := p.dec.Decode(&h)
		p.advance()
		var wrong *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrong):
			return nil, p.errorf("hosts[%d]: a JSON %s where {\"name\": …, \"site\": …} with texts should be", len(hosts), wrong.Value)
		case err != nil:
			return nil, err
		case h.Name == nil || *h.Name == "":
			return nil, p.errorf("hosts[%d] has no name", len(hosts))
		case len(hosts) == MaxHosts:
			return nil, p.errorf("more than %d hosts", MaxHosts)
		}
		if line, dup := first[*h.Name]; dup {
			return nil, p.errorf("hosts[%d]: the name %q is given twice, first on line %d", len(hosts), *h.Name, line)
		}
		first[*h.Name] = p.line
		hosts = append(hosts, Host{Name: *h.Name, Site: h.Site})
	}
	if _, err := p.token(); err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, p.errorf("hosts is empty")
	}
	return hosts, nil
}

func (p *matrixParser) table(key string, low, high float64) (*table, error) {
	t := &table{line: p.line}
	if err := p.open('[', key, "a list of rows"); err != nil {
		return nil, err
	}
	for p.dec.More() {
		i := len(t.rows)
		if i == MaxHosts {
			return nil, p.errorf("%s has more than %d rows", key, MaxHosts)
		}
		if err := p.open('[', fmt.Sprintf("%s[%d]", key, i), "a list of numbers"); err != nil {
			return nil, err
		}
		var row []float64
		for p.dec.More() {
			v, err := p.cell(key, i, len(row), low, high)
			if err != nil {
				return nil, err
			}
			row = append(row, v)
		}
		if _, err := p.token(); err != nil {
			return nil, err
		}
		t.rows = append(t.rows, row)
		t.lines = append(t.lines, p.line)
	}
	_, err := p.token()
	return t, err
}

// cell reads the value at [i][j]: a number in low … high, or null, which is NaN.
func (p *matrixParser) cell(key string, i, j int, low, high float64) (float64, error) {
	t, err := p.token()
	if err != nil {
		return 0, err
	}
	if t == nil {
		return math.NaN(), nil
	}
	text, ok := t.(json.Number)
	if !ok {
		return 0, p.errorf("%s[%d][%d] is %s, not a number or null", key, i, j, describe(t))
	}
	if i == j {
		return math.NaN(), nil // the diagonal is ignored, whatever it holds
	}
	v, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil:
		return 0, p.errorf("%s[%d][%d] is %s, out of range", key, i, j, text)
	case v < 0:
		return 0, p.errorf("%s[%d][%d] is %s, which is negative", key, i, j, text)
	case v == 0 && low > 0:
		return 0, p.errorf("%s[%d][%d] is %s; write null for a pair that was not measured", key, i, j, text)
	case v < low || v > high:
		return 0, p.errorf("%s[%d][%d] is %s, not in %g … %g", key, i, j, text, low, high)
	case (key == "lanes" || key == "source") && v != math.Trunc(v):
		return 0, p.errorf("%s[%d][%d] is %s, not a whole number", key, i, j, text)
	}
	return v, nil
}

func (p *matrixParser) epoch() (uint64, error) {
	t, err := p.token()
	if err != nil {
		return 0, err
	}
	text, ok := t.(json.Number)
	if !ok {
		return 0, p.errorf("epoch is %s, not a whole number", describe(t))
	}
	v, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, p.errorf("epoch is %s, not a whole number of 64 bits", text)
	}
	return v, nil
}

// skip passes over the value of a key that this release does not know. A key that shares
// its stem with a known one (bandwidth_gbps, latency, gap_us) is refused: skipping it
// would drop a measurement, or keep one in the wrong unit, without a word.
func (p *matrixParser) skip(key string) error {
	stem, _, _ := strings.Cut(strings.ToLower(key), "_")
	for _, known := range append(columnKeys(), "hosts", "epoch") {
		if ks, _, _ := strings.Cut(known, "_"); ks == stem {
			return p.errorf("unknown key %q; write %s", key, known)
		}
	}
	var ignored json.RawMessage
	err := p.dec.Decode(&ignored)
	p.advance()
	return err
}

func columnByKey(key string) *column {
	for i := range columns {
		if columns[i].key == key {
			return &columns[i]
		}
	}
	return nil
}

func columnKeys() []string {
	keys := make([]string, 0, len(columns)+3)
	for i := range columns {
		keys = append(keys, columns[i].key)
	}
	return append(keys, ageKey)
}
