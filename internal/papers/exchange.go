package main

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

// Tam & Wang, §4: 16 hosts on one switch, messages of k packets of 1492 bytes.
const (
	packetPayload = 1492
	switchArena   = "complete-exchange-16"
	switchHosts   = 16
)

var exchangeExperiments = []experiment{exchangeFig2, exchangeFig3}

var shuffleContenders = []string{"sync-shuffle", "group-shuffle ω=5", "pairwise", "shift"}

// deepPortsText says what waits where, and why it is more than elsewhere.
var deepPortsText = fmt.Sprintf(`In the emulation every port of the switch holds %d packets, and a host's own port %d bytes. Small switches hold less, %d in the other
papers' experiments here: the paper's shuffles order packets so that none waits for another, and side by side, as here, those of short messages
overflow such ports. What that costs is in [switches.md](../switches.md), whose table has both depths.`, deepPortPackets, hostQueue, portPackets)

// packets returns the bytes of messages of these numbers of packets.
func packets(k ...int64) []int64 {
	for i := range k {
		k[i] *= packetPayload
	}
	return k
}

// inPackets formats the size of a message.
func inPackets(bytes int64) string { return fmt.Sprintf("k=%d", bytes/packetPayload) }

// costModel is table 1 of Tam & Wang for one of their switches: "326" is cut-through with input
// buffers, "416" store-and-forward with shared buffers. L depends on the number of hosts.
func costModel(of string) shuffle.CostModel {
	µs := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	m := shuffle.CostModel{Os: µs(12.5), Gs: µs(122), Gr: µs(123), Or: µs(20), Ur: µs(7), L: µs(0.3387*switchHosts + 149)}
	if of == "416" {
		m.L = µs(0.3413*switchHosts + 264)
	}
	return m
}

// modelRecords adds what a cost model says of the exchanges. Names are those of contenders, with
// suffix.
func modelRecords(raw *Raw, m shuffle.CostModel, suffix string, sizes []int64) {
	for _, bytes := range sizes {
		k := bytes / packetPayload
		for _, x := range []struct {
			algorithm, variant string
			time               time.Duration
		}{
			{"sync-shuffle", "", m.Synchronous(switchHosts, k)},
			{"group-shuffle", "ω=5", m.Group(switchHosts, k, groupFanout)},
			{"pairwise", "", m.Pairwise(switchHosts, k)},
			{"shift", "", m.Shift(switchHosts, k)},
		} {
			variant := x.variant
			if suffix != "" {
				variant = suffix
			}
			r := Record{Source: Model, Tool: "gridagent", Collective: string(plan.Alltoall), Algorithm: x.algorithm, Variant: variant,
				Grid: switchArena, Hosts: switchHosts, SizeBytes: bytes, Bound: m.Optimum(switchHosts, k).Seconds()}
			raw.Records = append(raw.Records, r.one(x.time.Seconds()))
		}
	}
}
