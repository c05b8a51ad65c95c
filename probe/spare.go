package probe

import (
	"context"
	"time"
)

const (
	// spareEvery is how often the connections are looked through that this host has no use for.
	spareEvery = time.Minute
	// spareQuiet is for how long such a connection must have had no streams: longer than between
	// two rounds of anything that goes on regularly between two hosts.
	spareQuiet = 2 * time.Minute
)

// spares says, until ctx ends, which connections the measuring has no use for: those to peers that
// are not partners of this host now. In large sites partners change, and each connection that stayed
// would cost keep-alives for as long as both hosts live. Who else uses one keeps it by its streams. Links to sites that are gone are
// forgotten at the same time.
func (p *Prober) spares(ctx context.Context) error {
	for {
		if err := sleep(ctx, p.jitter(spareEvery)); err != nil {
			return err
		}
		partners := make(map[string]bool)
		for _, q := range p.look() {
			partners[q.Name] = true
		}
		sites := make(map[string]bool)
		for _, q := range p.cfg.Peers() {
			sites[q.site()] = true
			if q.Name != p.cfg.Self.Name && !partners[q.Name] {
				p.cfg.Endpoint.CloseIdle(q.Name, spareQuiet)
			}
		}
		p.keeper.forget(sites, time.Now())
	}
}
