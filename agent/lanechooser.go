package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A laneChooser opens the data streams of exchanges over the kind of lane that suits the peer.
// Its methods may be called concurrently.
type laneChooser struct {
	mode string
	bbr  bool
	quic func(ctx context.Context, host string, n int) (exchange.Stream, error)
	tcp  func(ctx context.Context, host, congestion string) (exchange.Stream, error)
	rest func(host, congestion string) (s exchange.Stream, ok bool) // tcp on a connection that is there already; nil: none is
	way  func(host string) way
	site func(host string) string // what host shares its links with; nil: each stands alone
	log  *slog.Logger

	mu    sync.Mutex // guards the fields below
	peers map[string]*laneHistory
	links map[string]*linkHistory // by site
}

// maxHistories bounds what is remembered of hosts that may have left.
const maxHistories = 8192

// history returns that of host. It needs l.mu.
func (l *laneChooser) history(host string) *laneHistory {
	h := l.peers[host]
	if h == nil {
		if l.peers == nil || len(l.peers) >= maxHistories {
			l.peers = make(map[string]*laneHistory)
		}
		h = new(laneHistory)
		l.peers[host] = h
	}
	return h
}

// choice is what a lane to host would be now, and what is known of the way.
func (l *laneChooser) choice(host string) (laneChoice, way) {
	w, now := l.way(host), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decide(host, w, now), w
}

// use is choice for who acts on it.
func (l *laneChooser) use(host string) (laneChoice, way) {
	now := time.Now()
	l.mu.Lock()
	h := l.history(host)
	c, w, ok := h.held, h.way, h.holds(now)
	l.mu.Unlock()
	if ok {
		return c, w // each lane of an exchange asks
	}
	w = l.way(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	c, h = l.decide(host, w, now), l.history(host)
	if c != h.held || now.Sub(h.chosen) >= holds {
		h.held, h.way, h.chosen = c, w, now
	}
	return c, w
}

// decide needs l.mu.
func (l *laneChooser) decide(host string, w way, now time.Time) laneChoice {
	h := l.history(host)
	if h.holds(now) {
		return h.held
	}
	return chooseLane(l.mode, l.bbr, w, h, l.link(host), now)
}

// link returns what is remembered of the link to the site of host. It needs l.mu.
func (l *laneChooser) link(host string) *linkHistory {
	if l.site != nil {
		host = l.site(host)
	}
	r := l.links[host]
	if r == nil {
		if l.links == nil || len(l.links) >= maxHistories {
			l.links = make(map[string]*linkHistory)
		}
		r = new(linkHistory)
		l.links[host] = r
	}
	return r
}

// open is [exchange.Config.Open].
func (l *laneChooser) open(ctx context.Context, host string, n int) (exchange.Stream, error) {
	c, w := l.use(host)
	s, err := l.openOver(ctx, c, w, host, n)
	if err == nil || ctx.Err() != nil {
		return s, err
	}
	second, w := l.use(host)
	if second.kind == c.kind {
		return nil, err
	}
	return l.openOver(ctx, second, w, host, n)
}

func (l *laneChooser) openOver(ctx context.Context, c laneChoice, w way, host string, n int) (s exchange.Stream, err error) {
	if c.kind == LaneTCP {
		s, err = l.openTCP(ctx, host, c.congestion, w.patience())
	} else {
		s, err = l.quic(ctx, host, n)
	}
	if ctx.Err() != nil && err != nil {
		return nil, err // says nothing of the way
	}
	l.mu.Lock()
	h := l.history(host)
	r := h.of(c.kind)
	if err != nil {
		r.failed(err, time.Now())
	} else {
		r.worked()
		if c.kind == LaneTCP {
			l.link(host).through = true
		}
	}
	news := h.last != c.kind
	h.last = c.kind
	l.mu.Unlock()
	switch {
	case err != nil:
		l.log.Debug("no data lane", "peer", host, "kind", c.kind, "err", err)
		return nil, err
	case news:
		l.log.Info("data lanes", "peer", host, "kind", c.kind, "congestion", c.congestion, "why", c.why)
	}
	return s, nil
}

// openTCP gives up after limit.
func (l *laneChooser) openTCP(ctx context.Context, host, congestion string, limit time.Duration) (exchange.Stream, error) {
	if l.rest != nil {
		if s, ok := l.rest(host, congestion); ok {
			return s, nil
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no connection within %v", limit))
	defer cancel()
	return l.tcp(ctx, host, congestion)
}

// tried takes what came of a connection that was made to find out whether TCP gets through to host, and to its site.
func (l *laneChooser) tried(host string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, link, now := l.history(host), l.link(host), time.Now()
	if err == nil {
		h.tcp.worked()
		link.tries.worked()
		link.through = true
		return
	}
	if h.tcp.err != "" {
		h.tcp.failed(err, now)
	}
	if !link.through {
		link.tries.failed(err, now)
	}
}

// failed notes that something else than data could not be opened to host over TCP.
func (l *laneChooser) failed(host string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history(host).tcp.failed(err, time.Now())
}

// observe takes what a lane has carried. It returns false for one over TCP: the map tells what
// QUIC's flows get, by which probes are held to account.
func (l *laneChooser) observe(s exchange.Sample) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.history(s.Peer)
	if s.Limit == exchange.Network {
		link := l.link(s.Peer)
		rate := &link.quic
		if h.last == LaneTCP {
			rate = &link.tcp
		}
		rate.seen(s.Rate() * netmap.BytesPerSec(max(s.PeerLanes, 1)))
	}
	return h.last != LaneTCP
}

// openLanes makes the chooser. The endpoint and the members are there already. site is its site.
func (a *Agent) openLanes(site func(host string) string) {
	a.lanes = &laneChooser{
		mode: a.opts.Lane, bbr: lane.HasCongestionControl(lossless), log: a.log,
		quic: exchange.OpenOver(a.endpoint),
		tcp: func(ctx context.Context, host, congestion string) (exchange.Stream, error) {
			s, err := a.endpoint.OpenTCP(ctx, host, congestion, lane.StreamData)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		rest: func(host, congestion string) (exchange.Stream, bool) {
			s := a.endpoint.TakeTCP(host, congestion, lane.StreamData)
			return s, s != nil
		},
		site: site,
		way: func(host string) way {
			m, _ := a.members.Member(host)
			e, _ := a.knownEstimate(a.name, host)
			w := way{listens: m.TCP && a.dialsTCP, tunnel: a.endpoint.Tunnelled(host)}
			if e.Has(netmap.FieldLatency) {
				w.rtt = max(2*e.Latency, 1)
			}
			// Where pings were measured beside a load the connection knows better: no way is longer than its shortest round trip.
			if st, ok := a.endpoint.Stats(host); ok && st.MinRTT > 0 && w.rtt > 0 {
				w.rtt = min(w.rtt, st.MinRTT)
			}
			if e.TellsLoss() {
				w.loss = e.Loss
			}
			if e.Has(netmap.FieldBandwidth) {
				w.flow, w.read = e.Bandwidth, max(e.Bandwidth, e.Line, e.Capacity)
			}
			if !beside(e) {
				w = w.of(a.linkTo(host))
				if like, _ := a.believedEstimate(a.name, host); like.Has(netmap.FieldBandwidth | netmap.FieldCapacity) {
					w.one, w.pair = like.Bandwidth, like.Capacity
				}
			}
			return w
		},
	}
}

// laneStates tells of all live hosts, by name.
func (a *Agent) laneStates() []*apiv1.LaneStatus {
	hosts := a.others()
	out := make([]*apiv1.LaneStatus, len(hosts))
	for i, host := range hosts {
		c, _ := a.lanes.choice(host)
		t := a.endpoint.TCPTraffic(host)
		congestion := c.congestion
		if c.try {
			congestion = "" // it is not in use
		}
		out[i] = &apiv1.LaneStatus{
			Host: host, Kind: c.kind, Congestion: congestion, Why: c.why,
			TcpSentBytes: t.Sent, TcpReceivedBytes: t.Received, TcpConnections: uint32(t.Conns),
		}
	}
	return out
}
