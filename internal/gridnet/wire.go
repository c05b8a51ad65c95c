package gridnet

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"
)

// wireQueue is how many packets wait for Read: 8 MiB of full ones. It counts packets,
// since a short one takes the memory of a full one.
const wireQueue = 8 << 20 / MTU

// A Wire is where the hosts of a site are joined to the network that are real: processes with
// a kernel of their own, whose IPv4 packets somebody carries here and back, say over a TAP
// device. Their ports are the kernel's affair, and so is all traffic within the site: a wire
// leads straight to the WAN pipes and trunks, and has no receive jitter. It changes nothing
// in a packet. All methods may be called concurrently; packets written at one instant enter
// in the order of the calls.
type Wire struct {
	net      *Network // whose lock guards what follows
	site     *site
	closed   bool
	received fifo // for Read and TryRead
	readable sync.Cond
}

// Attach makes the hosts of a site real: their packets come in by Write and go out by
// Read. They have no emulated sockets meanwhile, and packets between them and emulated hosts
// are dropped as [NoSocket]: a site that they are to reach needs a wire too. A site has at
// most one wire; when that is closed, it may get another.
func (n *Network) Attach(site string) (*Wire, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, fmt.Errorf("attach site %q: %w", site, net.ErrClosed)
	}
	i, ok := n.world.index[site]
	if !ok {
		return nil, fmt.Errorf("attach site %q: no such site", site)
	}
	s := n.world.sites[i]
	if s.wire != nil {
		return nil, fmt.Errorf("attach site %q: it has a wire already", site)
	}
	for _, h := range s.hosts {
		if len(h.sockets) > 0 {
			return nil, fmt.Errorf("attach site %q: host %q has emulated sockets; close them first", site, h.name)
		}
	}
	s.wire = &Wire{net: n, site: s}
	s.wire.readable.L = &n.mu
	return s.wire, nil
}

// Write puts one IPv4 packet in, which a host of the site sends to a host of another site;
// what follows its total length is padding. It keeps no reference to the slice and never
// blocks. It returns an error for what is no IPv4 packet, and one that wraps net.ErrClosed.
// What happens on the way is no error and counted, for the sender in [HostStats.Egress]:
// a packet larger than [MTU] as TooBig; one to nowhere or within the site, as broadcasts are,
// as NoRoute; one of a host that is cut as LinkCut. One from an address that no host of the
// site has is in [Stats.Stray].
func (w *Wire) Write(packet []byte) error {
	src, dst, size, err := parseIPv4(packet)
	if err != nil {
		return fmt.Errorf("write to the wire of site %q: %w", w.site.name, err)
	}
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.closed {
		return w.failed("write to")
	}
	n.catchUp()
	n.world.inject(w.site, src, dst, packet[:size])
	n.rouse()
	return nil
}

// Read returns the length of the next packet for a host of the site, which it cuts to the
// buffer as a socket does. It blocks; the error wraps net.ErrClosed.
// Of those that nobody reads, 5592 wait: further ones are dropped as BufferFull.
func (w *Wire) Read(b []byte) (int, error) {
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if w.closed {
			return 0, w.failed("read from")
		}
		// What is due by now saves this reader a sleep.
		now := n.catchUp()
		if k, ok := w.next(b, now); ok {
			if w.received.len > 0 {
				w.readable.Signal()
			}
			return k, nil
		}
		w.readable.Wait()
	}
}

// TryRead is Read for one who calls [Network.Advance]: it returns false where Read would wait or fail.
func (w *Wire) TryRead(b []byte) (int, bool) {
	n := w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	return w.next(b, time.Since(n.start))
}

// next copies the packet that has waited longest to b. The lock is held.
func (w *Wire) next(b []byte, now time.Duration) (int, bool) {
	p := w.received.pop()
	if p == nil {
		return 0, false
	}
	w.net.world.late.add(now - p.at)
	k := copy(b, p.data[:p.held])
	w.net.world.recycle(p)
	return k, true
}

// Close ends all calls with net.ErrClosed and forgets the packets that wait for Read. What was
// written still crosses the network. Closing again is an error, as for a socket.
func (w *Wire) Close() error {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if w.closed {
		return w.failed("close")
	}
	w.close()
	return nil
}

// close is Close without its lock.
func (w *Wire) close() {
	w.closed, w.site.wire = true, nil
	for p := w.received.pop(); p != nil; p = w.received.pop() {
		w.net.world.recycle(p)
	}
	w.readable.Broadcast()
}

func (w *Wire) failed(op string) error {
	return fmt.Errorf("%s the wire of site %q: %w", op, w.site.name, net.ErrClosed)
}

// take puts a packet into the queue for Read, or returns false. The lock is held.
func (w *Wire) take(p *packet) bool {
	if w.received.len >= wireQueue {
		return false
	}
	w.received.push(p)
	w.readable.Signal()
	return true
}

// inject takes an IPv4 packet at w.now from the real hosts of s, whose kernels have sent it
// through its port.
func (w *world) inject(s *site, src, dst endpoint, b []byte) {
	from := w.at(src)
	if from == nil || w.sites[from.siteIndex] != s {
		w.stray.Packets++
		w.stray.Bytes += uint64(len(b))
		return
	}
	s.seq++
	p := w.packet(from, src, dst, s.seq, b)
	w.trace(p, Sent, 0)
	from.out.enter(p)
	switch {
	case p.size > MTU:
		w.drop(p, &from.out, TooBig)
	case p.pipe == nil && p.ahead == nil:
		w.drop(p, &from.out, NoRoute)
	default:
		w.leaveHost(p)
	}
}

const (
	protoTCP, protoUDP = 6, 17
	minIPv4            = 20     // bytes of a header without options
	fragmented         = 0x3fff // in the header's flags and offset: more fragments, or not the first
)

// parseIPv4 returns the endpoints and the total length of a packet. Ports are those of TCP and
// UDP. All fragments have port 0, since the later ones do not say theirs: a flow stays one.
func parseIPv4(b []byte) (src, dst endpoint, size int, err error) {
	if len(b) < minIPv4 {
		return 0, 0, 0, fmt.Errorf("%d bytes are no IPv4 packet: want at least %d", len(b), minIPv4)
	}
	if v := b[0] >> 4; v != 4 {
		return 0, 0, 0, fmt.Errorf("packet of IP version %d: want 4", v)
	}
	header := int(b[0]&15) * 4
	size = int(binary.BigEndian.Uint16(b[2:]))
	if header < minIPv4 || size < header || len(b) < size {
		return 0, 0, 0, fmt.Errorf("IPv4 packet of %d bytes says that it has %d, %d of them header", len(b), size, header)
	}
	src = endpoint(binary.BigEndian.Uint32(b[12:])) << 16
	dst = endpoint(binary.BigEndian.Uint32(b[16:])) << 16
	hasPorts := b[9] == protoTCP || b[9] == protoUDP
	if hasPorts && size >= header+4 && binary.BigEndian.Uint16(b[6:])&fragmented == 0 {
		src |= endpoint(binary.BigEndian.Uint16(b[header:]))
		dst |= endpoint(binary.BigEndian.Uint16(b[header+2:]))
	}
	return src, dst, size, nil
}
