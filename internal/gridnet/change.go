package gridnet

import (
	"fmt"
	"net"
)

// SetLink changes a link or trunk while it runs. change gets the link as it is and edits it;
// it must not call the network. What is left of the packet in transmission goes at the
// new rate, queued packets too; those on the wire keep their delay, and those behind do not
// overtake them unless Reorder is set. A smaller queue drops nobody who waits already.
func (n *Network) SetLink(from, to string, change func(*Link)) error {
	return n.edit(func() error {
		p, err := n.world.pipe(from, to)
		if err != nil {
			return err
		}
		l := p.link
		change(&l)
		l.From, l.To = from, to
		if err := l.check(); err != nil {
			return fmt.Errorf("link %s→%s: %w", from, to, err)
		}
		n.world.setLink(p, l)
		return nil
	})
}

// Link returns a link or trunk as it is now.
func (n *Network) Link(from, to string) (Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, err := n.world.pipe(from, to)
	if err != nil {
		return Link{}, err
	}
	return p.link, nil
}

// SetHostRate changes the rate of a host's port, in both directions. Zero means no limit.
// The port of a real host is not ours: that is an error.
func (n *Network) SetHostRate(host string, r Rate) error {
	return n.edit(func() error {
		h, err := n.world.emulated(host)
		if err != nil {
			return err
		}
		if err := checkRate("rate", r); err != nil {
			return fmt.Errorf("host %q: %w", host, err)
		}
		n.world.setRate(h, r)
		return nil
	})
}

// Cut cuts the links or trunks between two sites, in both directions, at the near end:
// what is on the wire arrives, what waits or comes is dropped. Packets do not find another way.
func (n *Network) Cut(a, b string) error { return n.setCut(a, b, true) }

// Heal undoes Cut.
func (n *Network) Heal(a, b string) error { return n.setCut(a, b, false) }

// CutLink cuts (or, with cut false, heals) one direction only.
func (n *Network) CutLink(from, to string, cut bool) error {
	return n.edit(func() error {
		p, err := n.world.pipe(from, to)
		if err == nil {
			p.cut = cut
		}
		return err
	})
}

func (n *Network) setCut(a, b string, cut bool) error {
	return n.edit(func() error {
		ab, errAB := n.world.pipe(a, b)
		ba, errBA := n.world.pipe(b, a)
		if errAB != nil && errBA != nil {
			return errAB
		}
		for _, p := range []*pipe{ab, ba} { // a one-way link is no mistake
			if p != nil {
				p.cut = cut
			}
		}
		return nil
	})
}

// CutHost pulls the cable of a host: its sockets stay open, and nothing gets in or out. A
// real host is cut off from other sites.
func (n *Network) CutHost(host string) error { return n.setHostCut(host, true) }

// HealHost undoes CutHost.
func (n *Network) HealHost(host string) error { return n.setHostCut(host, false) }

func (n *Network) setHostCut(host string, cut bool) error {
	return n.edit(func() error {
		h, err := n.world.host(host)
		if err == nil {
			h.cut = cut
		}
		return err
	})
}

// Kill is a power cut: it closes the sockets of a host without a word to anybody and drops
// the packets in its queues. Listen starts it again. The processes of a real host are not
// ours: that is an error.
func (n *Network) Kill(host string) error {
	return n.edit(func() error {
		h, err := n.world.emulated(host)
		if err != nil {
			return err
		}
		h.closeSockets()
		n.world.powerOff(h)
		return nil
	})
}

// emulated returns a host whose site has no wire.
func (w *world) emulated(name string) (*host, error) {
	h, err := w.host(name)
	if err == nil && w.sites[h.siteIndex].wire != nil {
		return nil, fmt.Errorf("host %q is real while site %q has a wire: change it where it runs, or cut it", name, h.site)
	}
	return h, err
}

// edit brings the network up to now, so that a change has no effect on the past, and
// applies f.
func (n *Network) edit(f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("change the network: %w", net.ErrClosed)
	}
	n.catchUp()
	err := f()
	n.rouse()
	return err
}

// setLink makes l, which was checked, the properties of p from w.now on.
func (w *world) setLink(p *pipe, l Link) {
	if l.FlowRate != p.link.FlowRate {
		p.pacer.setRate(&w.agenda, w.now, l.FlowRate)
	}
	shape := p.port.shape
	if l.ShapeRate != p.link.ShapeRate || l.ShapeBurst != p.link.ShapeBurst {
		shape = newBucket(l.ShapeRate, l.ShapeBurst, w.now)
	}
	if l.Rate != p.link.Rate || shape != p.port.shape {
		p.port.reshape(&w.agenda, w.now, l.Rate, shape)
	}
	p.link = l
	p.port.limit, p.pacer.limit = l.queue(), l.flowQueue()
}

// setRate makes r the rate of both ports of h from w.now on.
func (w *world) setRate(h *host, r Rate) {
	h.egress.reshape(&w.agenda, w.now, r, nil)
	h.ingress.reshape(&w.agenda, w.now, r, nil)
}

// powerOff drops what is in the ports of h.
func (w *world) powerOff(h *host) {
	h.egress.drain(&w.agenda, func(p *packet) { w.drop(p, &h.out, HostDown) })
	h.ingress.drain(&w.agenda, func(p *packet) { w.drop(p, &h.in, HostDown) })
}
