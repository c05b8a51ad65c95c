package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/gridagent/gridagent/internal/lab"
)

// A reading is what counters said at one moment.
type reading struct {
	// bytes are the IP bytes that have crossed each link between sites or switches since the lab came up, by
	// names as in UT→UK.
	bytes  map[string]uint64
	missed uint64 // packets that the emulation has lost
	late   lab.Late
	cpu    cpuTime
}

// cpuTime is what the machine's processors have done since it started, in ticks.
type cpuTime struct{ idle, all uint64 }

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
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return reading{}, err
	}
	x.cpu, err = readCPU(string(stat))
	return x, err
}

// readCPU reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal,
// and guest times, which are in user's already.
func readCPU(stat string) (cpuTime, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const idle, iowait, guest = 4, 5, 9
	if len(fields) < guest || fields[0] != "cpu" {
		return cpuTime{}, errors.New("/proc/stat: it does not begin with the time of all processors")
	}
	var c cpuTime
	for i, f := range fields[1:guest] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return cpuTime{}, errors.New("/proc/stat: " + err.Error())
		}
		c.all += n
		if i+1 == idle || i+1 == iowait {
			c.idle += n
		}
	}
	return c, nil
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
func (x reading) busy(before reading) float64 {
	all := x.cpu.all - before.cpu.all
	if all == 0 {
		return 0 // no tick has passed
	}
	return 1 - min(1, float64(x.cpu.idle-before.cpu.idle)/float64(all))
}
