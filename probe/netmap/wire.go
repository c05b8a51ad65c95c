package netmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The wire forms of Delta and Digest. They cross WAN links of 1 Mbit/s, so names appear
// once, in a table, numbers are varints, and versions are differences. Big changes get
// another first byte; a receiver refuses one that it does not know.
//
//	delta  = 1 names reports             digest = 2 names base { version-base }
//	names  = count { length bytes }      (sorted, no duplicates)
//	report = reporter since count { entry }
//	entry  = peer<<1|incoming  version-previous  source<<7|known  version-measured(zigzag)
//	         { one varint for each known field, in the order of the bits } [ spread, if bandwidth ]
//
// Rates are in B/s, delays in ns, loss in 1e-9, spread in 1e-4, versions in µs.
const (
	deltaForm  = 1
	digestForm = 2
	knownBits  = 7
	minEntry   = 4 // bytes of the shortest entry: bounds what a count can claim
)

// ErrMalformed is returned, wrapped with the place, for bytes that are no delta or digest.
var ErrMalformed = errors.New("malformed")

// AppendDelta appends the wire form of d, which must come from [Map.Delta] or [ParseDelta].
// It returns an error, naming the entry, if an entry is not the reporter's, does not pass
// [Estimate.Check], or versions do not rise.
func AppendDelta(dst []byte, d Delta) ([]byte, error) {
	set := map[string]bool{}
	for _, r := range d {
		set[r.Reporter] = true
		for _, e := range r.Entries {
			set[e.From], set[e.To] = true, true
		}
	}
	dst = append(dst, deltaForm)
	dst, index, err := appendNames(dst, set)
	if err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(len(d)))
	for _, r := range d {
		dst = binary.AppendUvarint(dst, index[r.Reporter])
		dst = binary.AppendUvarint(dst, uint64(r.Since))
		dst = binary.AppendUvarint(dst, uint64(len(r.Entries)))
		prev := r.Since
		for _, e := range r.Entries {
			key, err := keyOf(r.Reporter, e.From, e.To)
			if err == nil {
				err = e.Estimate.Check()
			}
			if err == nil && e.Version <= prev {
				err = fmt.Errorf("version %d after %d does not rise", e.Version, prev)
			}
			if err != nil {
				return dst, fmt.Errorf("write entry %s→%s of %s: %w", e.From, e.To, r.Reporter, err)
			}
			who := index[key.name] << 1
			if key.incoming {
				who |= 1
			}
			dst = binary.AppendUvarint(dst, who)
			dst = binary.AppendUvarint(dst, uint64(e.Version-prev))
			dst = appendEstimate(dst, e.Version, e.Estimate.rounded())
			prev = e.Version
		}
	}
	return dst, nil
}

func appendEstimate(dst []byte, v Version, e Estimate) []byte {
	dst = binary.AppendUvarint(dst, uint64(e.Source)<<knownBits|uint64(e.Known))
	dst = binary.AppendVarint(dst, int64(v)-e.Measured.UnixMicro())
	for f := FieldLatency; f <= FieldSendOverhead; f <<= 1 {
		if e.Has(f) {
			dst = binary.AppendUvarint(dst, wireValue(e, f))
		}
	}
	if e.Has(FieldBandwidth) {
		dst = binary.AppendUvarint(dst, uint64(e.Spread*spreadUnit+0.5))
	}
	return dst
}

// wireValue returns field f of a rounded estimate as the number on the wire.
func wireValue(e Estimate, f Field) uint64 {
	switch f {
	case FieldLatency:
		return uint64(e.Latency)
	case FieldBandwidth:
		return uint64(e.Bandwidth)
	case FieldCapacity:
		return uint64(e.Capacity)
	case FieldLanes:
		return uint64(e.Lanes)
	case FieldLoss:
		return uint64(e.Loss*lossUnit + 0.5)
	case FieldGap:
		return uint64(e.Gap)
	default:
		return uint64(e.SendOverhead)
	}
}

// setWireValue is the inverse of wireValue. v is below 2^53, so no conversion wraps.
func setWireValue(e *Estimate, f Field, v uint64) {
	switch f {
	case FieldLatency:
		e.Latency = time.Duration(v)
	case FieldBandwidth:
		e.Bandwidth = BytesPerSec(v)
	case FieldCapacity:
		e.Capacity = BytesPerSec(v)
	case FieldLanes:
		e.Lanes = int(v)
	case FieldLoss:
		e.Loss = float64(v) / lossUnit
	case FieldGap:
		e.Gap = time.Duration(v)
	default:
		e.SendOverhead = time.Duration(v)
	}
	e.Known |= f
}

// ParseDelta reads what [AppendDelta] wrote. It allocates in proportion to the length of b,
// whatever b claims, and returns [ErrMalformed] with the offset, or [ErrAbsurd] with the
// pair and the value. Whether the reports are to be believed is for [Map.Merge] to say.
func ParseDelta(b []byte) (Delta, error) {
	r := &wireReader{b: b}
	r.form(deltaForm)
	names := r.names()
	reports := r.count("reports", 3)
	d := make(Delta, 0, reports)
	for range reports {
		rep := Report{Reporter: r.name(names, r.uvarint()), Since: Version(r.number(1 << 62))}
		entries := r.count("entries", minEntry)
		rep.Entries = make([]Entry, 0, entries)
		v := rep.Since
		for range entries {
			e, err := r.entry(names, rep.Reporter, v)
			if err != nil {
				return nil, err
			}
			v = e.Version
			rep.Entries = append(rep.Entries, e)
		}
		d = append(d, rep)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return d, nil
}

func (r *wireReader) entry(names []string, reporter string, prev Version) (Entry, error) {
	who := r.uvarint()
	e := Entry{From: reporter, To: r.name(names, who>>1)}
	if who&1 == 1 {
		e.From, e.To = e.To, e.From
	}
	step := r.number(1 << 62)
	if step == 0 || e.From == e.To {
		r.fail("a version that does not rise, or a pair of one host")
	}
	e.Version = prev + Version(step)
	head := r.number(1<<(knownBits+3) - 1)
	e.Estimate.Source = Source(head >> knownBits)
	measured := int64(e.Version) - r.varint()
	if e.Version > 1<<62 || measured < 0 || measured > 1<<62 {
		r.fail("a time past the end of time")
	}
	e.Estimate.Measured = time.UnixMicro(measured).UTC()
	for f := FieldLatency; f <= FieldSendOverhead; f <<= 1 {
		if Field(head)&f != 0 {
			setWireValue(&e.Estimate, f, r.number(1<<53))
		}
	}
	if e.Estimate.Has(FieldBandwidth) {
		e.Estimate.Spread = float64(r.number(maxSpread*spreadUnit)) / spreadUnit
	}
	if r.err != nil {
		return Entry{}, r.err
	}
	if err := e.Estimate.Check(); err != nil {
		return Entry{}, fmt.Errorf("read %.40q→%.40q: %w: %w", e.From, e.To, ErrAbsurd, err)
	}
	// The same belief has one form: no source without a bandwidth.
	e.Estimate = e.Estimate.clean()
	return e, nil
}

// AppendDigest appends the wire form of d.
func AppendDigest(dst []byte, d Digest) ([]byte, error) {
	set := make(map[string]bool, len(d))
	base := Version(0)
	first := true
	for name, v := range d {
		set[name] = true
		if first || v < base {
			base, first = v, false
		}
	}
	dst, _, err := appendNames(append(dst, digestForm), set)
	if err != nil {
		return dst, err
	}
	dst = binary.AppendUvarint(dst, uint64(base))
	for _, name := range slices.Sorted(maps.Keys(d)) {
		dst = binary.AppendUvarint(dst, uint64(d[name]-base))
	}
	return dst, nil
}

// ParseDigest reads what [AppendDigest] wrote; errors and memory are as for [ParseDelta].
func ParseDigest(b []byte) (Digest, error) {
	r := &wireReader{b: b}
	r.form(digestForm)
	names := r.names()
	base := Version(r.number(1 << 62))
	d := make(Digest, len(names))
	for _, name := range names {
		d[name] = base + Version(r.number(1<<62))
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return d, nil
}

func appendNames(dst []byte, set map[string]bool) ([]byte, map[string]uint64, error) {
	dst = binary.AppendUvarint(dst, uint64(len(set)))
	index := make(map[string]uint64, len(set))
	for i, name := range slices.Sorted(maps.Keys(set)) {
		if err := checkName(name); err != nil {
			return dst, nil, err
		}
		index[name] = uint64(i)
		dst = binary.AppendUvarint(dst, uint64(len(name)))
		dst = append(dst, name...)
	}
	return dst, index, nil
}
