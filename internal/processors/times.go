package processors

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// Times are what the machine's processors have done since it started, in ticks of all of them.
type Times struct {
	Idle   uint64
	Stolen uint64 // taken by the host of a virtual machine for others, while something here wanted to run
	All    uint64
}

// Machine returns the times of this machine.
func Machine() (Times, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Times{}, err
	}
	return parseTimes(string(stat))
}

// parseTimes reads the first line of /proc/stat (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, and guest times, which are in
// user's already.
func parseTimes(stat string) (Times, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const idle, iowait, steal, guest = 4, 5, 8, 9
	if len(fields) < guest || fields[0] != "cpu" {
		return Times{}, errors.New("/proc/stat: it does not begin with the time of all processors")
	}
	var t Times
	for i, f := range fields[1:guest] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return Times{}, errors.New("/proc/stat: " + err.Error())
		}
		t.All += n
		switch i + 1 {
		case idle, iowait:
			t.Idle += n
		case steal:
			t.Stolen = n
		}
	}
	return t, nil
}

// Busy is the share of the time since before that was not idle, 0 to 1.
func (t Times) Busy(before Times) float64 {
	if t.All <= before.All {
		return 0 // no tick has passed
	}
	return 1 - min(1, float64(t.Idle-before.Idle)/float64(t.All-before.All))
}

// StolenSince is the share of the time since before that was stolen, 0 to 1.
func (t Times) StolenSince(before Times) float64 {
	if t.All <= before.All {
		return 0
	}
	return float64(t.Stolen-before.Stolen) / float64(t.All-before.All)
}
