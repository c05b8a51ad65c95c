package lab

import (
	"fmt"
	"math"

	"github.com/vishvananda/netlink"

	"github.com/gridagent/gridagent/internal/gridnet"
)

const (
	frame = gridnet.MTU + frameHeader // the largest Ethernet frame, as tbf counts it
	// frameHeader is what Ethernet adds to an IP packet within the kernel.
	frameHeader = 14
)

// burstTime is how much of its rate a bucket holds: the kernel's timer may come so much too late
// without loss of rate. More lets trains of packets through that a wire would not.
const burstTime = 250e-6 // s

// setShape gives link the rate of IP bytes r and a queue of so many packets.
func setShape(h *netlink.Handle, link netlink.Link, r gridnet.Rate, queue int) error {
	name := link.Attrs().Name
	if r == 0 {
		return nil
	}
	rate := uint64(math.Round(float64(r) * frame / gridnet.MTU))
	burst := max(2*frame, uint32(float64(rate)*burstTime))
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: link.Attrs().Index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   rate,
		Limit:  uint32(min(queue*frame+int(burst), math.MaxInt32)),
		Buffer: ticks(float64(burst) / float64(rate)),
	}
	if err := h.QdiscReplace(q); err != nil {
		return fmt.Errorf("shape %s to %.0f bytes/s by tbf: %w", name, float64(rate), err)
	}
	return nil
}

// ticks converts seconds to the unit in which the kernel counts a bucket, 64 ns.
func ticks(seconds float64) uint32 {
	return uint32(min(math.Ceil(seconds*1e9/64), math.MaxUint32))
}

// shaped returns the counters of the qdisc of link, zero where there is none.
func shaped(h *netlink.Handle, link netlink.Link) (drops, queued uint64) {
	qdiscs, err := h.QdiscList(link)
	if err != nil {
		return 0, 0
	}
	for _, q := range qdiscs {
		if a := q.Attrs(); a.Parent == netlink.HANDLE_ROOT && a.Statistics != nil {
			if s := a.Statistics.Queue; s != nil {
				return uint64(s.Drops), uint64(s.Qlen)
			}
		}
	}
	return 0, 0
}
