package membership

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxSeeds     = 64
	rejoinFanout = 3 // members tried a round, and at once
	joinEnough   = 3 // members that must answer a join
	// settle is the pause after a round in which somebody answered. The first state
	// exchange after a split makes both sides object to their own death; only the
	// next one carries the objections across.
	settle = 3 * time.Second
	// saveDelay gathers the changes of a moment into one write.
	saveDelay = time.Second
)

func (m *Membership) addSeeds(addrs []netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range addrs {
		if !slices.Contains(m.seeds, a) && a != m.cfg.Advertise && len(m.seeds) < maxSeeds {
			m.seeds = append(m.seeds, a)
		}
	}
}

// rejoin tries lost members again, for as long as the agent lives: memberlist
// forgets the dead, and the sides of a long split would never meet (memberlist#222).
//
// It also tries those who have left, each once after the start, and while this host is
// alone. Nobody should be there. But who is, is a member, and a wrong memory of who has left
// (an old file, a farewell that was forged) would else split a cluster for ever.
func (m *Membership) rejoin(ctx context.Context) {
	gone := m.table.in(m.cfg.Rand, Left)
	pause := settle / 3 // at start the remembered members are all lost
	for sleep(ctx, m.jitter(pause)) {
		if m.delegate.leaving.Load() != 0 {
			return
		}
		pause = m.cfg.Rejoin
		n := m.try(ctx, "lost", m.targets())
		if len(gone) == 0 && !m.table.company() {
			gone = m.table.in(m.cfg.Rand, Left)
		}
		some := min(len(gone), rejoinFanout)
		n += m.try(ctx, "left", m.reachable(gone[:some]))
		gone = gone[some:]
		if n > 0 {
			pause = settle
		}
	}
}

// try contacts targets, who are lost or have left, and returns how many answered.
func (m *Membership) try(ctx context.Context, who string, targets []string) int {
	if len(targets) == 0 {
		return 0
	}
	n, err := m.contact(ctx, targets)
	m.log.Debug("tried members again that are not alive", "who", who, "targets", targets, "answered", n, "err", err)
	return n
}

// reachable returns the members as memberlist wants them: NAME/IP:PORT. It leaves out
// those that are no longer what they were, and those whom this host could give no address of
// its own.
func (m *Membership) reachable(members []Member) []string {
	var out []string
	for _, e := range members {
		if now, ok := m.table.get(e.Name); ok && now.State == e.State && m.checkReach(now.Addr) == nil {
			out = append(out, now.Name+"/"+now.Addr.String())
		}
	}
	return out
}

// targets returns whom to try this round of those that should be alive.
func (m *Membership) targets() []string {
	lost := m.table.in(m.cfg.Rand, Unseen, Failed, Stopped)
	out := m.reachable(lost[:min(len(lost), rejoinFanout)])
	if m.table.company() {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.seeds {
		out = append(out, a.String())
	}
	return out
}

// contact exchanges states with targets, rejoinFanout at once in their order, until enough have answered: one that is dead
// keeps silent for 10 s, which the others are not to wait for. It returns how many did, and nil if any.
func (m *Membership) contact(ctx context.Context, targets []string) (int, error) {
	select {
	case m.joining <- struct{}{}:
		defer func() { <-m.joining }()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	var failed []error
	answered := 0
	for some := range slices.Chunk(targets, rejoinFanout) {
		if ctx.Err() != nil {
			failed = append(failed, context.Cause(ctx))
			break
		}
		n, self, errs := m.contactAtOnce(some)
		answered += n
		if answered >= joinEnough {
			break
		}
		if len(errs) > 0 && self.IsValid() && self != m.cfg.Advertise {
			if taken := m.twin(ctx, self); taken != nil {
				m.giveUp(taken)
				return 0, taken
			}
		}
		failed = append(failed, errs...)
	}
	if answered > 0 {
		return answered, nil
	}
	return 0, errors.Join(failed...)
}

// contactAtOnce exchanges states with all targets at the same time, and returns when the last has answered or failed: how many answered,
// where another host has this one's name, if that came out, and why the others did not answer. Whoever calls it holds m.joining.
func (m *Membership) contactAtOnce(targets []string) (answered int, self netip.AddrPort, failed []error) {
	m.delegate.takeMergeErr()
	m.delegate.takeSelf()
	results := make([]joinResult, len(targets))
	var calls sync.WaitGroup
	for i, target := range targets {
		calls.Go(func() { results[i].answered, results[i].err = m.list.Join([]string{target}) })
	}
	calls.Wait()
	self = m.delegate.takeSelf()
	refused := m.delegate.takeMergeErr()
	var claimed *NameTakenError
	if errors.As(refused, &claimed) {
		self = claimed.By
	}
	for i, r := range results {
		answered += r.answered
		if r.err == nil {
			continue
		}
		if refused != nil && strings.Contains(r.err.Error(), refused.Error()) {
			r.err = refused // of which memberlist tells the text only
		}
		failed = append(failed, fmt.Errorf("join %s: %w", targets[i], r.err))
	}
	return answered, self, failed
}

// jitter spreads d over [d/2, 3d/2), so that hosts that were cut off together do not
// all come back together. Only the rejoin goroutine draws.
func (m *Membership) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.cfg.Rand.Int64N(int64(d)))
}

// sleep waits for d; it reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// remember saves the peers after they have changed, and once more at the end.
func (m *Membership) remember(ctx context.Context) {
	changes, stop := m.table.subscribe()
	defer stop()
	var saved uint64
	save := func() {
		peers, version := m.table.peers(time.Now())
		if version == saved {
			return
		}
		if err := m.cfg.Save(peers); err != nil {
			m.log.Error("peers not remembered", "err", err)
			return // tried again with the next change
		}
		saved = version
	}
	for {
		select {
		case <-changes:
			if !sleep(ctx, saveDelay) {
				save()
				return
			}
			save()
		case <-ctx.Done():
			save()
			return
		}
	}
}
