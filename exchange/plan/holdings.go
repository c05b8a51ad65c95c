package plan

import (
	"fmt"
	"slices"
)

// holdings say which transfer brings which block to which host. They are sparse:
// dense they would be n³ for an alltoall.
type holdings map[uint64]delivery

// A delivery is a transfer and the place of the block in its Blocks.
type delivery struct{ transfer, place int32 }

// holdKey packs block and host. Up to 16,384 hosts and as many pieces of a block find room: more than
// maxHosts and maxPieces, for plans that have not passed Check.
func holdKey(b Block, host int) uint64 {
	return uint64(b.Piece)<<43 | uint64(b.Origin)<<29 | uint64(b.Dest+1)<<14 | uint64(host)
}

// deliverer returns the transfer that brings b to host. A host that holds b from the
// start needs none; ask [starts] first.
func (h holdings) deliverer(b Block, host int) (int, bool) {
	d, ok := h[holdKey(b, host)]
	return int(d.transfer), ok
}

// starts reports whether host holds b from the start.
func starts(b Block, host int) bool { return b.Origin == host }

// deliver notes all deliveries of p and refuses a second one.
func deliver(p *Plan) (holdings, error) {
	total := 0
	for i := range p.Transfers {
		total += len(p.Transfers[i].Blocks)
	}
	held := make(holdings, total)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		for place, b := range t.Blocks {
			if starts(b, t.Dst) {
				return nil, violated(NoDuplicate, []int{i}, "brings block %s back to %s, where it comes from", p.name(b), p.Hosts[t.Dst])
			}
			key := holdKey(b, t.Dst)
			if first, ok := held[key]; ok {
				transfers := []int{int(first.transfer), i}
				return nil, violated(NoDuplicate, slices.Compact(transfers), "block %s reaches %s twice", p.name(b), p.Hosts[t.Dst])
			}
			held[key] = delivery{int32(i), int32(place)}
		}
	}
	return held, nil
}

// name names a block for people: "of a", "a→b", and of a piece "of a[1]".
func (p *Plan) name(b Block) string {
	piece := ""
	if b.Piece > 0 || p.Pieces(b) > 1 {
		piece = fmt.Sprintf("[%d]", b.Piece)
	}
	if b.Dest == All {
		return fmt.Sprintf("of %s%s", p.Hosts[b.Origin], piece)
	}
	return fmt.Sprintf("%s→%s%s", p.Hosts[b.Origin], p.Hosts[b.Dest], piece)
}

// checkComplete: in an allgather every host ends with every block, in an alltoall the
// block s→d ends at d, with all of its pieces. Blocks of no bytes may be absent: there is nothing to move.
func checkComplete(p *Plan, held holdings) error {
	for host := range p.Hosts {
		for origin := range p.Hosts {
			b := Block{Origin: origin, Dest: All}
			if p.Collective == Alltoall {
				b.Dest = host
			}
			if starts(b, host) || p.Whole(b) == 0 {
				continue
			}
			for b.Piece = range p.Pieces(b) {
				if _, ok := held.deliverer(b, host); !ok {
					return violated(Complete, nil, "block %s never reaches %s", p.name(b), p.Hosts[host])
				}
			}
		}
	}
	return nil
}

// checkPools: a block, or each piece of one, enters a pool once at most, and never the pool that it starts
// in. Together with completeness that is exactly once wherever it is wanted: the
// wide-area optimality of Gupta & Vadhiyar, HPDC 2007, §5.1.
func checkPools(p *Plan, pools [][]int) error {
	inside := make([]bool, len(p.Hosts))
	entered := make(map[uint64]int32)
	for k, pool := range pools {
		clear(inside)
		clear(entered)
		for _, h := range pool {
			if h < 0 || h >= len(inside) {
				return fmt.Errorf("verify: pool %d holds host %d, which is none of the %d hosts", k, h, len(inside))
			}
			inside[h] = true
		}
		for i := range p.Transfers {
			t := &p.Transfers[i]
			if inside[t.Src] || !inside[t.Dst] {
				continue
			}
			for _, b := range t.Blocks {
				if inside[b.Origin] {
					return violated(OncePerPool, []int{i}, "block %s comes back into pool %d, where it started", p.name(b), k)
				}
				key := holdKey(b, 0)
				if first, ok := entered[key]; ok {
					return violated(OncePerPool, []int{int(first), i}, "block %s enters pool %d twice", p.name(b), k)
				}
				entered[key] = int32(i)
			}
		}
	}
	return nil
}
