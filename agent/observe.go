package agent

import (
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// labelAge is how long the labels of the members are taken as they were: a host that
	// changes its label in an exchange changes what is thought of one sample or two.
	labelAge = 10 * time.Second
	// maxCrowds bounds the exchanges that are remembered. Few run at a time.
	maxCrowds = 16
	// maxPools bounds the sites whose lanes are added up.
	maxPools = 1024
)

// An observer hands what the lanes of exchanges carry to the prober, with what only the
// agent knows: where the hosts stand, and so who may have shared the way. Its methods may
// be called concurrently, and do not block.
type observer struct {
	self   string
	labels func() map[string]string // site labels of all members
	take   func(probe.Observation)

	mu     sync.Mutex // guards the fields below
	sites  map[string]string
	read   time.Time           // when sites was
	crowds map[exchange.ID]int // hosts of an exchange that are of this site
	pools  map[string]pool     // by site
}

// site names what host shares the way with: its site, or itself where it has no label.
func (o *observer) site(host string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.locked(host)
}

// locked is site for callers that hold the lock.
func (o *observer) locked(host string) string {
	if now := time.Now(); o.sites == nil || now.Sub(o.read) > labelAge {
		o.sites, o.read = o.labels(), now
	}
	if label := o.sites[host]; label != "" {
		return label
	}
	return "@" + host // as for the prober: nothing is known of whom it shares a link with
}

// crowd returns how many hosts of the sample's exchange are of this host's site, and whether
// the peer is one of them.
func (o *observer) crowd(s exchange.Sample) (here int, same bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	site := o.locked(o.self)
	here, ok := o.crowds[s.Exchange]
	if !ok {
		if o.crowds == nil || len(o.crowds) >= maxCrowds {
			o.crowds = make(map[exchange.ID]int)
		}
		for _, h := range s.Hosts {
			if o.locked(h) == site {
				here++
			}
		}
		o.crowds[s.Exchange] = here
	}
	return here, o.locked(s.Peer) == site
}

// observe is [exchange.Config.Observe].
func (o *observer) observe(s exchange.Sample) {
	here, same := o.crowd(s)
	x := observation(s, here, same)
	if s.SiteLanes > 1 {
		if all, ok := o.together(s); ok {
			o.take(all)
		}
		x.Mean = 0
	}
	o.take(x)
}

// A pool adds up the samples of the lanes to one site, which share a link: of many flows one
// gets nothing for a second and another twice its part, and only their sum tells of the link.
type pool struct {
	since    time.Time
	samples  int
	bytes    int64
	expected float64 // bytes, at the means of the lanes
	longest  time.Duration
}

const (
	// poolBytes is what a pool is expected to hold before it is judged, and poolTime how
	// long it may take to.
	poolBytes = 64 << 10
	poolTime  = 4 * time.Second
)

// together puts s in its site's pool, and returns the pool's observation when it is complete:
// when each lane, on average, has brought a sample.
func (o *observer) together(s exchange.Sample) (probe.Observation, bool) {
	if s.Limit != exchange.Network || s.Mean <= 0 {
		return probe.Observation{}, false
	}
	now := s.Begin.Add(s.Duration)
	o.mu.Lock()
	defer o.mu.Unlock()
	site := o.locked(s.Peer)
	p := o.pools[site]
	if now.Sub(p.since) > poolTime || now.Before(p.since) {
		p = pool{since: now}
	}
	p.samples++
	p.bytes += s.Bytes
	p.expected += float64(s.Mean) * s.Duration.Seconds()
	p.longest = max(p.longest, s.Duration)
	if o.pools == nil || len(o.pools) >= maxPools {
		o.pools = make(map[string]pool)
	}
	if p.expected < poolBytes || p.samples < s.SiteLanes {
		o.pools[site] = p
		return probe.Observation{}, false
	}
	delete(o.pools, site)
	return probe.Observation{
		Peer: s.Peer, Network: true, End: now,
		Bytes: p.bytes, Duration: p.longest, Mean: netmap.BytesPerSec(p.expected / p.longest.Seconds()),
	}, true
}

// observation says who may have shared the way of s. here is how many hosts of the exchange
// are of this host's site, and same says that the peer is one of them.
//
// Between two sites the way is the link between them: all hosts of this site may send
// over it, as many lanes each as this one. Within a site it is a port of the sender and one
// of the receiver, to which the others may send. Exchanges of other hosts are not known
// here, which the estimate has to bear: probes see them neither.
func observation(s exchange.Sample, here int, same bool) probe.Observation {
	sharers := s.SiteLanes * max(here, 1)
	if same {
		sharers = max(s.SiteLanes, here-1)
	}
	return probe.Observation{
		Peer:     s.Peer,
		Bytes:    s.Bytes,
		Duration: s.Duration,
		RTT:      s.RTT,
		End:      s.Begin.Add(s.Duration),
		Network:  s.Limit == exchange.Network,
		Alone:    sharers == 1,
		Sharers:  sharers,
		Before:   s.Before,
		Mean:     s.Mean,
	}
}
