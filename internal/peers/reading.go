package main

import (
	"context"

	"github.com/gridagent/gridagent/internal/lab"
	"github.com/gridagent/gridagent/internal/processors"
)

// A reading is what counters said at one moment.
type reading struct {
	// bytes are the IP bytes that have crossed each link between sites or switches since the lab came up, by
	// names as in UT→UK.
	bytes  map[string]uint64
	missed uint64 // packets that the emulation has lost
	late   lab.Late
	cpu    processors.Times
}

// count reads the counters of the lab and of the machine.
func (t *testbed) count(ctx context.Context) (reading, error) {
	s, err := t.client.Stats(ctx)
	if err != nil {
		return reading{}, err
	}
	x := reading{bytes: make(map[string]uint64), missed: s.Missed, late: s.Late}
	for _, l := range s.WAN {
		x.bytes[l.From+"→"+l.To] = l.Delivered.Bytes
	}
	for _, l := range s.Trunks {
		x.bytes[l.From+"→"+l.To] = l.Sent.Bytes
	}
	x.cpu, err = processors.Machine()
	return x, err
}

// since returns what has crossed the links since before, per one of ops operations.
func (x reading) since(before reading, ops int) map[string]int64 {
	out := make(map[string]int64)
	for name, n := range x.bytes {
		out[name] = int64(n-before.bytes[name]) / int64(ops)
	}
	return out
}

// lateShare is the share of the packets since before that came over 1 ms late.
func (x reading) lateShare(before reading) float64 {
	packets := x.late.Packets - before.late.Packets
	if packets == 0 {
		return 0
	}
	return float64(x.late.Over-before.late.Over) / float64(packets)
}

// busy is the share of the processors' time since before that was not idle, 0 to 1.
func (x reading) busy(before reading) float64 { return x.cpu.Busy(before.cpu) }
