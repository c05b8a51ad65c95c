// Package wan schedules an alltoall across sites so that the links between them are busy from
// the start to the end.
//
// [Alltoall] takes the flow model of the network and its bounds ([plan.Network.AlltoallBounds])
// and returns a plan. What pools have for each other follows the routing of the relayed bound,
// block by block: straight, or by way of hosts of other pools where that is quicker. What stays
// in a pool follows plans made elsewhere (phases on a switch tree, shuffles), which run beside.
//
// Place in the flow: snapshot, clusters → plan.Network, bounds → wan → planner, engine. The
// package is pure.
//
// # Bridges
//
// Over each link a few pairs of hosts carry everything, for as long as there is anything: a block goes from its
// origin over a bridge, and from its far end to where it is wanted. The engine then
// has few connections that go on, whose windows have found their rate, and no host waits for news of another. Blocks are
// cut into pieces where a path or a bridge has got its share, so that all bridges of a link
// end together. Links that are nearly as full as the fullest one are relieved, where others have room: what they lose
// to chance is then not felt at the end. Short pieces that follow one another over a bridge are one transfer.
//
//	lone.go     what hosts may relay whose ports nobody knows
//	balance.go  which links and ports are relieved
//	hasten.go   which ways are too long for what they spare
//	bridges.go  which pairs of hosts carry a link
//	pour.go     which piece of which block takes which path and bridge
//	stream.go   what that comes to, and the transfers
//	rest.go     which of them a link passes first
//	local.go    what stays in a pool
//
// # Turns
//
// Where hosts would forward more than they may, or their ports would hold up the links for longer, each block goes by itself, and
// blocks take turns on a link:
//
//	route.go  which block takes which path, and over which hosts of the pools on its way
//	order.go  in which order the blocks of a link cross it
//	lanes.go  how many cross at a time, and which of them wait for which
//
// # What an edge means here
//
// After holds the transfer that brings the block to its relay (data), and where blocks take turns the transfer before
// it on the same lane of the link. A lane is one of the transfers that a link carries at a
// time: the next one starts when the data of the one before have left its source
// ([plan.SyncSender]). Both start in the same pool, so the news is quick, and what is still
// under way bridges it. Phase is -1: a link between sites carries several transfers at a time.
//
// # Sources
//
// The routing is the maximum concurrent flow of Shahrokhi & Matula (Journal of the ACM 37,
// 1990). That blocks with the longest way to go cross a link first, and turns of sources and
// destinations, are what keeps the links after it busy: the lower bound is met but for the
// first blocks of relayed flows (the same argument as for packets in Leighton, Maggs & Rao,
// Combinatorica 14, 1994, with fluid links). How many transfers run at a time is measured: too
// few do not fill a link whose flows are held by loss or windows, and all at once overflow its
// queue (64 flows at once over 1.25 Mbit/s lost thousands of packets).
package wan
