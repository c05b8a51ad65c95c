package netmap

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/logp"
)

// Errors that callers of [Map] branch on.
var (
	// ErrForeign: a host reported a pair in which it takes no part.
	ErrForeign = errors.New("only the two hosts of a pair may report it")
	// ErrFuture: a report carries a time that lies further ahead than clocks may differ.
	ErrFuture = errors.New("time lies in the future")
	// ErrTooManyHosts: the map holds the reports of as many hosts as it may.
	ErrTooManyHosts = errors.New("too many hosts")
	// ErrAbsurd: a value that no network can have, see [Estimate.Check].
	ErrAbsurd = errors.New("absurd estimate")
	// ErrSignature: a batch is not signed by the host that it names.
	ErrSignature = errors.New("bad signature")
	// ErrTwoFaced: a host has signed two batches of one version that differ.
	ErrTwoFaced = errors.New("signed two different batches of one version")
)

// MapConfig says whose map it is, how much it may hold and whom it believes.
type MapConfig struct {
	// Self is the host whose measurements Set and Update record. Required.
	Self string
	// MaxHosts bounds the hosts whose reports are held: some 6 kB each with 16 pairs. Zero means 4096.
	// A map that is too small refuses the hosts that come last.
	MaxHosts int
	// MaxSkew is how far ahead of ours another host's clock may be. Zero means 5 min.
	// Reports from further ahead are refused: a host whose clock comes back from the
	// next year could not be heard until then.
	MaxSkew time.Duration
	// Member says whose reports are taken. Nil means everybody's.
	Member func(host string) bool
	// Sites returns the label of each host, "" or none where it is not known. It must not block, nor call
	// the map. Nil: what hosts read is not compared with what others of their site do ([Map.Misreadings]).
	Sites func() map[string]string

	// Sign signs what Self publishes, and Verify checks that message was signed by
	// the host that credential is for. The credential travels with what it proves;
	// both are opaque here. All nil: nothing is signed and everything believed, for
	// simulations. Neither may call the map.
	Credential []byte
	Sign       func(message []byte) ([]byte, error)
	Verify     func(host string, credential, message, signature []byte) error
}

// A Map is the live network map of one agent: what every host reported of the pairs that
// it is part of. A host measures as a sender what it sends and as a receiver what reaches
// it, so a pair has up to two reports, one from either end; [Map.Snapshot] joins them.
//
// What Self measures is seen here at once. Others get it in batches that Self signs
// ([Map.Publish]), and that relays pass on as they are. Agents keep their maps alike by
// anti-entropy over a tree of hashes, and spread news of weight ahead of it ([Map.Start]).
//
// Merging is idempotent and commutative: agents that have exchanged everything hold the
// same entries, bit for bit, since values are rounded to what the wire carries when they
// are set. After a restart, exchange with another agent before the first Publish: that
// returns what the earlier life has said, which otherwise waits to be measured again.
//
// A Map may be used by several goroutines at once.
type Map struct {
	cfg MapConfig
	// read is readBatch, but in simulations of many maps, which share what it returns.
	read func(raw []byte) (b *batch, rest func() error, err error)

	mu       sync.Mutex         // guards everything below
	epoch    uint64             // counts changes of value
	moves    uint64             // counts those of weight
	reports  map[string]*report // by reporter: what was published
	root     uint64             // sum of the reports' hashes
	gone     map[string]Version // forgotten hosts: what is not newer does not count
	own      own                // what Self has measured
	hot      []rumour
	offered  map[[2]string]offer // by peer and reporter
	culprits map[string]*culprit
	suspects suspicion
}

// A Version orders the batches of one reporter: microseconds since 1970 on its clock when
// the batch was made, or one more than its last version where the clock has not moved on.
// It outlives a restart without anything on disk; a clock that was set back is repaired by
// the first exchange.
type Version uint64

func versionAt(t time.Time) Version { return Version(max(0, t.UnixMicro())) }

// report is what is kept of one reporter: the last full batch, and those after it.
type report struct {
	name  string
	place uint16 // in the tree of hashes
	seed  uint64
	chain []*batch // by version, the first one full; never empty
	bytes int      // of their raw forms
	rows  int      // entries in them
	// newest is the newest entry of the chain about each peer. Every probe and every plan asks for pairs, and chains grow to
	// maxChain batches; so it is kept, some 50 bytes an entry, and not searched for.
	newest map[peer]*entry
}

func newReport(name string) *report {
	sum := sha256.Sum256([]byte(name))
	return &report{name: name, place: binary.BigEndian.Uint16(sum[:]), seed: binary.BigEndian.Uint64(sum[8:])}
}

func (r *report) tip() *batch { return r.chain[len(r.chain)-1] }

// hash stands for the report in the sums of the tree. It mixes as splitmix64 does.
func (r *report) hash() uint64 {
	h := r.seed + uint64(r.tip().version)*0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// append adds b to the chain, or begins it anew with one that is full.
func (r *report) append(b *batch) {
	if b.full() {
		r.chain, r.bytes, r.rows = nil, 0, 0
		r.newest = make(map[peer]*entry, len(b.entries))
	}
	r.chain = append(r.chain, b)
	r.bytes += len(b.raw)
	r.rows += len(b.entries)
	for i := range b.entries {
		r.newest[b.entries[i].peer] = &b.entries[i]
	}
}

// find returns the newest entry about p, or nil.
func (r *report) find(p peer) *entry { return r.newest[p] }

// NewMap returns an empty map. It returns an error that quotes a wrong value of cfg.
func NewMap(cfg MapConfig) (*Map, error) {
	if err := checkName(cfg.Self); err != nil {
		return nil, fmt.Errorf("network map: self: %w", err)
	}
	if cfg.MaxHosts == 0 {
		cfg.MaxHosts = MaxHosts
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
	if (cfg.Sign == nil) != (cfg.Verify == nil) {
		return nil, errors.New("network map: signing without verifying, or the other way round")
	}
	if len(cfg.Credential) > maxCredential {
		return nil, fmt.Errorf("network map: a credential of %d bytes, more than %d", len(cfg.Credential), maxCredential)
	}
	return &Map{
		cfg:      cfg,
		read:     readBatch,
		reports:  map[string]*report{},
		gone:     map[string]Version{},
		own:      own{entries: map[peer]*entry{}},
		offered:  map[[2]string]offer{},
		culprits: map[string]*culprit{},
	}, nil
}

// Set records e as all that Self knows of from→to, one of which must be Self; what it
// reported of the pair before is replaced. An e without Measured was measured now.
// Rates are rounded to 1 B/s, shares to 1e-9, times to 1 µs of the clock and 1 ns of
// delay. Set returns [ErrForeign], [ErrFuture] or [ErrAbsurd], wrapped with the pair and
// the value, and then changes nothing. The others hear of it by [Map.Publish].
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
	if overlay {
		if before := m.find(m.cfg.Self, key); before != nil {
			e = before.est.overlay(e)
		}
	}
	in := &entry{peer: key, est: e}
	if err := in.check(m.cfg.Self, now, m.cfg.MaxSkew); err != nil {
		return fmt.Errorf("set %s→%s: %w", from, to, err)
	}
	in.est = e.rounded()
	m.setOwn(in)
	return nil
}

// SetLogP records mod as what Self measured towards the hosts of site, its own or another
// one. It returns an error that wraps [logp.ErrInvalid] if mod is none, and [ErrAbsurd] if no path is like it.
func (m *Map) SetLogP(site string, mod logp.Model, now time.Time) error {
	if site != "" {
		if err := checkSite(site); err != nil {
			return fmt.Errorf("set LogP model: %w", err)
		}
	}
	if err := checkModel(mod); err != nil {
		return fmt.Errorf("set LogP model towards site %q: %w", site, err)
	}
	mod = logp.Model{Points: slices.Clone(mod.Points)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.setOwn(&entry{peer: peer{name: site, kind: overhead}, model: &mod})
	return nil
}

// find returns what reporter says of p: of Self what it measured, else what it published.
func (m *Map) find(reporter string, p peer) *entry {
	if reporter == m.cfg.Self {
		if e := m.own.entries[p]; e != nil {
			return e
		}
	}
	r := m.reports[reporter]
	if r == nil {
		return nil
	}
	e := r.find(p)
	if e == nil || m.hidden(r, e) {
		return nil
	}
	return e
}

// hidden reports whether e is from before its reporter, or the host that it is about, was
// forgotten. Batches are kept whole, so that they can be passed on.
func (m *Map) hidden(r *report, e *entry) bool {
	return e.version <= m.gone[r.name] || e.kind != overhead && e.version <= m.gone[e.name]
}

// estimate is find for a pair: the zero Estimate where reporter says nothing.
func (m *Map) estimate(reporter string, p peer) Estimate {
	if e := m.find(reporter, p); e != nil {
		return e.est
	}
	return Estimate{}
}

// each calls f for all that find would return for reporter, in no order, without allocating.
func (m *Map) each(reporter string, f func(*entry)) {
	self := reporter == m.cfg.Self
	if self {
		for _, e := range m.own.entries {
			f(e)
		}
	}
	r := m.reports[reporter]
	if r == nil {
		return
	}
	for _, b := range r.chain {
		for i := range b.entries {
			e := &b.entries[i]
			if self && m.own.entries[e.peer] != nil || m.hidden(r, e) || r.find(e.peer) != e {
				continue
			}
			f(e)
		}
	}
}

// row returns all that find would for reporter, by key.
func (m *Map) row(reporter string) []*entry {
	var out []*entry
	m.each(reporter, func(e *entry) { out = append(out, e) })
	slices.SortFunc(out, func(a, b *entry) int { return a.peer.compare(b.peer) })
	return out
}

// same compares two entries but for their age.
func (e *entry) same(o *entry) bool {
	if e.kind == overhead {
		return slices.Equal(e.model.Points, o.model.Points)
	}
	return sameValues(e.est, o.est)
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

// Moves counts the changes of weight since the start, of those that [Map.Epoch] counts: something is known for the first time or no more, or a
// value has moved by more than noise, as for [Map.Publish]. In a grid at rest the epoch changes every second or two, and this does not.
func (m *Map) Moves() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moves
}

// Reporters returns the hosts whose reports the map holds, by name.
func (m *Map) Reporters() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.reports))
}

// Forget drops hosts that have left for good, or were gone for [KeepOwn]: what they reported and what was reported of
// them. Should older reports come back from agents that still hold them, they do not
// count; [MapConfig.Member] keeps them out. Do not call it for a host that looks dead since shortly: it would have to be measured
// anew; hosts that are not asked of [Map.Snapshot] take no part anyhow. Self is never forgotten.
func (m *Map) Forget(now time.Time, names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if name == m.cfg.Self {
			continue
		}
		// What is said of the host from now on is newer than its being forgotten.
		floor, known := versionAt(now), false
		if r := m.reports[name]; r != nil {
			floor, known = max(floor, r.tip().version), true
			m.root -= r.hash()
			delete(m.reports, name)
		}
		for _, r := range m.reports {
			for _, k := range []kind{sent, received} {
				if e := r.find(peer{name, k}); e != nil && e.version > m.gone[name] {
					floor, known = max(floor, e.version), true
				}
			}
		}
		for _, k := range []kind{sent, received} {
			if _, ok := m.own.entries[peer{name, k}]; ok {
				known = true
				delete(m.own.entries, peer{name, k})
			}
		}
		if known {
			m.epoch++
			m.gone[name] = floor
			m.own.floor = max(m.own.floor, floor)
			m.moved()
		}
	}
	m.forgetGone()
}

// moved counts a change of weight.
func (m *Map) moved() {
	m.moves++
	m.suspects.stale = true
}

// forgetGone bounds the memory of forgotten hosts, oldest first.
func (m *Map) forgetGone() {
	for len(m.gone) > m.cfg.MaxHosts {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(m.gone)), func(a, b string) int {
			return cmp.Or(cmp.Compare(m.gone[a], m.gone[b]), cmp.Compare(a, b))
		})
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
		return peer{name: from, kind: received}, nil
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

func checkSite(site string) error {
	if err := jsonwalk.CheckText(site); err != nil {
		return fmt.Errorf("%w: site name %w", ErrAbsurd, err)
	}
	return nil
}
