package netmap

// The tree of hashes over the reporters. A reporter's place is 16 bits of a hash of its
// name; a node is the first depth quarters of a place, and its sum that of the hashes of
// the reporters under it. Two maps that hold the same versions have the same sums, and
// where they differ, the differences are found by walking down: O(differences · log n)
// instead of a number for each reporter (a Merkle tree, as in DeCandia et al., "Dynamo",
// SOSP 2007, section 4.7; here with sums, so that no tree has to be kept up to date).
const (
	fanout   = 16
	quarter  = 4 // bits of a place that one step down takes
	maxDepth = 4
	// leafSize is up to how many reporters a node is answered by their versions.
	leafSize = 6
)

// A node is a place in the tree: the first depth quarters of prefix count.
type node struct {
	depth  uint8
	prefix uint16
}

// child returns the node under n that holds the places with the next quarter i.
func (n node) child(i int) node {
	return node{n.depth + 1, n.prefix | uint16(i)<<(16-quarter*(n.depth+1))}
}

// slot returns which child of n holds place.
func (n node) slot(place uint16) int {
	return int(place>>(16-quarter*(n.depth+1))) & (fanout - 1)
}

// under lists the reports under each of nodes, none of which holds another, in no order.
func (m *Map) under(nodes []node) [][]*report {
	out := make([][]*report, len(nodes))
	at := make(map[node]int, len(nodes))
	var depths [maxDepth + 1]bool
	for i, n := range nodes {
		at[n] = i
		depths[n.depth] = true
	}
	for _, r := range m.reports {
		for d, used := range depths {
			if !used {
				continue
			}
			n := node{depth: uint8(d)}
			if d > 0 {
				n.prefix = r.place &^ (1<<(16-quarter*d) - 1)
			}
			if i, ok := at[n]; ok {
				out[i] = append(out[i], r)
				break
			}
		}
	}
	return out
}

// sums returns the sums of n's children, cut to 32 bits: a difference that is missed, once in
// four thousand million, is found when a version changes.
func (n node) sums(reports []*report) (out [fanout]uint32) {
	var whole [fanout]uint64
	for _, r := range reports {
		whole[n.slot(r.place)] += r.hash()
	}
	for i, s := range whole {
		out[i] = uint32(s >> 32)
	}
	return out
}
