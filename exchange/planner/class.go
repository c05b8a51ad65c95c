package planner

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A Class is what operations must have in common for one to tell of the other: the collective, the sites
// that its hosts stand in, how many hosts there are and how large their blocks, each to a factor.
type Class struct {
	Collective plan.Collective `json:"collective"`
	Sites      string          `json:"sites"` // labels, sorted, with + between; of many the first
	Hosts      int             `json:"hosts"` // 2^Hosts is the first power of two above the number of hosts
	Size       int             `json:"size"`  // 4^Size is the first power of four above the mean bytes of a block; 0 for none
}

// maxSites bounds the name of a class, in bytes.
const maxSites = 128

// A Spot is where an operation stands among its like: its class, and where in the class its size is.
type Spot struct {
	Class
	Within float64 // from 0 to 1, on a logarithmic scale; one half where there are no bytes
}

// SpotOf returns that of p, whose Snapshot is set.
func SpotOf(p *Problem) Spot {
	var sites []string
	for _, h := range p.Snapshot.Hosts() {
		sites = append(sites, h.Site)
	}
	slices.Sort(sites)
	name := strings.ToValidUTF8(strings.Join(slices.Compact(sites), "+"), "?")
	for len(name) > maxSites {
		name = strings.ToValidUTF8(name[:maxSites], "")
	}
	n := p.Snapshot.N()
	var total, blocks float64
	if p.collective() == plan.Allgather {
		for _, size := range p.Sizes {
			total += float64(size)
		}
		blocks = float64(n)
	} else {
		blocks = float64(n * (n - 1))
		for i := range n {
			for j := range n {
				if i != j {
					total += float64(p.Alltoall.Of(i, j))
				}
			}
		}
	}
	mean := uint64(0)
	if blocks > 0 {
		mean = uint64(min(total/blocks, 1<<60))
	}
	s := Spot{Class{Collective: p.collective(), Sites: name, Hosts: bits.Len(uint(n)), Size: (bits.Len64(mean) + 1) / 2}, 0.5}
	if mean > 0 {
		s.Within = math.Log2(float64(mean))/2 - float64(s.Size-1)
	}
	return s
}

// Range returns the least and the largest number of hosts of the class, and bytes of a block.
func (c Class) Range() (fewest, most int, least, largest uint64) {
	if c.Hosts > 0 {
		fewest, most = 1<<(c.Hosts-1), 1<<c.Hosts-1
	}
	if c.Size > 0 {
		least, largest = 1<<(2*c.Size-2), 1<<(2*c.Size)-1
	}
	return fewest, most, least, largest
}

// check reports whether c can be a class.
func (c Class) check() bool {
	return (c.Collective == plan.Allgather || c.Collective == plan.Alltoall) &&
		len(c.Sites) <= maxSites && c.Hosts >= 0 && c.Hosts <= 16 && c.Size >= 0 && c.Size <= 31
}
