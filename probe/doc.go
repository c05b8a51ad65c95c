// Package probe measures the network between agents and keeps the network map true.
//
// It measures two things of each ordered host pair, at a price that is bounded:
//
//   - the round-trip time, from the statistics of the QUIC connection where traffic
//     flows and from a few small pings where nothing does ([rttFilter]); the one-way
//     latency in the map is half of it, which is an assumption and not a measurement;
//   - what one flow gets, from short trains of raw packets beside QUIC on the same
//     socket, timed by the receiver ([readTrain]).
//
// Whose turn it is, without a master: a host takes part in at most one train session
// at a time (its slot), and the link between two sites carries at most one train a
// direction (a lease from the source site's keeper, which also keeps the link's
// budget). Nothing starts while an exchange runs on either host.
//
// The estimator, the filters, the order of probes and the budget are pure; [Prober]
// joins them to a network edge that is handed in.
//
// Place in the flow: first. It reads lanes' statistics and writes estimates to the
// map (netmap); pools and the schedulers read the map and never this package.
//
// Sources: packet trains after Dovrolis, Ramanathan and Moore, "What do packet
// dispersion techniques measure?" (INFOCOM 2001); long-lag median slopes after Theil
// and Sen; one token per shared resource after the cliques of the Network Weather
// Service (Wolski, Spring and Hayes, 1999).
package probe
