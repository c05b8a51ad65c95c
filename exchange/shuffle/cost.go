package shuffle

import (
	"math"
	"time"
)

// A CostModel holds what one packet of full size costs on a homogeneous cluster with
// one non-blocking switch: the parameters of Tam & Wang, §2, under their names there.
// The model assumes Os+Or+Ur < g < L with g = max(Gs, Gr).
//
// Its methods predict, for messages of k packets each, the time from the start to the
// end of the last host. Sizes that differ are not in the model, nor are drift between
// hosts, loss, and blocking inside the switch. One host, or no packets, takes no time.
// A time beyond the range of a Duration (292 years) is given as its largest value.
type CostModel struct {
	Os time.Duration // software overhead of sending
	Gs time.Duration // least time between two packets into the network
	Gr time.Duration // least time between two packets out of it
	Or time.Duration // kernel's overhead of receiving: interrupt, copy
	Ur time.Duration // user space's overhead of receiving
	L  time.Duration // latency, from memory to memory
}

// Optimum returns the least time that any exchange among p hosts takes: every host
// sends and receives k(p−1) packets without a pause (equation 2). For two hosts that is
// one message (equation 1).
func (m CostModel) Optimum(p int, k int64) time.Duration { return m.time(k, p-1, 1) }

// Shift returns the time of [Shift]: p−1 messages one after another (equation 3).
func (m CostModel) Shift(p int, k int64) time.Duration { return m.time(k, p-1, p-1) }

// Pairwise returns the time of [Pairwise]. The paper sets it equal to that of shift, which
// holds for even p; for odd p there is one round more. That is for hosts in step: with
// odd p the one that idles goes on at once, and its packets meet those of the round
// before at its next partner. The flow simulator has it a third longer for 17 hosts.
func (m CostModel) Pairwise(p int, k int64) time.Duration { return m.Group(p, k, 1) }

// Synchronous returns the time of [Synchronous], the optimum (equation 4).
func (m CostModel) Synchronous(p int, k int64) time.Duration { return m.time(k, p-1, 1) }

// Group returns the time of [Group]: ⌈χ′/ω⌉ rounds that share χ′ slots. That is equation 5
// where p is even and ω divides p−1, as it assumes. For odd p each slot is idle at one
// host and no host saves a slot by it. A fanout below 1 counts as 1.
func (m CostModel) Group(p int, k int64, fanout int) time.Duration {
	slots := colours(p)
	fanout = max(1, min(fanout, slots))
	return m.time(k, slots, (slots+fanout-1)/fanout)
}

// time returns k·slots·g + rounds·Tw: the packets of all slots follow each other at the
// gap g, and each round pays once for filling and emptying the pipe,
// Tw = Os + L − g + Or + Ur.
func (m CostModel) time(k int64, slots, rounds int) time.Duration {
	if k <= 0 || slots <= 0 {
		return 0
	}
	g := max(m.Gs, m.Gr)
	tw := m.Os + m.L - g + m.Or + m.Ur
	if total := float64(float64(k)*float64(slots)*float64(g)) + float64(float64(rounds)*float64(tw)); total >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(k)*time.Duration(slots)*g + time.Duration(rounds)*tw
}
