package lab

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// A counters is what the interfaces of one namespace have sent, by index.
type counters struct {
	handle *netlink.Handle
	shaped map[int]PortStats
}

// readCounters asks tbf, once for all interfaces of a namespace. An interface counts a train that the
// kernel carries as one packet (GSO) as one, with one header; tbf counts what goes over the wire.
func readCounters(h *netlink.Handle) (*counters, error) {
	qdiscs, err := h.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	c := &counters{handle: h, shaped: make(map[int]PortStats)}
	for _, q := range qdiscs {
		s := q.Attrs().Statistics
		if q.Type() != "tbf" || s == nil || s.Basic == nil || s.Queue == nil {
			continue
		}
		c.shaped[q.Attrs().LinkIndex] = PortStats{
			Sent:    ipCount(uint64(s.Basic.Packets), s.Basic.Bytes),
			Dropped: uint64(s.Queue.Drops),
			Queued:  uint64(s.Queue.Qlen),
		}
	}
	return c, nil
}

// sent returns what link has sent: into the cable where it is an end of one.
func (c *counters) sent(link netlink.Link) (PortStats, error) {
	if p, ok := c.shaped[link.Attrs().Index]; ok {
		return p, nil
	}
	fresh, err := c.handle.LinkByIndex(link.Attrs().Index)
	if err != nil {
		return PortStats{}, fmt.Errorf("%s is gone: %w", link.Attrs().Name, err)
	}
	s := fresh.Attrs().Statistics
	if s == nil {
		return PortStats{}, fmt.Errorf("%s has no counters", link.Attrs().Name)
	}
	return PortStats{Sent: ipCount(s.TxPackets, s.TxBytes)}, nil
}

// ipCount takes the Ethernet headers off what the kernel counted.
func ipCount(packets, bytes uint64) Count {
	return Count{packets, bytes - min(bytes, packets*frameHeader)}
}
