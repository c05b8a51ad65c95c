// Package packed schedules an allgather between sites in pieces that balance the links.
//
// [Allgather] takes a [plan.Network] and the block sizes and returns a [plan.Plan] in which
// every site sends its blocks along several trees over the sites, each tree the share that
// makes all links end together. No whole block has to fit a link: where a tree's share ends
// inside a block, the block is cut ([plan.Cut]).
//
// That the cut bound can be reached at all is Edmonds' theorem on packing arborescences
// ("Edge-disjoint branchings", in: Combinatorial Algorithms, 1973; with several roots:
// Schrijver, Combinatorial Optimization, §53.7): over a time T the links carry a broadcast of
// w_s bytes from every site s if and only if T times the capacity into each set of sites is at least the
// bytes that start outside it. Which trees, and how much on each, is a linear program with
// a variable for every tree. It is solved by prices that grow exponentially with the load of a
// link: bytes are moved, a little at a time, to the tree that is cheapest by them, which is
// a minimum-cost arborescence (Plotkin, Shmoys & Tardos, Math. of OR 20, 1995; the oracle is
// Chu & Liu's and Edmonds'). The bound is known beforehand, so the search knows when to stop.
//
// Over each link about as many pairs of hosts send as it takes flows to fill it, and each host keeps to
// its own few, with alike amounts for each: eight flows that go on lose nothing where 32 that begin together overflow the queue of the link.
//
// Where the hosts of a site have blocks of very different sizes, they send alike amounts to other sites all the same: who has more gives pieces to its mates. They all begin together:
// what leaves by the host that has sent least of its own goes first.
//
// Inside a site a piece runs around a ring from the host where it starts or enters, or from the mate that sends it on. Relayed pieces go first, so that
// the last bytes of every link are ones that nobody waits to pass on. Over a link that takes several flows they leave a site by the host that has least to send there.
//
//	routes.go, arborescence.go  the trees, and how much goes on each
//	uncross.go                  relays that serve nobody
//	widths.go                   how many pairs of hosts carry a link
//	strands.go                  where blocks are cut
//	schedule.go                 over which hosts pieces go, and in which order
//	even.go                     over which pairs, once all are placed
//
// Place in the flow: beside min3, above package plan; the planner composes and compares. It
// is pure and deterministic.
package packed
