package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// waitForMap returns a snapshot of the hosts in order, with gaps predicted. The error
// says what is still missing after Options.MapWait.
func (a *Agent) waitForMap(ctx context.Context, hosts []string) (*netmap.Snapshot, error) {
	deadline := time.Now().Add(a.opts.MapWait)
	for {
		snap := a.plansMap(hosts)
		err := complete(snap)
		if err == nil || time.Now().After(deadline) {
			return snap, err
		}
		select {
		case <-ctx.Done():
			return snap, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// company is how many hosts at most, beside those of a group, help to predict its pairs.
const company = 64

// snapshotOf returns the map of the hosts in order, with gaps predicted, and with pairs that were
// measured before their link changed corrected by those that were measured since. Other
// hosts' pairs count in both: of two hosts of each of two sites it may be that none has
// measured another, and while an exchange runs nobody will.
func (a *Agent) snapshotOf(names []string) *netmap.Snapshot {
	sites := a.sites()
	in := make(map[string]bool, len(names))
	for _, n := range names {
		in[n] = true
	}
	others := slices.DeleteFunc(a.alive(), func(n string) bool { return in[n] })
	hosts := make([]netmap.Host, 0, len(names)+min(len(others), company))
	group := make([]int, len(names))
	for i, n := range names {
		hosts, group[i] = append(hosts, netmap.Host{Name: n, Site: sites[n]}), i
	}
	for i := range min(len(others), company) {
		n := others[i*len(others)/min(len(others), company)] // of each site its part
		hosts = append(hosts, netmap.Host{Name: n, Site: sites[n]})
	}
	return netmap.Predict(netmap.Freshen(a.netmap.Snapshot(hosts, time.Now()))).Subset(group)
}

// plansMap is snapshotOf as plans are made over it: with what the losses of all pairs of two sites leave of one flow between them. Which pairs
// of hosts carry a link, and how many, goes by that.
func (a *Agent) plansMap(names []string) *netmap.Snapshot { return lossesIn(a.snapshotOf(names)) }

// complete reports the first pair that is neither measured nor predicted.
func complete(s *netmap.Snapshot) error {
	missing, first := 0, ""
	for i := range s.N() {
		for j := range s.N() {
			if i != j && !s.Estimate(i, j).Has(netmap.FieldLatency|netmap.FieldBandwidth) {
				if missing++; missing == 1 {
					first = s.Host(i).Name + "→" + s.Host(j).Name
				}
			}
		}
	}
	if missing > 0 {
		return fmt.Errorf("the map lacks %d of %d host pairs (%s first): %w", missing, s.N()*(s.N()-1), first, netmap.ErrNotMeasured)
	}
	return nil
}
