package lab

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// urgent has the kernel run this process before all that is not urgent, where this user may ask for that: packets between sites come when they
// are due, or the lab is another grid than the file says. A thread that waits behind others' time slices hands packets over some milliseconds late: beside
// five builds on two cores 44 % of them came more than 1 ms late, with this none in a thousand. nice does not do: kernels with
// autogroups weigh it within one session only. Threads that are started later inherit it.
func urgent() error {
	done := make(map[int]bool)
	for fresh := true; fresh; { // one that has just been started by a thread that was not urgent
		fresh = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[id] {
				continue
			}
			err = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
			if err != nil && err != unix.ESRCH { // a thread that has ended
				return fmt.Errorf("real-time scheduling: %w", err)
			}
			done[id], fresh = true, true
		}
	}
	return nil
}
