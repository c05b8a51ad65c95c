// Package logp is the parametrised LogP model of a path: what a message of m bytes
// costs its sender, its receiver, and the wire between them.
//
// A [Model] holds three functions of the size, each given by a few points and linear
// between them:
//
//   - os(m), [Point.Send]: how long the sender is busy with it;
//   - or(m), [Point.Receive]: how long the receiver is busy with one that has arrived;
//   - g(m), [Point.Gap]: the least time between the starts of two messages. For large m
//     it tends to m/bandwidth.
//
// None of them falls as the size grows. Latency, the fourth of LogP's parameters, is in
// the network map already, and P is the number of hosts.
//
// The package is pure: it measures nothing. [NextSize] says which size to measure next,
// [New] turns readings into a model, [Model.Simplify] keeps the points that matter, and
// the forms of a model are a few bytes ([Model.AppendBinary]) for the rows of the map
// and JSON for files.
//
// Place in the flow: beside netmap, which carries models; probe measures them.
//
// Source: Kielmann, Bal and Verstoep, "Fast Measurement of LogP Parameters for Message
// Passing Platforms" (IPDPS 2000 workshops); os(m) and g(m) as Gupta & Vadhiyar (HPDC
// 2007), section 4, use them. Isotonic regression after Barlow, Bartholomew, Bremner and
// Brunk, "Statistical Inference under Order Restrictions" (1972), pool adjacent violators.
package logp
