package smpi

import (
	"github.com/gridagent/gridagent/exchange/plan"
)

// A Record is one prediction of SimGrid's: all ranks begin together, and Seconds is when the last is done.
type Record struct {
	Tool       string          `json:"tool"` // always "simgrid"
	Version    string          `json:"version"`
	Model      Model           `json:"model"`
	Grid       string          `json:"grid"`
	Collective plan.Collective `json:"collective"`
	Algorithm  string          `json:"algorithm"` // SMPI's name, or that of the plan
	Plan       bool            `json:"plan"`      // a plan of ours was run, not SMPI's algorithm
	Bytes      int64           `json:"bytes"`     // of one block
	Seconds    float64         `json:"seconds"`
	Error      string          `json:"error,omitempty"` // why Seconds is 0
}

// Counterpart returns SMPI's name for the algorithm of the planner's table that does the same on
// so many ranks, transfer by transfer, and whether there is one.
//
// Two come close and are not there: SMPI's allgather "bruck" is ours mirrored, rank p sends to p−2^i
// and not to p+2^i, which is another matter where links are not symmetric; and off
// powers of two its "rdb" repeats transfers that ours does not.
func Counterpart(c plan.Collective, algorithm string, ranks int) (name string, ok bool) {
	power := ranks&(ranks-1) == 0
	switch c {
	case plan.Allgather:
		switch algorithm {
		case "ring":
			return "NTSLR", true
		case "spreading-simple":
			return "ring", true
		case "simple":
			return "spreading_simple", true
		case "neighbour-exchange":
			return "ompi_neighborexchange", ranks%2 == 0
		case "recursive-doubling":
			return "rdb", power
		}
	case plan.Alltoall:
		switch algorithm {
		case "shift":
			return "ring", true
		case "pairwise-mpich":
			if power {
				return "pair", true
			}
			return "ring", true
		case "simple", "spreading-simple":
			return "basic_linear", true
		case "bruck":
			return "bruck", true
		}
	}
	return "", false
}
