package phase

import (
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// What decides between synchronisations. The measurements are those of docs/switches.md.
const (
	// portBuffer is what the port of a cheap switch holds: 48 packets. Messages that all fit into
	// one need no order.
	portBuffer = 64 << 10
	// shortMessage is the size from which news pay that come from behind the slowest cable between
	// switches. Of messages that are shorter, the source's word that one has left is enough, and it
	// comes sooner.
	shortMessage = 16 << 10
	// shortOnSwitch is the size up to which hosts of one switch need no news. There is no cable that holds one message up and not the
	// next; who is late meets a message or two at each port. Longer ones fill ports by that: over sockets
	// of TCP 24 hosts with 5 Mbit/s take 5.8 s for 128 KiB and 15.0 for 256, and with news and a lead 6.0 and 12.2 to 13.3.
	shortOnSwitch = 256 << 10
	// evenShare is by how much the largest message may exceed the mean for hosts to stay in step so: where sizes are drawn from 0, 4 and 64 KiB, ports of
	// 48 packets lose 1,800 of them, and none with news.
	evenShare = 1.25
	// shortInStep is that size where all hosts keep in step. At 4 KiB that takes 1.95 times the bound and loses
	// nothing, and the source's word 2.5 times and 1,450 packets; at 2 KiB it is 3.5 to 2.7.
	shortInStep = 4 << 10
	// leadShare is the part of a message of which the news come early, at most: at 1 Gbit/s on one switch 64 KiB take
	// 1.17 times the bound with a lead of a quarter, 1.09 with one of a half.
	leadShare = 2
	// fewMessages is how many a phase holds at most, in the mean, where all its hosts keep in step: each message
	// then waits for the news of so many. Four switches with 8 hosts each, or 32, have 5.
	fewMessages = 8
	// inStepShare is the largest lead of a barrier, as a part of a message, and inStepTime the time that the news
	// have: it waits for the slowest of all.
	inStepShare = 3. / 4
	inStepTime  = 2 * newsTime
)

// What passes between the last byte of one message on a link and the first of the next, once the news
// have been sent: the way of the news, that of the data, packets in the ports of hosts and switches.
const (
	newsTime    = 150 * time.Microsecond // three times what two network stacks take
	newsPackets = 10 * 1308              // bytes
	leadUnit    = 4 << 10                // bytes: leads are round numbers, upwards, and parts of messages downwards
	shareUnit   = 1 << 10
)

// Lead returns how many bytes of a message may be missing when the next one on the link is let go,
// so that links of the given rate are neither idle nor crowded between two messages. A rate of 0
// is unknown, and counts as 100 Mbit/s.
func Lead(rate netmap.BytesPerSec) int64 { return leadFor(rate, newsTime) }

// leadFor is Lead for news that take so long.
func leadFor(rate netmap.BytesPerSec, news time.Duration) int64 {
	if rate <= 0 {
		rate = 100 * netmap.Mbps
	}
	bytes := newsPackets + min(float64(rate)*news.Seconds(), 1<<20)
	return (int64(bytes) + leadUnit - 1) / leadUnit * leadUnit
}

// Tuned returns the synchronisation that is the fastest for sizes on t, of those that lose next to no
// packets where the ports of switches hold 48 of them (the papers' "automatic tuning", by size and topology):
//
//   - none, where all that crosses the most loaded link fits into the buffer of a port;
//   - order, on one switch, for messages below 256 KiB that are about as large as each other: each host sends one after the
//     other, and they stay in step without news;
//   - sender, for messages below 16 KiB: the source has the news first. Where the next one holds, below 4 KiB;
//   - barrier with a lead, where there are several switches and a phase holds few messages. The news say what
//     the slowest link on the way has let through, so that no queue grows from phase to phase as it does with
//     sender; the lead hides their way; and all stay in step. Without a barrier a message that one link has
//     let go early shares the next with one that is late, while a third link idles: that costs 4 %;
//   - receiver with a lead otherwise.
//
// Sizes that differ count as the largest.
func Tuned(t *plan.Topology, sizes plan.AlltoallSizes) Options {
	n := len(t.Hosts())
	size := largest(n, sizes)
	rate, _ := t.Bandwidth()
	switch one := oneSwitch(t); {
	case !Crowds(t, sizes):
		return Options{}
	case !one && n*(n-1) <= fewMessages*Load(t) && size >= shortInStep:
		return Options{Sync: Barrier, Lead: wholeUnits(min(leadFor(rate, inStepTime), int64(inStepShare*float64(size))))}
	case one && size < shortOnSwitch && Even(n, sizes):
		return Options{Sync: Order}
	case size < shortMessage:
		return Options{Sync: Sender}
	}
	return Options{Sync: Receiver, Lead: wholeUnits(min(Lead(rate), size/leadShare))}
}

// wholeUnits returns a lead of no more than so many bytes.
func wholeUnits(bytes int64) int64 { return bytes / shareUnit * shareUnit }

// Crowds reports whether an alltoall in which nothing waits can overrun the ports of t: what crosses the
// most loaded link in all is more than a port holds. It then may lose thousands of packets, and take
// up to nine times the bound.
func Crowds(t *plan.Topology, sizes plan.AlltoallSizes) bool {
	return largest(len(t.Hosts()), sizes) > portBuffer/int64(max(1, Load(t)))
}

// Fits reports whether the port of a cheap switch holds so many bytes: what comes to it from several hosts at once, and is more, may be lost.
func Fits(bytes int64) bool { return bytes <= portBuffer }

// oneSwitch reports whether all machines are on one.
func oneSwitch(t *plan.Topology) bool {
	for h := range t.Hosts() {
		if t.Home(h) != t.Home(0) {
			return false
		}
	}
	return true
}

// Even reports whether the blocks among n hosts are about as large as each other: the largest is at most a quarter larger than the mean.
func Even(n int, sizes plan.AlltoallSizes) bool {
	total := 0.0
	for i := range n {
		for j := range n {
			if i != j {
				total += float64(sizes.Of(i, j))
			}
		}
	}
	return float64(largest(n, sizes))*float64(n*(n-1)) <= evenShare*total
}

// largest returns the bytes of the largest block among n hosts.
func largest(n int, sizes plan.AlltoallSizes) (size int64) {
	for i := range n {
		for j := range n {
			if i != j {
				size = max(size, sizes.Of(i, j))
			}
		}
	}
	return size
}
