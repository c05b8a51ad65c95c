package netmap

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
)

// What one reporter may say at most. A reporter that says more is not heard, so that a
// liar fills neither memory nor links.
const (
	// maxRow bounds the pairs and LogP models of one reporter. Both directions to 128
	// hosts fit; a host that has measured more drops what it measured longest ago.
	maxRow        = 256
	maxChain      = 64         // batches since, and with, the last full one
	maxChainRows  = 3 * maxRow // entries in these
	maxBatchBytes = 48 << 10
	maxCredential = 4 << 10
	maxSignature  = 256
)

// The first byte of a batch. It differs from those of earlier forms: 1 and 2 were unsigned deltas and digests, 3 did not say what a
// loss was counted over, 4 not what exchanges have carried. Both sides refuse what they do not know.
const batchForm = 5

// A batch is what a reporter publishes at one time: entries with one version, signed
// together. It never changes: relays pass on the bytes that the reporter has signed.
//
// A full batch is all that its reporter says, and ends the earlier ones. Another continues
// the one whose version is prev, so that a relay cannot leave one out in between. What is
// kept of a reporter is its last full batch and those after it.
//
//	batch = 5 reporter version version-prev { entry-count entry }   version-prev is 0: full,
//	        [credential]                                            and a credential follows
//	entry = shared rest kind body      name = the first shared bytes of the name before, rest
//	body  = source<<10|known version-measured(zigzag) { one varint for each known field, in the
//	        order of the bits } [ spread readings, if bandwidth ]   kinds 0 (sent), 1 (received)
//	        [ packets it was counted over, if loss ]
//	      | length bytes                                            kind 2: a LogP model
//
// Rates are in B/s, delays in ns, loss in 1e-9, spread in 1e-4, versions in µs.
type batch struct {
	reporter   string
	version    Version
	prev       Version // 0: full
	credential []byte  // of a full batch: proves whose key has signed
	entries    []entry // by key; none twice

	raw, sig []byte // as signed, as travelled
}

func (b *batch) full() bool { return b.prev == 0 }

// A kind is what an entry says of its host.
type kind uint8

const (
	sent     kind = iota // the pair reporter→name
	received             // the pair name→reporter
	overhead             // the LogP model towards the site called name
	kinds
)

// peer is what an entry is about, as its reporter sees it.
type peer struct {
	name string // of a host, or of a site where kind is overhead
	kind kind
}

func (p peer) compare(q peer) int {
	return cmp.Or(cmp.Compare(p.name, q.name), cmp.Compare(p.kind, q.kind))
}

// pair returns the pair that an entry of reporter about p describes.
func (p peer) pair(reporter string) (from, to string) {
	if p.kind == received {
		return p.name, reporter
	}
	return reporter, p.name
}

// An entry is one estimate or one model of its reporter.
type entry struct {
	peer
	version Version // of its batch
	est     Estimate
	turn    turn        // of est, as this map has seen it; not signed, and not passed on
	model   *logp.Model // of kind overhead; never modified
}

// find returns the entry about p, or nil.
func (b *batch) find(p peer) *entry {
	i, ok := slices.BinarySearchFunc(b.entries, p, func(e entry, p peer) int { return e.peer.compare(p) })
	if !ok {
		return nil
	}
	return &b.entries[i]
}

// encode fills raw from the other fields. The estimates must pass Check.
func (b *batch) encode() error {
	slices.SortFunc(b.entries, func(x, y entry) int { return x.peer.compare(y.peer) })
	raw := appendText([]byte{batchForm}, b.reporter)
	raw = binary.AppendUvarint(raw, uint64(b.version))
	if b.full() {
		raw = binary.AppendUvarint(raw, 0)
		raw = binary.AppendUvarint(raw, uint64(len(b.credential)))
		raw = append(raw, b.credential...)
	} else {
		raw = binary.AppendUvarint(raw, uint64(b.version-b.prev))
	}
	raw = binary.AppendUvarint(raw, uint64(len(b.entries)))
	before := ""
	for i := range b.entries {
		e := &b.entries[i]
		shared := commonPrefix(before, e.name)
		raw = binary.AppendUvarint(raw, uint64(shared))
		raw = appendText(raw, e.name[shared:])
		raw = append(raw, byte(e.kind))
		if e.kind == overhead {
			model, err := e.model.AppendBinary(nil)
			if err != nil {
				return fmt.Errorf("LogP model towards %q: %w", e.name, err)
			}
			raw = appendText(raw, string(model))
		} else {
			raw = appendEstimate(raw, b.version, e.est)
		}
		before = e.name
	}
	if len(raw) > maxBatchBytes {
		return fmt.Errorf("a batch of %d bytes, more than %d", len(raw), maxBatchBytes)
	}
	b.raw = raw
	return nil
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// parseHead reads what comes before the entries: enough to say who must have signed. The
// rest is read by parseRest once the signature is known to be good.
func parseHead(raw []byte) (*batch, *wireReader, error) {
	if len(raw) > maxBatchBytes {
		return nil, nil, fmt.Errorf("a batch of %d bytes, more than %d: %w", len(raw), maxBatchBytes, ErrMalformed)
	}
	r := &wireReader{b: raw}
	r.form(batchForm)
	b := &batch{raw: raw, reporter: r.text(maxName), version: Version(r.number(maxVersion))}
	step := Version(r.number(maxVersion))
	switch {
	case b.version == 0 || step >= b.version:
		r.fail("version %d, %d after the one before", b.version, step)
	case step == 0:
		b.credential = r.bytes(maxCredential)
	default:
		b.prev = b.version - step
	}
	if r.err == nil {
		if err := checkName(b.reporter); err != nil {
			r.fail("%v", err)
		}
	}
	return b, r, r.err
}

// parseRest reads the entries. Their values are not judged: see [batch.judge].
func (b *batch) parseRest(r *wireReader) error {
	n := r.count("entries", minEntry)
	if n > maxRow {
		r.fail("%d entries, more than %d", n, maxRow)
	}
	if r.err == nil {
		b.entries = make([]entry, 0, n)
	}
	before := ""
	for range n {
		e := entry{version: b.version}
		shared := int(r.number(uint64(len(before))))
		rest := r.text(maxName - shared)
		e.name = before
		if shared != len(before) || rest != "" {
			e.name = before[:shared] + rest
		}
		e.kind = kind(r.number(uint64(kinds) - 1))
		if e.kind == overhead {
			e.model = r.model()
		} else {
			e.est = r.estimate(b.version)
		}
		if i := len(b.entries); i > 0 && b.entries[i-1].peer.compare(e.peer) >= 0 {
			r.fail("entry %.40q after %.40q is not in order", e.name, before)
		}
		if r.err != nil {
			return r.err
		}
		b.entries = append(b.entries, e)
		before = e.name
	}
	return r.end()
}

// judge drops the entries that no honest reporter makes and returns why, nil if there are none.
func (b *batch) judge(now time.Time, skew time.Duration) error {
	var bad error
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool {
		err := e.check(b.reporter, now, skew)
		if err != nil && bad == nil {
			from, to := e.pair(b.reporter)
			bad = fmt.Errorf("%.40s→%.40s: %w", from, to, err)
		}
		return err != nil
	})
	return bad
}

// check says whether reporter may say e at now.
func (e *entry) check(reporter string, now time.Time, skew time.Duration) error {
	if e.kind == overhead {
		if err := checkModel(*e.model); err != nil {
			return err
		}
		if e.name == "" {
			return nil // hosts without a label are a site, too
		}
		return checkSite(e.name)
	}
	if err := checkName(e.name); err != nil {
		return fmt.Errorf("%w: %w", ErrAbsurd, err)
	}
	if e.name == reporter {
		return fmt.Errorf("%w: a pair is two hosts", ErrForeign)
	}
	if err := e.est.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrAbsurd, err)
	}
	if e.est.Has(FieldBandwidth) && e.est.Source == SourcePredicted {
		return fmt.Errorf("%w: a prediction of %.4g Mbit/s is not a report", ErrAbsurd, e.est.Bandwidth.Mbps())
	}
	if ahead := e.est.Measured.Sub(now); ahead > skew {
		return fmt.Errorf("measured at %v, %v ahead: %w", e.est.Measured.UTC().Format(time.RFC3339), ahead, ErrFuture)
	}
	if e.est.Measured.UnixMicro() < 0 {
		return fmt.Errorf("%w: measured at %v, before 1970", ErrAbsurd, e.est.Measured.UTC())
	}
	return nil
}

// ErrMalformed is returned, wrapped with the place, for bytes that are not of the form.
var ErrMalformed = errors.New("malformed")

const (
	knownBits  = 10
	minEntry   = 4       // bytes of the shortest entry: bounds what a count can claim
	maxVersion = 1 << 62 // µs: far past the end of time
	maxModel   = 512     // bytes of a LogP model
)
