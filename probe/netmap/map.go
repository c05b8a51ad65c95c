package netmap

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/jsonwalk"
)

// Errors that callers of [Map] branch on.
var (
	// ErrForeign: a host reported a pair in which it takes no part.
	ErrForeign = errors.New("only the two hosts of a pair may report it")
	// ErrFuture: a report carries a time that lies further ahead than clocks may differ.
	ErrFuture = errors.New("time lies in the future")
	// ErrTooManyHosts: the map holds as many hosts as it may.
	ErrTooManyHosts = errors.New("too many hosts")
	// ErrAbsurd: a value that no network can have, see [Estimate.Check].
	ErrAbsurd = errors.New("absurd estimate")
)

// MapConfig says whose map it is and how much it may hold.
type MapConfig struct {
	// Self is the host whose measurements Set and Update record. Required.
	Self string
	// MaxHosts bounds the memory: a full map of n hosts takes about 400·n² bytes.
	// Zero means 512. A map that is too small refuses the hosts that come last.
	MaxHosts int
	// MaxSkew is how far ahead of ours another host's clock may be. Zero means 5 min.
	// Reports from further ahead are refused: one host with a clock in the next year
	// would win every comparison until then.
	MaxSkew time.Duration
}

// A Map is the live network map of one agent: what every host reported of the pairs that
// it is part of. A host measures as a sender what it sends and as a receiver what reaches
// it, so a pair has up to two reports, one from either end; [Map.Snapshot] joins them.
//
// Agents keep their maps alike by anti-entropy: A sends [Map.Digest], B answers with
// [Map.Delta] of it, A calls [Map.Merge]. Every reporter stamps its entries with a rising
// [Version], so the digest is one number for each reporter (the scheme of van Renesse et
// al., "Efficient Reconciliation and Flow Control for Anti-Entropy Protocols", 2008).
//
// Merging is idempotent and commutative: agents that have exchanged all deltas hold the
// same entries, bit for bit, since values are rounded to what the wire carries when they
// are set. After a restart, merge from another agent before the first Set: that returns
// what the earlier life measured, which otherwise waits to be measured again. Relayed
// reports are not signed: a member of the cluster that lies about a third host is not found
// out here.
//
// A Map may be used by several goroutines at once.
type Map struct {
	cfg MapConfig

	mu      sync.Mutex         // guards everything below
	epoch   uint64             // counts changes of value
	last    Version            // the newest version that Self is known to have used
	reports map[string]*report // by reporter
	hosts   map[string]bool    // every reporter and peer, to count them
	gone    map[string]Version // forgotten hosts: what is not newer stays forgotten
}

// A Version orders the entries of one reporter: microseconds since 1970 on its clock when
// the entry was set, or one more than its last version where the clock has not moved on.
// It outlives a restart without anything on disk; a clock that was set back is repaired by
// the first digest or delta that returns, see [Map.Delta].
type Version uint64

func versionAt(t time.Time) Version { return Version(max(0, t.UnixMicro())) }

// report is all that one host reported.
type report struct {
	// covered: every entry of the reporter up to this version is held, or was replaced
	// by a newer one. Deltas that leave a gap do not raise it.
	covered Version
	entries map[peer]entry
}

// peer is a pair as its reporter sees it: the other end, and the direction.
type peer struct {
	name     string
	incoming bool // the pair is name→reporter
}

type entry struct {
	version Version
	est     Estimate
	live    bool // of Self, and set since the start: not the echo of an earlier life
}

// NewMap returns an empty map. It returns an error that quotes a wrong value of cfg.
func NewMap(cfg MapConfig) (*Map, error) {
	if err := checkName(cfg.Self); err != nil {
		return nil, fmt.Errorf("network map: self: %w", err)
	}
	if cfg.MaxHosts == 0 {
		cfg.MaxHosts = 512
	}
	if cfg.MaxHosts < 1 || cfg.MaxHosts > MaxHosts {
		return nil, fmt.Errorf("network map: %d hosts at most: not in 1 … %d", cfg.MaxHosts, MaxHosts)
	}
	if cfg.MaxSkew == 0 {
		cfg.MaxSkew = 5 * time.Minute
	}
	if cfg.MaxSkew < 0 {
		return nil, fmt.Errorf("network map: clock skew %v is negative", cfg.MaxSkew)
	}
	return &Map{
		cfg:     cfg,
		reports: map[string]*report{},
		hosts:   map[string]bool{cfg.Self: true},
		gone:    map[string]Version{},
	}, nil
}

// Set records e as all that Self knows of from→to, one of which must be Self; what it
// reported of the pair before is replaced. An e without Measured was measured now.
// Rates are rounded to 1 B/s, shares to 1e-9, times to 1 µs of the clock and 1 ns of
// delay. Set returns [ErrForeign], [ErrFuture], [ErrTooManyHosts] or [ErrAbsurd],
// wrapped with the pair and the value, and then changes nothing.
//
// A [SourcePredicted] bandwidth is refused as absurd: predictions are not spread.
func (m *Map) Set(from, to string, e Estimate, now time.Time) error {
	return m.set(from, to, e, now, false)
}

// Update is Set, but fields that e does not know keep what Self reported of them before.
// Separate probes of latency and bandwidth can so write to the same pair.
func (m *Map) Update(from, to string, e Estimate, now time.Time) error {
	return m.set(from, to, e, now, true)
}

func (m *Map) set(from, to string, e Estimate, now time.Time, overlay bool) error {
	key, err := keyOf(m.cfg.Self, from, to)
	if err != nil {
		return fmt.Errorf("set %s→%s by %s: %w", from, to, m.cfg.Self, err)
	}
	if e.Measured.IsZero() {
		e.Measured = now
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reports[m.cfg.Self]
	if overlay && r != nil {
		e = r.entries[key].est.overlay(e)
	}
	if err := m.admit(m.cfg.Self, key.name, e, now); err != nil {
		return fmt.Errorf("set %s→%s: %w", from, to, err)
	}
	e = e.rounded()
	if r == nil {
		r = m.report(m.cfg.Self)
	}
	// What is said of a host now is newer than its being forgotten.
	m.last = max(versionAt(now), m.last+1, m.gone[key.name]+1)
	m.store(r, key, entry{version: m.last, est: e, live: true})
	r.covered = m.last
	return nil
}

// admit says whether an estimate by reporter of its pair with the host name may enter.
func (m *Map) admit(reporter, name string, e Estimate, now time.Time) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := e.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrAbsurd, err)
	}
	if e.Has(FieldBandwidth) && e.Source == SourcePredicted {
		return fmt.Errorf("%w: a prediction of %.4g Mbit/s is not a report", ErrAbsurd, e.Bandwidth.Mbps())
	}
	if ahead := e.Measured.Sub(now); ahead > m.cfg.MaxSkew {
		return fmt.Errorf("measured at %v, %v ahead: %w", e.Measured.UTC().Format(time.RFC3339), ahead, ErrFuture)
	}
	if e.Measured.UnixMicro() < 0 {
		return fmt.Errorf("%w: measured at %v, before 1970", ErrAbsurd, e.Measured.UTC())
	}
	need := len(m.hosts)
	for _, h := range []string{reporter, name} {
		if !m.hosts[h] {
			need++
		}
	}
	if need > m.cfg.MaxHosts {
		return fmt.Errorf("%d hosts, of %d at most: %w", need, m.cfg.MaxHosts, ErrTooManyHosts)
	}
	return nil
}

func (m *Map) report(reporter string) *report {
	r := m.reports[reporter]
	if r == nil {
		// A host that comes back after Forget is complete up to its being forgotten:
		// that is what our digest told the others.
		r = &report{covered: m.gone[reporter], entries: map[peer]entry{}}
		m.reports[reporter] = r
		m.hosts[reporter] = true
	}
	return r
}

// store writes an admitted entry and counts the epoch if a value is new.
func (m *Map) store(r *report, key peer, e entry) {
	old, had := r.entries[key]
	r.entries[key] = e
	m.hosts[key.name] = true
	if a, b := old.est, e.est; !had || !sameValues(a, b) {
		m.epoch++
	}
}

// sameValues compares two estimates but for their age.
func sameValues(a, b Estimate) bool {
	a.Measured, b.Measured = time.Time{}, time.Time{}
	return a == b
}

// Epoch counts the changes of value since the start. A sample that only confirms what was
// believed makes the entry younger and leaves the epoch alone.
func (m *Map) Epoch() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.epoch
}

// Forget drops hosts that have left for good: what they reported and what was reported of
// them. Reports that are not newer than now are not taken back from agents that still hold
// them. Do not call it for a host that merely looks dead: it would have to be measured
// anew; hosts that are not asked of [Map.Snapshot] take no part anyhow. Self is never forgotten.
func (m *Map) Forget(now time.Time, names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if name == m.cfg.Self || !m.hosts[name] {
			continue
		}
		floor := versionAt(now)
		if r := m.reports[name]; r != nil {
			floor = max(floor, r.covered)
			for _, e := range r.entries {
				floor = max(floor, e.version)
			}
			m.epoch++
			delete(m.reports, name)
		}
		for _, r := range m.reports {
			for _, key := range []peer{{name, false}, {name, true}} {
				if e, ok := r.entries[key]; ok {
					floor = max(floor, e.version)
					m.epoch++
					delete(r.entries, key)
				}
			}
		}
		delete(m.hosts, name)
		m.gone[name] = floor
	}
	m.forgetGone()
}

// forgetGone bounds the memory of forgotten hosts, oldest first.
func (m *Map) forgetGone() {
	for len(m.gone) > m.cfg.MaxHosts {
		oldest, first := "", true
		for name, v := range m.gone {
			if w := m.gone[oldest]; first || v < w || v == w && name < oldest {
				oldest, first = name, false
			}
		}
		delete(m.gone, oldest)
	}
}

func keyOf(reporter, from, to string) (peer, error) {
	switch {
	case from == to:
		return peer{}, fmt.Errorf("%w: a pair is two hosts", ErrForeign)
	case from == reporter:
		return peer{name: to}, nil
	case to == reporter:
		return peer{name: from, incoming: true}, nil
	}
	return peer{}, ErrForeign
}

// maxName bounds a host's name in bytes, as in the DNS.
const maxName = jsonwalk.MaxText

func checkName(name string) error {
	if name == "" {
		return errors.New("a host without a name")
	}
	if err := jsonwalk.CheckText(name); err != nil {
		return fmt.Errorf("host name %w", err)
	}
	return nil
}
