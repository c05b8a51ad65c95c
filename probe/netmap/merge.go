package netmap

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A Digest says, for each reporter, up to which version a map is complete.
type Digest map[string]Version

// A Delta carries what one map holds and another lacks. Reports are sorted by reporter.
type Delta []Report

// A Report is a stretch of one host's entries: all that the sender holds with a version
// above Since, up to that of the last entry.
type Report struct {
	Reporter string
	Since    Version
	Entries  []Entry // by rising version; never empty in a delta from [Map.Delta]
}

// An Entry is one estimate of From→To, one of which is the reporter.
type Entry struct {
	From, To string
	Version  Version
	Estimate Estimate
}

// Entries counts the entries of d.
func (d Delta) Entries() int {
	n := 0
	for _, r := range d {
		n += len(r.Entries)
	}
	return n
}

// Digest returns what the map holds. The caller owns it.
func (m *Map) Digest() Digest {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := make(Digest, len(m.reports))
	// A forgotten host's own reports are not wanted again; what others say of it is
	// filtered by Merge.
	maps.Copy(d, m.gone)
	for name, r := range m.reports {
		d[name] = max(r.covered, m.gone[name])
	}
	return d
}

// Delta returns what a map with the digest since lacks: at most limit entries, 0 for all.
// A delta that was cut short is continued by the next digest.
//
// If since knows newer versions of Self than Self has used, the clock was set back across
// a restart; what Self measured since is then stamped anew, so that it counts.
func (m *Map) Delta(since Digest, limit int, now time.Time) Delta {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raise(since[m.cfg.Self], now)
	var d Delta
	left := limit
	for _, name := range slices.Sorted(maps.Keys(m.reports)) {
		r := Report{Reporter: name, Since: since[name]}
		held := m.reports[name]
		for key, e := range held.entries {
			// Beyond covered there are gaps, and a report must not have any.
			if e.version <= r.Since || e.version > held.covered {
				continue
			}
			from, to := name, key.name
			if key.incoming {
				from, to = to, from
			}
			r.Entries = append(r.Entries, Entry{from, to, e.version, e.est})
		}
		slices.SortFunc(r.Entries, byVersion)
		if limit > 0 {
			r.Entries = r.Entries[:min(left, len(r.Entries))]
			left -= len(r.Entries)
		}
		if len(r.Entries) > 0 {
			d = append(d, r)
		}
	}
	return d
}

func byVersion(a, b Entry) int {
	return cmp.Compare(a.Version, b.Version) // the versions of one reporter all differ
}

// raise moves the version counter of Self past v, which others have seen of it, and
// stamps anew what was set in this life. A v from the future is left alone: following it
// would make the others refuse us.
func (m *Map) raise(v Version, now time.Time) {
	if v <= m.last || v > versionAt(now.Add(m.cfg.MaxSkew)) {
		return
	}
	m.last = v
	r := m.reports[m.cfg.Self]
	if r == nil {
		return
	}
	live := make([]peer, 0, len(r.entries))
	for key, e := range r.entries {
		if e.live {
			live = append(live, key)
		}
	}
	slices.SortFunc(live, func(a, b peer) int { // keep the order in which they were set
		return cmp.Compare(r.entries[a].version, r.entries[b].version)
	})
	for _, key := range live {
		m.last++
		e := r.entries[key]
		e.version = m.last
		r.entries[key] = e
	}
	r.covered = max(r.covered, m.last)
}

// Merge takes in what another map held and returns how many entries were new. Each entry
// wins over an older one of the same reporter and pair. A report is taken up to its first
// entry that must be refused, for the reasons that [Map.Set] gives; the error joins those
// of all reports, and what was fit is merged all the same.
func (m *Map) Merge(d Delta, now time.Time) (changed int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, r := range d {
		n, err := m.merge(r, now)
		changed += n
		if err != nil {
			errs = append(errs, fmt.Errorf("merge report of %.40q: %w", r.Reporter, err))
		}
	}
	return changed, errors.Join(errs...)
}

func (m *Map) merge(in Report, now time.Time) (changed int, err error) {
	if err := checkName(in.Reporter); err != nil {
		return 0, err
	}
	ceiling := versionAt(now.Add(m.cfg.MaxSkew))
	self := in.Reporter == m.cfg.Self
	prev := in.Since
	for _, e := range in.Entries {
		key, err := keyOf(in.Reporter, e.From, e.To)
		switch {
		case err != nil:
			return changed, fmt.Errorf("%.40q→%.40q: %w", e.From, e.To, err)
		case e.Version <= prev:
			return changed, fmt.Errorf("version %d after %d does not rise", e.Version, prev)
		case e.Version > ceiling:
			return changed, fmt.Errorf("version of %v: %w", time.UnixMicro(int64(min(e.Version, 1<<60))).UTC().Format(time.RFC3339), ErrFuture)
		}
		prev = e.Version
		if e.Version <= m.gone[in.Reporter] {
			continue
		}
		if e.Version > m.gone[key.name] {
			if err := m.admit(in.Reporter, key.name, e.Estimate, now); err != nil {
				return changed, fmt.Errorf("%s→%s: %w", e.From, e.To, err)
			}
			if self {
				m.raise(e.Version, now)
			}
			r := m.report(in.Reporter)
			if held, ok := r.entries[key]; !ok || held.version < e.Version {
				m.store(r, key, entry{version: e.Version, est: e.Estimate.rounded()})
				changed++
			}
		}
		// The stretch up to here is complete only if it begins where we stood.
		if r := m.reports[in.Reporter]; r != nil && in.Since <= r.covered {
			r.covered = max(r.covered, e.Version)
		}
	}
	return changed, nil
}
