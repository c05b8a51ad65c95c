package baseline

// binomial broadcasts all that ranks[0] holds to the others, who miss some of it or
// nothing. Position v hears from v without its lowest set bit, and sends to v+2^k for every
// smaller bit 2^k, the largest (the root of the largest subtree) first.
//
// A host has one send under way at a time, and begins after what it did before: the
// broadcast is one more loop of blocking calls.
func binomial(b *builder, ranks []int) {
	top := 1
	for top < len(ranks) {
		top *= 2
	}
	// By falling bit every sender has received before it sends.
	for bit := top / 2; bit > 0; bit /= 2 {
		for v := 0; v+bit < len(ranks); v += 2 * bit {
			src, dst := ranks[v], ranks[v+bit]
			if origins := b.missing(dst, b.holds(src)); len(origins) > 0 {
				id := b.add(src, dst, origins, b.last[src]...)
				b.last[src] = []int{id}
				b.last[dst] = append(b.last[dst], id)
			}
		}
	}
}

// binomialTree returns the parent of each of n ranks in the tree that [binomial] walks,
// turned so that root is its root; −1 for root itself.
func binomialTree(n, root int) []int32 {
	parent := make([]int32, n)
	for v := range n {
		parent[(root+v)%n] = int32((root + v&(v-1)) % n)
	}
	parent[root] = -1
	return parent
}
