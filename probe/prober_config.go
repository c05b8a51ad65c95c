package probe

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Config is what a [Prober] needs. The functions may be called concurrently and must not block.
type Config struct {
	// Self is this host. Required.
	Self Peer
	// Peers returns the other live members, in any order. Required.
	Peers func() []Peer
	// Endpoint is the network. Required; handlers are registered on it by [New].
	Endpoint Endpoint
	// Record takes what was measured of from→to, where from is always this host: the
	// initiator writes, so each entry of the map has one writer. Required. The
	// estimate holds all that Known knew, with the measured part replaced.
	Record func(from, to string, e netmap.Estimate)
	// Known returns what the map holds of any pair. Nil knows only what was recorded here.
	Known func(from, to string) (netmap.Estimate, bool)
	// Claimed returns what a host itself reports of a pair, whatever others say of it. Nil: what
	// arrives here is not compared with what its sender claims.
	Claimed func(from, to string) (netmap.Estimate, bool)
	// Busy reports whether an exchange runs on this host: no train starts, no peer's
	// is granted. Nil means never.
	Busy func() bool
	// Hurried reports whether somebody here has just begun or ended an operation of a few bytes, which waits
	// behind what a long probe has put into queues, and for what any other takes of the processor: no probe begins that can wait,
	// and a long one that runs ends. Whoever answers sees to it that it is false often enough. Nil means never.
	Hurried func() bool
	// Pressed returns how many bytes of exchanges a peer has read, from any time on, over lanes that the network
	// held back then: they always had something to send, and it stood in a queue on the way. Nil: falls
	// during exchanges are left to trains.
	Pressed func(peer string) uint64
	// Important says how much the estimate of a pair matters: 1 is ordinary, the pairs of
	// current plans more. From 0.1 to 10 it counts. Nil means that all matter alike.
	Important func(from, to string) float64
	// RecordLogP takes the model of the pairs from this host to those of a site, which
	// may be its own. Nil drops it.
	RecordLogP func(site string, m logp.Model)
	// Rand orders probes and spreads them in time; the prober guards it. Nil means a
	// fresh, unpredictable source.
	Rand *rand.Rand
	// Log receives state changes, never per-packet events. Nil discards.
	Log *slog.Logger

	// RTTInterval is the pause between two rounds of pings of one peer. Zero means
	// 10 s, or 0.1 s a peer where that is more. Under 1 s is an error.
	RTTInterval time.Duration
	// Interval is the age at which the bandwidth of an ordinary pair inside a site is measured
	// again; uncertain and important pairs come sooner. Links between sites are watched as
	// often as Share allows. Zero means 60 s. Under 5 s is an error.
	Interval time.Duration
	// Share is how much of a link's rate, and of this host's fastest, probes may take
	// in the long run, 0 < Share ≤ 0.1. Zero means 0.01.
	Share float64
	// LinkBurst is how many bytes of probes a link between sites may carry before
	// Share holds; no more than it carries in 12 s. Zero means 64 MiB.
	LinkBurst int64
	// HostBurst is the same for what this host initiates inside its site. Zero means 16 MiB.
	HostBurst int64
	// HourlyCap is how many bytes of probes this host may send in an hour, whatever its
	// links carry. Zero means 256 MiB, less than zero none. Under 1 MiB, the map of a fast site is
	// not known for hours, is an error.
	HourlyCap int64
}

func (c *Config) complete() error {
	if c.Self.Name == "" || c.Peers == nil || c.Endpoint == nil || c.Record == nil {
		return errors.New("probe: own name, peers, endpoint and record are required")
	}
	if c.Busy == nil {
		c.Busy = func() bool { return false }
	}
	if c.Hurried == nil {
		c.Hurried = func() bool { return false }
	}
	if c.Pressed == nil {
		c.Pressed = func(string) uint64 { return 0 }
	}
	if c.Important == nil {
		c.Important = func(_, _ string) float64 { return 1 }
	}
	if c.RecordLogP == nil {
		c.RecordLogP = func(string, logp.Model) {}
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.defaults()
	return c.Check()
}

// defaults fills in the numbers that are 0.
func (c *Config) defaults() {
	if c.Interval == 0 {
		c.Interval = time.Minute
	}
	if c.Share == 0 {
		c.Share = 0.01
	}
	if c.LinkBurst == 0 {
		c.LinkBurst = 64 << 20
	}
	if c.HostBurst == 0 {
		c.HostBurst = 16 << 20
	}
	switch {
	case c.HourlyCap == 0:
		c.HourlyCap = 256 << 20
	case c.HourlyCap < 0:
		c.HourlyCap = -1
	}
}

// Of Share, which all that measuring sends over a link must keep to in any hour once the link is no longer young:
const (
	// accounted is what may go back in the long run of what the keeper accounts for: trains, long probes and their
	// messages, as the link carries them.
	accounted = 0.60
	// answering and answeringLong are for the answers to trains and to long probes that come the other way, see
	// [leased.watchGap] and [leased.longCost].
	answering     = 0.10
	answeringLong = 0.05
	// pingShare, twice, is for pings and the answers to those of the other way.
	// What is left, a seventh, is what an hour may have above the long run: one long probe ([longTime]) is 0.28 % of an
	// hour, and while its debt lasts its use gets nothing.
)

// linkTerms are the terms of a link between sites, for all hosts of this one. What this host takes of its own cap for it is spread
// over the hour by [pace].
func (c *Config) linkTerms() terms { return terms{share: accounted * c.Share, burst: c.LinkBurst} }

// hostTerms are those of this host inside its site. What is spent there keeps below the hourly cap at any time, so that the host
// neither goes blind when the cap is reached nor has nothing left for the links between sites.
func (c *Config) hostTerms() terms {
	t := terms{share: c.Share, burst: c.HostBurst}
	if c.HourlyCap > 0 {
		t.burst = min(t.burst, c.HourlyCap/4)
		t.ceiling = 0.6 * float64(c.HourlyCap) / time.Hour.Seconds()
	}
	return t
}

// Check returns what [New] would refuse of the numbers in c; the other fields need not be
// set. Who reads them from a user knows of a slip before anything else is done.
func (c Config) Check() error {
	c.defaults()
	const firstBytes = firstTrain * trainPayload
	switch {
	case c.RTTInterval < 0 || c.RTTInterval > 0 && c.RTTInterval < time.Second:
		return fmt.Errorf("probe: rtt interval %v, want at least 1s", c.RTTInterval)
	case c.Interval < 5*time.Second:
		return fmt.Errorf("probe: interval %v, want at least 5s", c.Interval)
	case !(c.Share > 0 && c.Share <= 0.1):
		return fmt.Errorf("probe: share %g, want more than 0 and at most 0.1", c.Share)
	case c.LinkBurst < firstBytes || c.HostBurst < firstBytes:
		return fmt.Errorf("probe: bursts of %d and %d bytes, want at least %d, the shortest train", c.LinkBurst, c.HostBurst, firstBytes)
	case c.HourlyCap > 0 && c.HourlyCap < 1<<20:
		return fmt.Errorf("probe: cap of %d bytes an hour, want at least %d, or less than 0 for none", c.HourlyCap, 1<<20)
	}
	return nil
}
