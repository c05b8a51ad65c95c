package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
)

// run carries out this host's part: the engine's share of group.Config.
func (a *Agent) run(ctx context.Context, x group.Exchange) (group.Transferred, error) {
	part, err := exchange.ParsePart(x.Part)
	if err != nil {
		return group.Transferred{}, err
	}
	if len(part.Hosts) != len(x.Hosts) || part.Hosts[part.Self] != a.name {
		return group.Transferred{}, errors.New("the part is not for this host")
	}
	if a.crosses(part.Hosts) {
		defer a.crossing(x.Sure)()
	}
	var progress exchange.Progress
	x.Watch(func() (done, total int64) { return progress.Received.Load(), progress.Incoming.Load() })
	stats, err := a.engine.Run(ctx, part, exchange.Data{
		Send:     x.Send,
		Results:  x.Results,
		Progress: &progress,
		Sure:     x.Sure,
		Shown:    x.Shown,
		Landed:   func(stats exchange.Stats) { x.Landed(transferred(stats)) },
		Layout: func(b exchange.Block) []exchange.Segment {
			segs := x.Layout(b.Block)
			out := make([]exchange.Segment, len(segs))
			for i, s := range segs {
				out[i] = exchange.Segment(s)
			}
			return out
		},
	})
	if err != nil {
		return group.Transferred{}, err
	}
	return transferred(stats), nil
}

// stalled is after how long an exchange that waits for late hosts uses no links.
const stalled = 2 * time.Second

// crossing has the links of the site held for an exchange until over is called, but for the time in which it waits until it is sure that
// others have begun; nil: it is.
func (a *Agent) crossing(sure <-chan struct{}) (over func()) {
	free := a.prober.Crosses()
	if sure == nil {
		return free
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with over
		defer close(done)
		timer := time.NewTimer(stalled)
		defer timer.Stop()
		select {
		case <-sure:
		case <-ended:
		case <-timer.C:
			free()
			select {
			case <-sure:
				free = a.prober.Crosses()
			case <-ended:
				return
			}
		}
		<-ended
		free()
	}()
	return func() { close(ended); <-done }
}

// crosses reports whether any of hosts is of another site than this one, as far as labels tell.
func (a *Agent) crosses(hosts []string) bool {
	sites := a.sites()
	own := sites[a.name]
	return slices.ContainsFunc(hosts, func(h string) bool { return h != a.name && (own == "" || sites[h] != own) })
}

// transferred sums up what the engine counted by peer.
func transferred(stats exchange.Stats) (t group.Transferred) {
	t.Replanned, t.TakenOver, t.Helped = stats.Replanned, stats.Given, stats.Helping
	for _, host := range slices.Sorted(maps.Keys(stats.Peers)) {
		p := stats.Peers[host]
		t.Duplicates += p.Duplicates
		if p.Sent+p.Received+p.Resent == 0 {
			continue // only news went to and fro
		}
		t.Sent += p.Sent
		t.Received += p.Received
		t.Peers = append(t.Peers, group.PeerTraffic{Host: host, Sent: p.Sent, Received: p.Received, Resent: p.Resent})
	}
	return t
}
