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

// What a port or trunk can be held to. Below, one full packet takes more than a second; above,
// no kernel of one machine sends so much.
const (
	minRate gridnet.Rate = 1e3    // 0.008 Mbit/s
	maxRate gridnet.Rate = 12.5e9 // 100 Gbit/s
)

func checkRate(what string, r gridnet.Rate) error {
	if r == 0 || (r >= minRate && r <= maxRate) {
		return nil
	}
	return fmt.Errorf("%s: bandwidth of %s: want %s to %s", what, rate(r), rate(minRate), rate(maxRate))
}

// burstTime is how much of its rate a bucket holds beyond a packet: the kernel's timer may come so much
// too late without loss of rate. More lets trains of packets through that a wire would not.
const burstTime = 250e-6 // s

// burst returns how many bytes of Ethernet may pass at once. A bucket of two packets would let the
// first two of every train through back to back, which is what a probe would then see. The slack
// is for the kernel's rounding: a bucket smaller than a packet passes none.
func burst(bytesPerSec float64) uint32 {
	const slack = 64
	return frame + max(slack, uint32(bytesPerSec*burstTime))
}

// setShape gives link the rate of IP bytes r and a queue of so many packets. A rate of zero is no limit.
func setShape(h *netlink.Handle, link netlink.Link, r gridnet.Rate, queue int) error {
	if r == 0 {
		return nil
	}
	wire := math.Round(float64(r) * frame / gridnet.MTU)
	bucket := burst(wire)
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: link.Attrs().Index,
			Handle:    netlink.MakeHandle(1, 0),
			Parent:    netlink.HANDLE_ROOT,
		},
		Rate:   uint64(wire),
		Limit:  uint32(min(float64(queue)*frame+float64(bucket), math.MaxInt32)),
		Buffer: ticks(float64(bucket) / wire),
	}
	if err := h.QdiscReplace(q); err != nil {
		return fmt.Errorf("shape %s to %.0f bytes/s by tbf: %w", link.Attrs().Name, wire, explain(err))
	}
	return nil
}

// ticks converts seconds to the unit in which the kernel counts a bucket, 64 ns.
func ticks(seconds float64) uint32 {
	return uint32(min(math.Ceil(seconds*1e9/64), math.MaxUint32))
}
