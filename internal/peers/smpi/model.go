package smpi

import "fmt"

// A Model is a set of SimGrid's settings; see the package documentation.
type Model string

// The models. Even shares links as plan.Simulate does; TCP is SimGrid's own idea of TCP.
const (
	Even Model = "even"
	TCP  Model = "tcp"
)

// ParseModel returns the model of that name.
func ParseModel(name string) (Model, error) {
	switch m := Model(name); m {
	case Even, TCP:
		return m, nil
	}
	return "", fmt.Errorf("model %q: want %s or %s", name, Even, TCP)
}

// settings returns the arguments of smpirun that select m.
func (m Model) settings() []string {
	flags := []string{
		"--log=root.threshold:error", // else every setting is a line
		// Computation is not simulated, and asking for the time takes none.
		"--cfg=smpi/simulate-computation:no",
		"--cfg=smpi/host-speed:1Gf",
		"--cfg=smpi/wtime:0",
		// MPI_Waitsome, in which the routines of mpic wait, tests every request that is open, and each
		// test would take 100 µs at first and longer with every one that fails.
		"--cfg=smpi/test:0",
		"--cfg=smpi/grow-injected-times:no",
		// The default is lazy and recomputes the shares of what has changed alone. In 3.32 it loses
		// flows: five that begin together on a link with nine others each get all of it
		// (alltoall of 64 KiB by group-shuffle on paper-3site.yaml: 30.00 s instead of 30.24 s).
		"--cfg=network/optim:Full",
	}
	if m == TCP {
		// smpirun's own default is the model "SMPI", whose factors by size were fitted to
		// Gigabit Ethernet in one cluster; LV08 is the one for grids.
		return append(flags, "--cfg=network/model:LV08")
	}
	return append(flags,
		"--cfg=network/model:CM02",
		"--cfg=network/latency-factor:1",
		"--cfg=network/bandwidth-factor:1",
		"--cfg=network/crosstraffic:0",
		"--cfg=network/TCP-gamma:1e15", // a window that limits nothing
		// S in bytes: S over the rate of a link weighs as much as that many seconds of latency, so
		// that on links of up to 1 GB/s latencies of 0.1 s are a tenth of the weight at most.
		"--cfg=network/weight-S:1e9",
		// A send is complete when the message has arrived. Above these thresholds SimGrid has
		// sends that are complete at once, and then all that a host sends to another
		// shares the link instead of following one after the other.
		"--cfg=smpi/async-small-thresh:0",
		"--cfg=smpi/send-is-detached-thresh:0",
	)
}
