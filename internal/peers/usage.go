package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Usage is what the agents of all hosts took of the machine.
type Usage struct {
	CPU float64 `json:"cpu_s"` // of all agents together, seconds for one operation, warm-up operations counted too
	// Peak is the most that one agent had in memory while the operations ran, After the most that one has when they have ended:
	// resident bytes, with data that it shares with its clients and the pages of the program itself, which all agents share.
	Peak  int64 `json:"peak_bytes"`
	After int64 `json:"after_bytes"`
}

// A consumption is what one process has used.
type consumption struct {
	ticks          uint64 // of CPU time since it began
	peak, resident int64  // bytes
}

// used reads what the agents have used, by host, and begins their peaks anew.
func (a *agents) used() ([]consumption, error) {
	all := make([]consumption, len(a.net.hosts))
	for i, h := range a.net.hosts {
		for _, pid := range a.markOf(i).processes() {
			c, err := consumptionOf(fmt.Sprintf("/proc/%d", pid))
			if errors.Is(err, os.ErrNotExist) {
				continue // it has just ended
			}
			if err != nil {
				return nil, fmt.Errorf("the agent of %s: %w", h.Name, err)
			}
			all[i].ticks += c.ticks
			all[i].peak += c.peak
			all[i].resident += c.resident
		}
	}
	return all, nil
}

// consumptionOf reads the folder of a process in /proc, and begins its peak anew.
func consumptionOf(dir string) (c consumption, err error) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return c, err
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return c, err
	}
	// Not all kernels have it. There peaks are those since the start.
	_ = os.WriteFile(dir+"/clear_refs", []byte("5"), 0)
	return readConsumption(string(stat), string(status))
}

// readConsumption reads /proc/PID/stat and /proc/PID/status.
func readConsumption(stat, status string) (c consumption, err error) {
	// The second field, the program's name, may hold blanks and brackets.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const user, system = 11, 12
	if len(fields) <= system {
		return c, fmt.Errorf("/proc/PID/stat: %d fields behind the name", len(fields))
	}
	for _, at := range []int{user, system} {
		n, err := strconv.ParseUint(fields[at], 10, 64)
		if err != nil {
			return c, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		c.ticks += n
	}
	for line := range strings.Lines(status) {
		var to *int64
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmHWM":
			to = &c.peak
		case "VmRSS":
			to = &c.resident
		default:
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return c, fmt.Errorf("/proc/PID/status: %w", err)
		}
		*to = n << 10
	}
	return c, nil
}

// ticksPerSecond is the unit of times in /proc, the same on all architectures that Go knows.
const ticksPerSecond = 100

// usage returns what was used from before to after, for one of ops operations.
func usage(before, after []consumption, ops int) *Usage {
	u := new(Usage)
	for i, c := range after {
		u.CPU += float64(c.ticks-before[i].ticks) / ticksPerSecond / float64(ops)
		u.Peak = max(u.Peak, c.peak)
		u.After = max(u.After, c.resident)
	}
	return u
}
