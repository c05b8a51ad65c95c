package membership

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// A Profile is a set of gossip timings.
type Profile int

const (
	// WAN is for hosts at several sites. A death is noticed in about 10 s (see
	// TestDeathIsNoticed), a round trip may take up to a second.
	WAN Profile = iota
	// LAN halves that for hosts that are near each other.
	LAN
)

// gossipPacket is the largest gossip datagram, without our kind byte: what QUIC needs
// of every path (1,200 bytes, RFC 9000 §14) less that byte and the 5 bytes of
// checksum that memberlist adds to packets without counting them.
const gossipPacket = 1200 - 1 - 5

// timings returns memberlist's configuration for p. It starts from
// DefaultWANConfig, whose timings suit thousands of hosts in a few large clusters: a
// probe each 5 s and six times that of suspicion take 40 s to notice a death.
//
// Ours, for tens to a few hundred hosts: each host probes one other every
// ProbeInterval P, so that a dead one is probed, by somebody, after P on average. The
// probe takes P to fail (ProbeTimeout for the direct ping, the rest for indirect ones
// and for a ping over a stream). Then runs the suspicion time: from
// SuspicionMaxTimeoutMult·s it falls to s = SuspicionMult·P·max(1, log10 N) once
// SuspicionMult−2 others suspect the same. With P = 2 s and a multiplier of 3 that is
// 6 s of suspicion on a second opinion, 12 s without one. Measured in virtual time
// from death to the verdict at every survivor, 120 deaths each: median 7.5 s and at
// most 12 s for 2 to 6 hosts, 7.7 and 15 s for 10, 9.6 and 19 s for 20.
//
// A second opinion, 6 s to object, three indirect paths and a stream beside the
// datagrams are what protects a host that is merely busy (consul#1212). Those who
// wait for a host in an exchange need not wait for this: its lanes tell them sooner.
func (p Profile) timings() *memberlist.Config {
	c := memberlist.DefaultWANConfig()
	c.ProbeInterval = 2 * time.Second
	c.ProbeTimeout = time.Second // 400 ms around the world, and 600 ms in a full queue
	c.SuspicionMult = 3
	c.SuspicionMaxTimeoutMult = 2
	// Under 10 hosts memberlist sends a piece of news RetransmitMult times; with 4, now
	// and then a host did not hear it and waited for the next state exchange.
	c.RetransmitMult = 6
	c.PushPullInterval = 15 * time.Second // 150 bytes a host
	c.TCPTimeout = 10 * time.Second       // as long as a handshake may take
	c.GossipInterval = 300 * time.Millisecond
	c.GossipToTheDeadTime = 30 * time.Second
	// A host that died may come back at another address after this; memberlist
	// refuses it for ever if this is 0 (memberlist#157). Not at once: whoever has the
	// key could take over the name of a host that only stumbled.
	c.DeadNodeReclaimTime = 10 * time.Second
	if p == LAN {
		c.ProbeInterval = time.Second
		c.ProbeTimeout = 400 * time.Millisecond
		c.GossipInterval = 200 * time.Millisecond
	}
	c.AwarenessMaxMultiplier = 4 // a host with a bad network probes each 8 s at least, not each 16 s
	c.UDPBufferSize = gossipPacket
	// Packets of a small cluster hold a few hundred bytes: little to gain, and
	// decompression is attack surface.
	c.EnableCompression = false
	return c
}
