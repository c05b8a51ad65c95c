package plan

import "fmt"

// AlltoallSizes are the block sizes of an alltoall: one for all blocks, or the matrix
// of an alltoallv.
type AlltoallSizes struct {
	Uniform int64     // bytes of every block; not read where Matrix is set
	Matrix  [][]int64 // N×N bytes, row = origin; the diagonal is not read; nil: Uniform
}

// Of returns the bytes of the block from origin to dest.
func (s AlltoallSizes) Of(origin, dest int) int64 {
	if s.Matrix != nil {
		return s.Matrix[origin][dest]
	}
	return s.Uniform
}

// NewAlltoall returns an alltoall plan over hosts without transfers, or an error if a
// size is out of range or the matrix is not N×N. Blocks of no bytes are blocks: a
// schedule may deliver them or leave them out. The plan shares the matrix with sizes.
func NewAlltoall(algorithm string, hosts []string, sizes AlltoallSizes) (*Plan, error) {
	p := &Plan{Collective: Alltoall, Algorithm: algorithm, Hosts: hosts, Transfers: []Transfer{}}
	if sizes.Matrix == nil {
		p.MessageBytes = sizes.Uniform
	} else {
		p.Matrix = sizes.Matrix
	}
	if err := p.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", algorithm, err)
	}
	return p, nil
}

// Among returns the sizes of the alltoall among some of the hosts, in their order.
func (s AlltoallSizes) Among(hosts []int) AlltoallSizes {
	if s.Matrix == nil {
		return s
	}
	m := make([][]int64, len(hosts))
	for i, a := range hosts {
		m[i] = make([]int64, len(hosts))
		for j, b := range hosts {
			if i != j {
				m[i][j] = s.Matrix[a][b]
			}
		}
	}
	return AlltoallSizes{Matrix: m}
}
