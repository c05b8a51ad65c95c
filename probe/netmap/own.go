package netmap

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// How often Self may speak. With n reporters the whole map hears n/refreshEvery(n)
// confirmations a second: half a one at most, however many there are.
const (
	refreshLeast = time.Minute
	refreshEach  = 2 * time.Second // for each reporter that the map holds

	// News of weight go at once, but a link that swings without end must not flood the
	// others: after urgentBurst batches there is one in urgentLeast, or in urgentEach for
	// each reporter.
	urgentBurst = 32
	urgentLeast = time.Second
	urgentEach  = 50 * time.Millisecond

	// firstEach, for each reporter, is how long what was learned of links for the first time waits for more
	// of its kind. Every batch is verified by every host (0.07 ms): hosts that start together and tell of each
	// link alone would be busy with nothing else. What has changed, or is gone, does not wait.
	firstEach = 10 * time.Millisecond

	// KeepOwn is how long what was not measured again goes on being published.
	KeepOwn = 6 * time.Hour
)

// own is what Self measured in this life, and when it told the others.
type own struct {
	entries   map[peer]*entry // at most maxRow
	floor     Version         // the next batch must be newer
	said      Version         // the last batch of this life; 0 before it
	refreshed time.Time       // when all was last published; zero before the first Publish
	urgent    float64         // batches of urgent news that may go, at spentAt
	spentAt   time.Time
	spoke     time.Time // when the last of them went
	held      time.Time // when first news that wait for more may go; zero if there are none
}

// setOwn stores what Self found, and counts the epoch if it is new.
func (m *Map) setOwn(in *entry) {
	before := m.find(m.cfg.Self, in.peer)
	in.turn = before.turning(in.est)
	if before == nil || !before.same(in) {
		m.epoch++
		if before == nil || in.kind != overhead && material(before.est, in.est) {
			m.moved()
		}
	}
	if m.own.entries[in.peer] == nil && len(m.own.entries) >= maxRow {
		delete(m.own.entries, oldest(m.own.entries))
	}
	m.own.entries[in.peer] = in
}

// oldest returns the key of the pair that was measured longest ago.
func oldest(entries map[peer]*entry) (key peer) {
	var first *entry
	for _, e := range entries {
		if e.kind == overhead {
			continue
		}
		if first == nil || cmp.Or(e.est.Measured.Compare(first.est.Measured), e.peer.compare(first.peer)) < 0 {
			first = e
		}
	}
	if first != nil {
		return first.peer
	}
	for p := range entries { // 256 sites: any
		key = p
		break
	}
	return key
}

// Publish makes a batch of what Self measured and the others do not know yet, if it is
// time: news of weight ([material]) at once, the rest together every minute, or every
// two seconds times the number of reporters where that is longer; with quiet not at all. It
// reports whether there were news of weight: these want to travel now, see [Map.Hot].
// What is known for the first time waits a little for more of its kind, see [Map.Held].
// An error is that of signing, and nothing is published.
func (m *Map) Publish(now time.Time, quiet bool) (urgent bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rewind(now)
	if m.own.refreshed.IsZero() {
		m.own.refreshed, m.own.urgent, m.own.spentAt = now, urgentBurst, now
	}
	weighty, rest, first := m.unsaid()
	n := len(m.reports)
	m.own.held = time.Time{}
	if next := m.own.spoke.Add(time.Duration(n) * firstEach); first && now.Before(next) {
		m.own.held = next
	} else if len(weighty) > 0 && m.mayHurry(now, n) {
		if err := m.publish(weighty, now); err != nil {
			return false, err
		}
		m.own.urgent--
		m.own.spoke = now
		m.addHot(m.reports[m.cfg.Self].tip(), farPartners, now) // who are told beside the others, see [Partners.Far]
		return true, nil
	}
	if quiet || len(weighty)+len(rest) == 0 || now.Sub(m.own.refreshed) < refreshEvery(n) {
		return false, nil
	}
	if err := m.publish(append(weighty, rest...), now); err != nil {
		return false, err
	}
	m.own.refreshed, m.own.held = now, time.Time{}
	return false, nil
}

// rewind begins anew what Self says if its clock was ahead by more than others accept, and has been set right: they refuse all that would follow.
func (m *Map) rewind(now time.Time) {
	latest := now.Add(m.cfg.MaxSkew)
	ceiling := versionAt(latest)
	r := m.reports[m.cfg.Self]
	if m.own.floor <= ceiling && (r == nil || r.tip().version <= ceiling) {
		return
	}
	if r != nil {
		m.root -= r.hash()
		delete(m.reports, m.cfg.Self)
	}
	m.hot = slices.DeleteFunc(m.hot, func(h rumour) bool { return h.b.reporter == m.cfg.Self })
	for name, v := range m.gone {
		m.gone[name] = min(v, versionAt(now))
	}
	for _, e := range m.own.entries {
		if e.est.Measured.After(latest) {
			e.est.Measured = time.UnixMicro(now.UnixMicro()).UTC()
		}
		if e.turn.at.After(latest) {
			e.turn.at = e.est.Measured
		}
	}
	m.own = own{entries: m.own.entries}
	m.epoch++
	m.moved()
}

// Held returns when [Map.Publish] may be called with effect for news that it has held back, the zero time if there are none.
func (m *Map) Held() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.own.held
}

// refreshEvery returns the time between two confirmations with n reporters.
func refreshEvery(n int) time.Duration {
	return max(refreshLeast, time.Duration(n)*refreshEach)
}

// mayHurry refills what urgent news may spend and reports whether there is any left.
func (m *Map) mayHurry(now time.Time, n int) bool {
	every := max(urgentLeast, time.Duration(n)*urgentEach)
	if passed := now.Sub(m.own.spentAt); passed > 0 {
		m.own.urgent = min(urgentBurst, m.own.urgent+passed.Seconds()/every.Seconds())
		m.own.spentAt = now
	}
	return m.own.urgent >= 1
}

// unsaid returns what the others do not know, by key, that of weight apart, and whether all of that is
// known for the first time.
func (m *Map) unsaid() (weighty, rest []entry, first bool) {
	moved := false
	said := m.reports[m.cfg.Self]
	for _, e := range m.own.entries {
		var before *entry
		if said != nil {
			before = said.find(e.peer)
		}
		switch {
		case m.outweighs(e, before):
			weighty = append(weighty, *e)
			moved = moved || before != nil && !more(before.est, e.est)
		case !before.same(e) || !before.est.Measured.Equal(e.est.Measured):
			rest = append(rest, *e)
		}
	}
	for _, s := range [][]entry{weighty, rest} {
		slices.SortFunc(s, func(a, b entry) int { return a.peer.compare(b.peer) })
	}
	return weighty, rest, len(weighty) > 0 && !moved
}

// outweighs reports whether e is news of weight to who knows before, which may be nil.
func (m *Map) outweighs(e, before *entry) bool {
	return before == nil || e.kind != overhead && (before.version <= m.gone[e.name] || material(before.est, e.est))
}

// Weighty reports whether what Self has measured of from→to is news of weight that [Map.Publish] is to tell the others. What only
// confirms is told in its time, and nobody need be woken for it.
func (m *Map) Weighty(from, to string) bool {
	key, err := keyOf(m.cfg.Self, from, to)
	if err != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, said := m.own.entries[key], m.reports[m.cfg.Self]
	if e == nil || said == nil {
		return e != nil
	}
	return m.outweighs(e, said.find(key))
}

// more reports whether b knows something that a does not, and lacks nothing that a knows.
func more(a, b Estimate) bool {
	return b.Known&^a.Known&^(FieldVariation|FieldLine) != 0 && a.Known&^b.Known&^(FieldVariation|FieldLine) == 0
}

// material reports whether b is news of weight to who knows a: something is known for the
// first time or no more (but for a loss of nothing), a rate or a delay has moved by more than a tenth (a rate that
// spreads wider: by more than its spread, up to 30 %), loss by half, or from none to some: of a few packets each more moves it.
func material(a, b Estimate) bool {
	moved := func(x, y, share, least float64) bool {
		return math.Abs(x-y) > max(share*x, least)
	}
	share := min(max(0.1, a.Spread, b.Spread), 0.3)
	known := (a.Known ^ b.Known) &^ (FieldVariation | FieldLine)
	if a.Loss == b.Loss {
		known &^= FieldLoss // of 400 packets none was lost, as was thought
	}
	lossMoved := moved(a.Loss, b.Loss, 0.5, 0.005) && (a.Loss == 0 || b.Loss == 0 || b.TellsLoss())
	return known != 0 || lossMoved ||
		moved(float64(a.Bandwidth), float64(b.Bandwidth), share, 0) ||
		moved(float64(a.Capacity), float64(b.Capacity), share, 0) ||
		moved(float64(a.Carried), float64(b.Carried), 0.1, 0) ||
		moved(a.Latency.Seconds(), b.Latency.Seconds(), 0.1, 500e-6) ||
		b.Lanes > 2*a.Lanes || a.Lanes > 2*b.Lanes
}

// publish signs entries as the next batch of Self, or all there is if the chain has grown
// long: a full batch ends what it cost to keep and to relay the superseded ones. It is full also
// where the last batch is of an earlier life: others may know of a later one, and could not take what does not follow that.
func (m *Map) publish(entries []entry, now time.Time) error {
	b := &batch{reporter: m.cfg.Self, entries: entries}
	b.version = max(versionAt(now), m.own.floor+1)
	r := m.reports[m.cfg.Self]
	if r != nil {
		b.prev = r.tip().version
		b.version = max(b.version, b.prev+1)
	}
	if r == nil || b.prev != m.own.said || len(r.chain) >= maxChain/2 || r.rows+len(entries) > maxChainRows || r.bytes > 3*len(r.chain[0].raw) {
		b.prev, b.credential, b.entries = 0, m.cfg.Credential, m.everything(now)
	}
	if err := b.encode(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	if m.cfg.Sign != nil {
		sig, err := m.cfg.Sign(b.raw)
		if err != nil {
			return fmt.Errorf("publish: sign: %w", err)
		}
		b.sig = sig
	}
	for i := range b.entries {
		b.entries[i].version = b.version
	}
	m.link(b)
	m.own.said = b.version
	if b.full() { // what it leaves out would be news, and told again at once
		maps.DeleteFunc(m.own.entries, func(p peer, _ *entry) bool { return b.find(p) == nil })
	}
	return nil
}

// everything returns what a full batch of Self says: what this life measured and what is
// left of the earlier ones, but for what is too old to be worth its bytes.
func (m *Map) everything(now time.Time) []entry {
	var out []entry
	for _, e := range m.row(m.cfg.Self) {
		if e.kind == overhead || now.Sub(e.est.Measured) <= KeepOwn {
			out = append(out, *e)
		}
	}
	if len(out) > maxRow {
		slices.SortStableFunc(out, func(a, b entry) int { // models have no time: they go last, and stay
			if a.kind == overhead || b.kind == overhead {
				return cmp.Compare(b.kind, a.kind)
			}
			return b.est.Measured.Compare(a.est.Measured)
		})
		out = out[:maxRow]
	}
	return out
}
