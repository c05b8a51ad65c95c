// Package gantt draws a timed plan as a picture: when each host sends and receives, when
// each link between pools is in use, and how many transfers use those links at one time.
//
// [WriteSVG] writes one of two views of a [Chart]. [GanttView] has a row for every host,
// its sends above its receives, and a row for every ordered pair of pools (a WAN link)
// that carries data, with the transfers of one moment on top of each other.
// [ConcurrencyView] shows the number of simultaneous WAN transfers over time, as Figure 9
// of Gupta & Vadhiyar (HPDC 2007) does, in all and link by link; [Chart.WAN] gives the
// numbers behind it. The paper observed starts and ends of real runs; here they are the
// plan's own, a simulation's, or those of a run, whatever the caller puts in.
//
// The picture is SVG 1.1 without scripts, fonts or other files of its own. It stays under
// 5 MB and under a few thousand pixels of height, whatever the plan: what is too much is
// drawn together or left out, and the picture says so. Equal charts give equal bytes.
//
// Place in the flow: behind exchange/plan, in front of the command. It is pure and
// imports the standard library only.
package gantt
