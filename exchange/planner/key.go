package planner

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Key names one operation among all: collective, hosts in order, sizes in bytes, algorithm and options.
// A plan is exact in its sizes, and those of others can share nothing with it: what a host sends
// on is counted in bytes, and pieces are cut at offsets. So the sizes of a key are exact, too.
type Key [sha256.Size]byte

// KeyOf returns the key of p over hosts, in rank order, and of what was asked for: an algorithm, or ""
// for the best. It reads no map.
func KeyOf(hosts []string, p *Problem, algorithm string) Key {
	buf := make([]byte, 0, 4096)
	text := func(s string) {
		buf = binary.AppendUvarint(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	text(string(p.collective()))
	text(algorithm)
	text(fmt.Sprintf("%+v", p.Options))
	buf = binary.AppendUvarint(buf, uint64(len(hosts)))
	for _, host := range hosts {
		text(host)
	}
	number := func(n int64) { buf = binary.AppendVarint(buf, n) }
	switch {
	case p.collective() == plan.Allgather:
		for _, n := range p.Sizes {
			number(n)
		}
	case p.Alltoall.Matrix == nil:
		number(p.Alltoall.Uniform)
	default:
		number(-1)
		for _, row := range p.Alltoall.Matrix {
			for _, n := range row {
				number(n)
			}
		}
	}
	return sha256.Sum256(buf)
}
