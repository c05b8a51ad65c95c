package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gridagent/gridagent/internal/beat"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	// readyEvery is how often the lanes are looked through that are to be there before an exchange wants them: more often than a connection
	// without streams is closed.
	readyEvery = time.Minute
	// readyFirst is the same in an agent's first readyEvery, in which it learns which ways lose packets: the first exchange may come at any time.
	readyFirst = 10 * time.Second
	// readyBytes is about what the two ends of a connection send for its handshake in all, and readyShare the part of a link that handshakes may take.
	readyBytes = 8 << 10
	readyShare = 0.05
	// pingBytes is what a connection without streams costs each pingEvery, in one direction, headers counted, and pingShare the part of a link that these may take.
	pingBytes = 130
	pingEvery = 25 * time.Second
	pingShare = 0.005
	// mostReady is how many lanes of a pair of hosts are made ready at most where it takes several to fill its part of the link.
	mostReady = 4
	// mostReadyAll is how many lanes of all pairs of hosts of two sites are made ready at most for plans in which few of these pairs carry everything.
	mostReadyAll = 32
	// readyNear is how many hosts of a site at most have lanes ready to each other, as each keeps two connections to each, and nearPause the time after a handshake among them: a host
	// that is one of many on few processors, as in a lab, is not to take those from the others.
	readyNear = 64
	nearPause = 250 * time.Millisecond
	// readyTime bounds a dial.
	readyTime = 10 * time.Second
	// tryEvery is how often it is looked whether there is a site to which TCP is to be tried: an agent that starts meets its first exchange soon.
	tryEvery = 10 * time.Second
)

// readyLanes has lanes dialed before an exchange wants them, until ctx ends. To hosts of other sites: each one's lane 0, over a way that loses packets the spare one beside it, or
// a TCP lane, and up to four where a pair of hosts needs several. These are what an allgather of all hosts uses, in which each pair of hosts of two sites carries its part. Over a way with losses a hundred handshakes at once, beside the data, cost a first operation as much as the data do.
// Links that are too slow for the pings of all pairs have fewer lanes made ready, or none. To hosts of its own site, unless there are many: the lane that data go over. An alltoall wants all of them at once, and
// a handshake takes more processor time than a small block does.
func (a *Agent) readyLanes(ctx context.Context) {
	b, begun := beat.Of(a.name), time.Now()
	for {
		every := readyEvery
		if time.Since(begun) < readyEvery {
			every = readyFirst
		}
		select {
		case <-time.After(b.Next(time.Now(), every)):
		case <-ctx.Done():
			return
		}
		a.makeReady(ctx)
	}
}

// makeReady looks through the lanes once, and dials those that are missing, unless exchanges need the links.
func (a *Agent) makeReady(ctx context.Context) {
	sites, live := a.sites(), a.alive()
	at := make(map[string]int) // how many hosts
	for _, h := range live {
		at[sites[h]]++
	}
	own := slices.Index(live, a.name)
	var near, far []string
	for _, host := range slices.Concat(live[own+1:], live[:own]) { // not all hosts of a site dial the same one
		if sites[host] == sites[a.name] {
			near = append(near, host)
		} else {
			far = append(far, host)
		}
	}
	if len(near) < readyNear {
		for _, host := range near {
			c, way := a.lanes.choice(host)
			if way.rtt > 0 && !a.makeLane(ctx, host, 0, c, c.kind == LaneTCP, nearPause) {
				return
			}
		}
	}
	for _, host := range far {
		c, _ := a.lanes.choice(host)
		e, _ := a.believedEstimate(a.name, host)
		w := readyOver(a.lossesTo(host).fill(e), at[sites[a.name]], at[sites[host]])
		for n := range w.lanes {
			if !a.makeLane(ctx, host, n, c, c.kind == LaneTCP && n > 0, w.pause) {
				return
			}
		}
	}
}

// makeLane has one lane to host ready, over TCP or as QUIC's so many, and rests for pause if that took a handshake. It returns false if no more are to be made now.
func (a *Agent) makeLane(ctx context.Context, host string, n int, c laneChoice, tcp bool, pause time.Duration) bool {
	if tcp && a.endpoint.RestsTCP(host, c.congestion) || !tcp && a.endpoint.Keep(host, n) {
		return true
	}
	if ctx.Err() != nil || a.groups.Busy() {
		return false
	}
	short, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var err error
	if tcp {
		err = a.endpoint.ReadyTCP(short, host, c.congestion)
	} else {
		err = a.endpoint.Connect(short, host, n)
	}
	if err != nil {
		a.log.Debug("no lane is made ready", "peer", host, "lane", n, "kind", c.kind, "err", err)
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// tryTCP finds out, until ctx ends, whether TCP gets through to the sites which it would suit, and again to hosts to which it did not. A firewall that drops it
// costs no exchange anything then: without this the first one would wait [tcpPatience], and others after each of the pauses.
func (a *Agent) tryTCP(ctx context.Context) {
	if !a.dialsTCP {
		return
	}
	b := beat.Of(a.name)
	for {
		select {
		case <-time.After(b.Next(time.Now(), tryEvery)):
		case <-ctx.Done():
			return
		}
		failed := make(map[string]bool) // sites, this time
		sites, live := a.sites(), a.others()
		rand.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
		for _, host := range live {
			site := sites[host]
			if failed[site] {
				continue
			}
			c, w := a.lanes.choice(host)
			if !c.try {
				continue
			}
			limit := w.patience()
			short, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no connection to %s within %v", host, limit))
			err := a.endpoint.ReadyTCP(short, host, c.congestion)
			if err != nil && ctx.Err() == nil && short.Err() != nil {
				err = context.Cause(short)
			}
			cancel()
			if ctx.Err() != nil {
				return
			}
			failed[site] = err != nil
			a.lanes.tried(host, err)
			a.log.Debug("tried TCP", "peer", host, "site", site, "err", err)
		}
	}
}

// A readiness is what is to be ready of the way to a host.
type readiness struct {
	lanes int           // those from 0 on
	pause time.Duration // after a handshake
}

// readyOver says what is to be ready over a path of which e is known, between sites of so many hosts: nothing where too little is known, or the link is too slow.
func readyOver(e netmap.Estimate, here, there int) (w readiness) {
	p := PathOf(e)
	if p.RTT == 0 {
		return readiness{}
	}
	rate := float64(max(p.Rate, p.Capacity))
	w.lanes = 1
	if p.Lossy() {
		w.lanes = 2
	}
	p.Flows = here * there
	w.lanes = max(w.lanes, min(p.Lanes(), mostReady))
	p.Flows = max(here, there) // the pairs that an alltoall goes over
	if n := min(p.Lanes(), mostReady); here*there*n <= mostReadyAll {
		w.lanes = max(w.lanes, n)
	}
	pings := float64(here*there) * pingBytes / pingEvery.Seconds() // of one lane of each pair
	if w.lanes = min(w.lanes, int(pingShare*rate/pings)); w.lanes == 0 {
		return readiness{}
	}
	w.pause = time.Duration(readyBytes * float64(here) / (readyShare * rate) * float64(time.Second))
	return w
}
