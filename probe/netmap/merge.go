package netmap

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// A signed is a batch on its way: the bytes that its reporter signed.
type signed struct{ raw, sig []byte }

// merge takes in what sender has passed on, in order, and returns how many batches were
// new, and the first fault. Faults are remembered, see [Map.Warnings]: a bad signature is
// the sender's, since an honest relay would not have passed it on; what is well signed and
// absurd is its reporter's.
func (m *Map) merge(sender string, in []signed, now time.Time) (taken int, err error) {
	for _, s := range in {
		took, fault := m.take(sender, s, now)
		if took {
			taken++
		}
		if fault != nil && err == nil {
			err = fault
		}
	}
	return taken, err
}

// take merges one batch. What is told is what came first: a reporter that signs two batches of
// one version tells hosts different things, which concerns its own pairs only, and is named as soon
// as the two meet. The batch is verified without the lock: that takes a while.
func (m *Map) take(sender string, s signed, now time.Time) (bool, error) {
	b, rest, err := m.read(s.raw)
	if err != nil {
		return false, m.blame(sender, now, fmt.Errorf("a batch without a head: %w", err))
	}
	b.sig = bytes.Clone(s.sig)
	if !m.member(b.reporter) {
		return false, nil // it comes again once gossip knows the host
	}
	credential, ok := m.wants(b)
	other := false
	if !ok {
		if credential, other = m.contests(b); !other {
			return false, nil
		}
	}
	author := sender
	if m.cfg.Verify != nil {
		if err := m.cfg.Verify(b.reporter, credential, b.raw, b.sig); err != nil {
			return false, m.blame(sender, now, fmt.Errorf("rows of %s: %w: %w", b.reporter, ErrSignature, err))
		}
		author = b.reporter
	}
	if other {
		return false, m.blame(author, now, fmt.Errorf("rows of %s: %w", b.reporter, ErrTwoFaced))
	}
	if ceiling := versionAt(now.Add(m.cfg.MaxSkew)); b.version > ceiling {
		return false, m.blame(author, now, fmt.Errorf("rows of %s of %v, or this host's clock is slow: %w", b.reporter,
			time.UnixMicro(int64(b.version)).UTC().Format(time.RFC3339), ErrFuture))
	}
	if err := rest(); err != nil {
		return false, m.blame(author, now, fmt.Errorf("rows of %s: %w", b.reporter, err))
	}
	// The chain goes on with what is bad left out: all hosts then agree on how far they
	// have read, and the reporter's other entries count.
	bad := b.judge(now, m.cfg.MaxSkew)
	took, err := m.admit(b, now)
	if errors.Is(err, ErrTooManyHosts) {
		return took, err // nobody's fault
	}
	if err == nil {
		err = bad
	}
	if err != nil {
		err = m.blame(author, now, fmt.Errorf("rows of %s: %w", b.reporter, err))
	}
	return took, err
}

// readBatch returns the head of a batch, and what reads the rest once that is to be trusted.
func readBatch(raw []byte) (*batch, func() error, error) {
	b, r, err := parseHead(bytes.Clone(raw)) // not to hold on to the whole message
	return b, func() error { return b.parseRest(r) }, err
}

func (m *Map) member(name string) bool {
	return name == m.cfg.Self || m.cfg.Member == nil || m.cfg.Member(name)
}

// wants reports whether b would be news, and which credential must have signed it.
func (m *Map) wants(b *batch) (credential []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.follows(b)
}

// follows is wants for callers that hold the lock.
func (m *Map) follows(b *batch) (credential []byte, ok bool) {
	r := m.reports[b.reporter]
	if b.full() {
		return b.credential, r == nil || b.version > r.tip().version
	}
	if r == nil || b.prev != r.tip().version {
		return nil, false // old, or there is a gap before it, which the next exchange fills
	}
	return r.chain[0].credential, true
}

// contests reports whether the map holds another batch of b's reporter with b's version, and
// which credential must have signed b for the reporter to be the one who made both.
func (m *Map) contests(b *batch) (credential []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reports[b.reporter]
	if r == nil {
		return nil, false
	}
	for _, held := range r.chain {
		if held.version != b.version || bytes.Equal(held.raw, b.raw) {
			continue
		}
		if b.full() {
			return b.credential, true
		}
		return r.chain[0].credential, true
	}
	return nil, false
}

// admit makes b part of the map.
func (m *Map) admit(b *batch, now time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.follows(b); !ok {
		return false, nil // somebody else has brought it in the meantime
	}
	r := m.reports[b.reporter]
	switch {
	case r == nil && b.reporter != m.cfg.Self && len(m.reports) >= m.cfg.MaxHosts:
		return false, fmt.Errorf("%d hosts have reported, the most that fit: %w", len(m.reports), ErrTooManyHosts)
	case !b.full() && (len(r.chain) >= maxChain || r.rows+len(b.entries) > maxChainRows):
		return false, fmt.Errorf("%d batches of %d entries without a full one: %w", len(r.chain), r.rows, ErrAbsurd)
	}
	if m.link(b) {
		m.addHot(b, 0, now)
	}
	return true, nil
}

// link adds b, which follows, and reports whether it holds news of weight.
func (m *Map) link(b *batch) (weighty bool) {
	changed, withdrawn := false, false
	for i := range b.entries {
		e := &b.entries[i]
		if known := m.reports[e.name]; known != nil {
			e.name = known.name // one copy of a name is enough
		}
		before := m.find(b.reporter, e.peer)
		e.turn = before.turning(e.est)
		if before == nil || !before.same(e) {
			changed = true
			weighty = weighty || before == nil || e.kind != overhead && material(before.est, e.est)
		}
	}
	r := m.reports[b.reporter]
	if r == nil {
		r = newReport(b.reporter)
		m.reports[b.reporter] = r
	} else {
		m.root -= r.hash()
	}
	if b.full() {
		// What it does not repeat is withdrawn.
		m.each(b.reporter, func(e *entry) { withdrawn = withdrawn || b.find(e.peer) == nil })
	}
	r.append(b)
	m.root += r.hash()
	if changed || withdrawn {
		m.epoch++
	}
	if weighty || withdrawn {
		m.moved()
	}
	return weighty
}
