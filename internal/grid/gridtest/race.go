package gridtest

import "github.com/gridagent/gridagent/internal/gridnet/gridtest"

// Race reports whether the race detector is on: 20 agents then take twelve times the CPU.
const Race = gridtest.Race
