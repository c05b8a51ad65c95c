// Package probe measures the network between agents and keeps the network map true.
//
// It measures of each ordered host pair, at a price that is bounded:
//
//   - the round-trip time, from the statistics of the QUIC connection where traffic
//     flows and from a few small pings where nothing does ([rttFilter]); the one-way
//     latency in the map is half of it, which is an assumption and not a measurement;
//   - the rate of the narrowest link, from short trains of raw packets beside QUIC on the
//     same socket, timed by the receiver ([readTrain]);
//   - what one flow gets in the steady state, and between sites what several get
//     together, with real lanes under real congestion control ([Prober.bulk]), and roughly,
//     seconds after the start, what several get at least (glance.go);
//   - what a message of each size costs both hosts and the wire, one pair for each class
//     of pairs ([Prober.logp]).
//
// Whose turn it is, without a master: a tournament, computed by every host from the
// membership and the number of the round ([roster]). A round is a second; in it a host meets at
// most one other of its own site, and then at most one of another; a directed link between
// two sites has at most one turn. Of large sites a sample of pairs takes part, which changes
// slowly, so that what a host does is the same with 100 hosts and with 1,000. Where views of the
// membership or clocks differ, the tournament is wrong for a while and refusals keep order: a
// host takes part in one session at a time (its slot), and the link between two sites
// carries one probe a direction (a lease from the source site's keeper, which also keeps the
// link's [budget]). What an estimate looks wrong about is measured outside the tournament
// within a second or two ([Prober.Suspect]).
//
// Which probe a turn is spent on: never measured before measured, then by how old, how
// uncertain and how important an estimate is ([choose]). Links between sites are watched by short
// trains as often as a share of their rate allows, every 10 to 12 s at 1.2 Mbit/s and every 3 s from
// 5 Mbit/s on; when one has changed, the hosts that have not seen it go first. Nothing starts
// while an exchange runs on either host, or between a host of the site and other sites, and
// what runs ends at once; only second opinions go on, a few short trains a link in 10 s. Then the hosts
// of a site add up what arrives from another one, which shows a link that falls ([load]).
//
// The price: at most 1 % of a link between sites in the long run, of all that is sent while nobody uses
// the grid, and an hourly cap for each host ([Config.Share], [Config.HourlyCap], [Prober.Cost]).
//
// The estimator, the filters, the tournament, the choice and the budget are pure; [Prober]
// joins them to a network edge that is handed in.
//
// Place in the flow: first. It reads lanes' statistics, is told what exchanges got
// ([Prober.Observe]), and writes estimates to the map (netmap); pools and the schedulers
// read the map and never this package. Stage by stage: docs/design/measuring.md.
//
// Sources: packet trains after Dovrolis, Ramanathan and Moore, "What do packet
// dispersion techniques measure?" (INFOCOM 2001); long-lag median slopes after Theil
// and Sen; one token per shared resource after the cliques of the Network Weather
// Service (Wolski, Spring and Hayes, 1999); the edge colouring of complete graphs after Gross and
// Yellen, as Tam and Wang use it; parametrised LogP after Kielmann, Bal and Verstoep (2000).
package probe
