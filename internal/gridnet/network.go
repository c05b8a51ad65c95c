package gridnet

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// batch is how late the event loop may be in real time, for the sake of handling
// several events in one wake: 100 Mbit/s are about 30,000 events a second.
const batch = 100 * time.Microsecond

// firstPort is where Listen begins to look for a free one.
const firstPort = 4000

// A Network is a running emulation. All methods may be called concurrently.
type Network struct {
	start      time.Time
	batch      time.Duration
	sendBuffer int
	call       func()        // Config.Rouse
	wake       chan struct{} // the next event is earlier than the loop thinks
	done       chan struct{} // closed by Close
	ended      chan struct{} // closed by the loop when it returns

	// mu guards the world, the state of every Conn and Wire and what follows. It is never held
	// while sleeping or waiting for a channel: in a bubble that would stop the clock.
	mu     sync.Mutex
	world  *world
	until  time.Duration // when the loop wakes
	closed bool
}

// New checks cfg and starts the event loop, the only goroutine of the network, which
// ends with Close; with [Config.Rouse] there is none. In a synctest bubble New, all use and Close belong inside it.
func New(cfg Config) (*Network, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("emulated network: %w", err)
	}
	n := &Network{
		start:      time.Now(),
		sendBuffer: orDefault(cfg.SendBuffer, defaultSendBuffer),
		call:       cfg.Rouse,
		wake:       make(chan struct{}, 1),
		done:       make(chan struct{}),
		ended:      make(chan struct{}),
		world:      newWorld(&cfg),
		until:      math.MaxInt64,
	}
	switch {
	case n.call != nil:
		close(n.ended)
	case cfg.RealTime:
		n.batch = batch
		go n.run(preciseAlarm())
	default:
		go n.run(goAlarm())
	}
	return n, nil
}

// run applies events when they are due, until Close. Those who send help: they apply
// what is due before their packet, so that a late loop delays nobody's queue.
func (n *Network) run(a alarm) {
	defer close(n.ended)
	defer a.stop()
	for {
		n.mu.Lock()
		now := n.catchUp()
		n.until = math.MaxInt64
		if p := n.world.due(); p != nil {
			n.until = max(p.at, now+n.batch)
		}
		until := n.until
		n.mu.Unlock()

		var rings <-chan time.Time
		if until != math.MaxInt64 {
			rings = a.set(until - now)
		}
		select {
		case <-rings:
		case <-n.wake:
		case <-n.done:
			return
		}
	}
}

// Advance applies what is due, and returns when it is to be called again; false if nothing is on its way. It
// does the work of the event loop for a network with [Config.Rouse].
func (n *Network) Advance() (time.Time, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = math.MaxInt64
	if n.closed {
		return time.Time{}, false
	}
	n.catchUp()
	p := n.world.due()
	if p == nil {
		return time.Time{}, false
	}
	n.until = p.at
	return n.start.Add(p.at), true
}

// catchUp applies what is due and returns the time. The lock is held.
func (n *Network) catchUp() time.Duration {
	now := time.Since(n.start)
	n.world.advance(now)
	return now
}

// rouse wakes the loop if it would oversleep the next event. The lock is held.
func (n *Network) rouse() {
	p := n.world.due()
	if p == nil || p.at+n.batch >= n.until {
		return
	}
	n.until = p.at // one signal is enough
	if n.call != nil {
		n.call()
		return
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Listen opens a socket on the lowest free port of a host from 4000 on, so a host that
// listens again after Kill has its old address again.
func (n *Network) Listen(host string) (*Conn, error) { return n.ListenPort(host, 0) }

// ListenPort opens a socket on a port of a host; 0 means any. Addresses are
// 10.s.h.h:port, s counting sites from 1 and h.h hosts of the site from 0.1.
func (n *Network) ListenPort(host string, port uint16) (*Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("listen on host %q: %w", host, net.ErrClosed)
	}
	h, err := n.world.host(host)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if n.world.sites[h.siteIndex].wire != nil {
		return nil, fmt.Errorf("listen on host %q: it is real while site %q has a wire", host, h.site)
	}
	if port == 0 {
		for port = firstPort; h.sockets[port] != nil; port++ {
			if port == math.MaxUint16 {
				return nil, fmt.Errorf("listen on host %q: no free port", host)
			}
		}
	}
	if h.sockets[port] != nil {
		return nil, fmt.Errorf("listen on host %q: port %d is in use", host, port)
	}
	c := &Conn{
		net: n, host: h,
		endpoint: toEndpoint(netip.AddrPortFrom(h.ip, port)),
		room:     defaultReadBuffer,
		limit:    n.sendBuffer,
	}
	c.readable.L, c.writable.L = &n.mu, &n.mu
	h.sockets[port] = c
	return c, nil
}

// Addr returns the IPv4 address of a host.
func (n *Network) Addr(host string) (netip.Addr, error) {
	h, err := n.world.host(host) // names and addresses never change: no lock
	if err != nil {
		return netip.Addr{}, err
	}
	return h.ip, nil
}

// Stats returns the counters as of now.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.catchUp()
	}
	s := Stats{At: n.world.now, Stray: n.world.stray, Late: n.world.late}
	for i, p := range n.world.pipes {
		l := LinkStats{From: p.link.From, To: p.link.To, Traffic: p.Traffic, Cross: p.cross}
		if i < n.world.links {
			s.Links = append(s.Links, l)
		} else {
			s.Trunks = append(s.Trunks, l)
		}
	}
	for _, h := range n.world.hosts {
		s.Hosts = append(s.Hosts, HostStats{Host: h.name, Site: h.site, Egress: h.out, Ingress: h.in, Loopback: h.local})
	}
	return s
}

// Close closes every socket and wire, forgets the packets on their way and waits for the event
// loop to end. Closing again does nothing.
func (n *Network) Close() error {
	n.mu.Lock()
	if !n.closed {
		n.catchUp()
		n.closed = true
		for _, h := range n.world.hosts {
			h.closeSockets()
		}
		for _, s := range n.world.sites {
			if s.wire != nil {
				s.wire.close()
			}
		}
		close(n.done)
	}
	n.mu.Unlock()
	<-n.ended
	return nil
}

// closeSockets closes the sockets in the order of their ports, so that what their
// users do next does not depend on the order of a map.
func (h *host) closeSockets() {
	ports := make([]uint16, 0, len(h.sockets))
	for p := range h.sockets {
		ports = append(ports, p)
	}
	slices.Sort(ports)
	for _, p := range ports {
		h.sockets[p].close()
	}
}
