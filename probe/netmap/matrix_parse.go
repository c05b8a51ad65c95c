package netmap

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gridagent/gridagent/internal/jsonwalk"
)

// A FormatError says what is wrong with a matrix file, and where.
type FormatError = jsonwalk.Error

// ParseMatrix reads the matrix form of the grid file, as [AppendMatrix] writes it. hosts,
// bandwidth_mbps and latency_s are required; null is a pair that was not measured; the
// diagonal is ignored. An estimate with a bandwidth counts as declared where the file
// does not give its source. age_s is counted back from now; with the zero time it is
// checked and otherwise ignored.
//
// Keys that it does not know are skipped, since a later release may add some, unless they
// look like a known quantity in another unit (latency_ms). All errors are a [*FormatError]
// without a file.
func ParseMatrix(data []byte, now time.Time) (*Snapshot, error) {
	c, err := jsonwalk.New("", data)
	if err != nil {
		return nil, err
	}
	r := matrixReader{Cursor: c, data: data, tables: map[string]*table{}}
	seen := map[string]int{} // offset of each key
	err = c.Entries(func(key []byte, at int) error {
		if first, dup := seen[string(key)]; dup {
			return c.Fail(at, "key %s is given twice, first on line %d", jsonwalk.Quote(string(key)), c.Line(first))
		}
		seen[string(key)] = at
		return r.entry(string(key), at)
	})
	if err != nil {
		return nil, err
	}
	if _, ok := seen["hosts"]; !ok {
		return nil, c.Fail(c.Pos(), "hosts is missing")
	}
	if err := r.checkShape(); err != nil {
		return nil, err
	}
	return r.snapshot(now), nil
}

// A matrixReader holds what has been read: a matrix may come before the list of hosts.
type matrixReader struct {
	*jsonwalk.Cursor
	data   []byte
	hosts  []Host
	epoch  uint64
	tables map[string]*table
	models []fileModel
}

// A table is one matrix of the file before the number of hosts is known.
type table struct {
	at     int         // byte offset of its key
	rows   [][]float64 // NaN is null
	starts []int       // byte offset of each row
}

func (r *matrixReader) entry(key string, at int) error {
	c := columnByKey(key)
	switch {
	case c != nil:
		return jsonwalk.Within(r.table(c, at), key)
	case key == "hosts":
		return jsonwalk.Within(r.readHosts(), key)
	case key == "epoch":
		return jsonwalk.Within(r.readEpoch(), key)
	case key == modelsKey:
		return jsonwalk.Within(r.readModels(), key)
	}
	// A key that shares its stem with a known one (bandwidth_gbps, latency, gap_us) is
	// refused: skipping it would drop a measurement, or keep one in the wrong unit,
	// without a word.
	stem, _, _ := strings.Cut(strings.ToLower(key), "_")
	for _, known := range append(columnKeys(), "hosts", "epoch", modelsKey) {
		if ks, _, _ := strings.Cut(known, "_"); ks == stem {
			return r.Fail(at, "unknown key %s; write %s", jsonwalk.Quote(key), known)
		}
	}
	r.Skip()
	return nil
}

var hostKeys = []string{"name", "site", "port_mbps"}

func (r *matrixReader) readHosts() error {
	r.Peek()
	start := r.Pos()
	first := map[string]int{}
	err := r.List(func(i int) error {
		at := r.Pos()
		var h Host
		_, err := r.Fields(hostKeys, func(k int) (err error) {
			switch hostKeys[k] {
			case "name":
				h.Name, err = r.Text()
			case "site":
				h.Site, err = r.Text()
			default:
				h.PortMbps, err = r.port()
			}
			return err
		})
		line, dup := first[h.Name]
		switch {
		case err != nil:
		case h.Name == "":
			err = r.Fail(at, "the host has no name")
		case dup:
			err = r.Fail(at, "the name %q is given twice, first on line %d", h.Name, line)
		case i == MaxHosts:
			err = r.Fail(at, "more than %d hosts", MaxHosts)
		}
		first[h.Name] = r.Line(at)
		r.hosts = append(r.hosts, h)
		return jsonwalk.Within(err, jsonwalk.Element(i))
	})
	if err == nil && len(r.hosts) == 0 {
		return r.Fail(start, "the list is empty")
	}
	return err
}

// port reads what a port carries, Mbit/s, or null, which is 0.
func (r *matrixReader) port() (float64, error) {
	if r.Null() {
		return 0, nil
	}
	at := r.Pos()
	v, err := r.Number()
	if least, most := 1/float64(Mbps), MaxRate.Mbps(); err == nil && (v < least || v > most) {
		err = r.Fail(at, "%v is not in %g … %g; leave out what nobody knows", v, least, most)
	}
	return v, err
}

func (r *matrixReader) readEpoch() error {
	text, at, err := r.Digits()
	if err != nil {
		return err
	}
	if r.epoch, err = strconv.ParseUint(string(text), 10, 64); err != nil {
		return r.Fail(at, "%.40s is not a whole number of 64 bits", text)
	}
	return nil
}

// table reads the matrix of c, whose key stands at offset at.
func (r *matrixReader) table(c *column, at int) error {
	t := &table{at: at}
	r.tables[c.key] = t
	return r.List(func(i int) error {
		if i == MaxHosts {
			return r.Fail(r.Pos(), "more than %d rows", MaxHosts)
		}
		t.starts = append(t.starts, r.Pos())
		var row []float64
		err := r.List(func(j int) error {
			v, err := r.cell(c, i == j)
			row = append(row, v)
			if err != nil {
				return jsonwalk.Within(err, jsonwalk.Element(j))
			}
			return nil
		})
		t.rows = append(t.rows, row)
		return jsonwalk.Within(err, jsonwalk.Element(i))
	})
}

// cell reads a value of c: a number, or null, which is NaN.
func (r *matrixReader) cell(c *column, diagonal bool) (float64, error) {
	if diagonal {
		r.Skip() // whatever it holds
		return math.NaN(), nil
	}
	if r.Null() {
		return math.NaN(), nil
	}
	at := r.Pos()
	v, err := r.Number()
	switch {
	case err != nil:
		return 0, err
	case v < 0:
		return 0, r.Fail(at, "%v is negative", v)
	case v == 0 && c.min > 0:
		return 0, r.Fail(at, "%v; write null for a pair that was not measured", v)
	case v < c.min || v > c.max:
		return 0, r.Fail(at, "%v is not in %g … %g", v, c.min, c.max)
	case c.whole && v != math.Trunc(v):
		return 0, r.Fail(at, "%v is not a whole number", v)
	}
	return v, nil
}

// checkShape says which matrix is missing or does not fit the hosts, in a fixed order: the
// same file gives the same error.
func (r *matrixReader) checkShape() error {
	for i := range columns {
		if c := &columns[i]; c.required && r.tables[c.key] == nil {
			return r.Fail(r.Pos(), "%s is missing", c.key)
		}
	}
	if err := r.checkModels(); err != nil {
		return err
	}
	n := len(r.hosts)
	for _, key := range columnKeys() {
		t := r.tables[key]
		if t == nil {
			continue
		}
		if len(t.rows) != n {
			return r.Fail(t.at, "%s has %d rows for %d hosts", key, len(t.rows), n)
		}
		for i, row := range t.rows {
			if len(row) != n {
				return r.Fail(t.starts[i], "%s[%d], the row of %s, has %d values for %d hosts", key, i, r.hosts[i].Name, len(row), n)
			}
		}
	}
	return nil
}

func (r *matrixReader) snapshot(now time.Time) *Snapshot {
	n := len(r.hosts)
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
				t := r.tables[c.key]
				if t == nil || math.IsNaN(t.rows[i][j]) {
					continue
				}
				c.store(e, t.rows[i][j])
				e.Known |= c.field
			}
			if t := r.tables[ageColumn.key]; t != nil && !now.IsZero() && !math.IsNaN(t.rows[i][j]) {
				e.Measured = now.Add(-seconds(t.rows[i][j])).Round(0)
			}
			*e = e.clean()
		}
	}
	s := NewSnapshot(r.epoch, r.hosts, est)
	s.models = r.modelRows()
	return s
}

// columnByKey returns nil for a key that is no matrix.
func columnByKey(key string) *column {
	for i := range columns {
		if columns[i].key == key {
			return &columns[i]
		}
	}
	if key == ageColumn.key {
		return &ageColumn
	}
	return nil
}

func columnKeys() []string {
	keys := make([]string, 0, len(columns)+1)
	for i := range columns {
		keys = append(keys, columns[i].key)
	}
	return append(keys, ageColumn.key)
}
