package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A Line is a row of the table with what was measured beside its bound.
type Line struct {
	Row      Row
	What     string
	Bound    string
	Measured string
	OK       bool
	Seeds    []uint64
	Detail   Detail
}

// A Detail is the table under a line: a row of cells for each reading.
type Detail struct {
	Head []string
	Rows [][]string
	Note string
}

// goodput is the share of a link's IP bytes that one QUIC flow delivers to its user: 1,248 of 1,308, see probe/train.go.
const goodput = 1248.0 / 1308

// judge makes the lines of all rows of which there are readings, in the order of the table.
func judge(readings []Reading) []Line {
	var lines []Line
	for _, row := range order {
		var of []Reading
		for _, r := range readings {
			if r.Cell.Row == row || row == RoundTrip && r.Cell.Row == Flow {
				of = append(of, r)
			}
		}
		if len(of) == 0 {
			continue
		}
		l := map[Row]func([]Reading) Line{
			Flow: judgeFlow, RoundTrip: judgeRoundTrip, Capacity: judgeCapacity, Bytes: judgeBytes,
			FallIdle: judgeFall, FallBusy: judgeFall, Wobble: judgeWobble, Cost: judgeCost, Random: judgeRandom,
		}[row](of)
		l.Row = row
		for _, r := range of {
			if !slices.Contains(l.Seeds, r.Cell.Seed) {
				l.Seeds = append(l.Seeds, r.Cell.Seed)
			}
			if r.Failed != "" {
				l.OK = false
				l.Measured += fmt.Sprintf("; %v failed: %s", r.Cell, r.Failed)
			}
		}
		slices.Sort(l.Seeds)
		lines = append(lines, l)
	}
	return lines
}

// errorsOf returns got/want − 1 of each value.
func errorsOf(got []float64, want float64) []float64 {
	var out []float64
	for _, v := range got {
		out = append(out, v/want-1)
	}
	return out
}

// absolute returns the sorted absolute values.
func absolute(v []float64) []float64 {
	out := slices.Clone(v)
	for i := range out {
		out[i] = math.Abs(out[i])
	}
	slices.Sort(out)
	return out
}

// median of any order; NaN of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// worst is the value that is farthest from 0; NaN of nothing.
func worst(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return slices.MaxFunc(v, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) })
}

// one returns the only value of a name, NaN if there is none.
func (r *Reading) one(name string) float64 {
	if len(r.Got[name]) == 0 {
		return math.NaN()
	}
	return r.Got[name][0]
}

func percent(share float64) string    { return fmt.Sprintf("%.1f %%", 100*share) }
func signed(share float64) string     { return fmt.Sprintf("%+.1f %%", 100*share) }
func mbps(bytesPerSec float64) string { return fmt.Sprintf("%.4g", bytesPerSec*8/1e6) }
func seconds(s float64) string        { return fmt.Sprintf("%.3g s", s) }
func within(s float64, c Cell) string {
	if s >= c.For.Seconds() {
		return fmt.Sprintf("over %v", c.For)
	}
	return seconds(s)
}

func judgeFlow(of []Reading) Line {
	l := Line{What: "one-flow bandwidth error, median / worst", Bound: "5 % / 15 %"}
	l.Detail.Head = []string{"link Mbit/s", "round trip", "loss", "cross", "one flow really gets, Mbit/s", "error after 30 s, median / worst", "later, median / worst", "after", "there / back, median", "pairs measured"}
	l.Detail.Note = "An error is of one ordered pair of hosts, as a third host has it in its map. The truth is one QUIC lane with the world to itself, after slow start. Cross traffic is packets of 1,500 bytes at random (Poisson) times, in both directions, that slow down for nobody."
	var late []float64
	for _, r := range of {
		w := r.Cell.World
		e30, e := errorsOf(r.Got["early"], r.one("truth")), errorsOf(r.Got["late"], r.one("truth"))
		late = append(late, e...)
		l.Detail.Rows = append(l.Detail.Rows, []string{
			fmt.Sprintf("%g", w.Mbps), w.RTT.String(), fmt.Sprintf("%g %%", 100*w.Loss), fmt.Sprintf("%g %%", 100*w.Cross), mbps(r.one("truth")),
			signed(median(e30)) + " / " + signed(worst(e30)), signed(median(e)) + " / " + signed(worst(e)), r.Cell.Idle.String(),
			signed(median(e[:len(e)/2])) + " / " + signed(median(e[len(e)/2:])),
			fmt.Sprintf("%g of %d", r.one("late own"), len(e)),
		})
	}
	mid, far := median(absolute(late)), worst(absolute(late))
	l.Measured = percent(mid) + " / " + percent(far)
	l.OK = mid <= 0.05 && far <= 0.15
	return l
}

func judgeRoundTrip(of []Reading) Line {
	l := Line{What: "round-trip time error", Bound: "1 ms or 2 %", OK: true}
	l.Detail.Head = []string{"link Mbit/s", "round trip", "loss", "cross", "worst error"}
	l.Detail.Note = "The truth is the time of the path alone: no queue, and packets of no length. So what a ping's own packets take on a slow link counts as error."
	worstOver := 0.0
	for _, r := range of {
		w := r.Cell.World
		var e []float64
		for _, v := range r.Got["rtt"] {
			e = append(e, v-w.RTT.Seconds())
		}
		far := worst(e)
		allowed := max(0.001, 0.02*w.RTT.Seconds())
		if !(math.Abs(far) <= allowed) {
			l.OK = false
		}
		if over := math.Abs(far) / allowed; over >= worstOver || math.IsNaN(over) {
			worstOver = over
			l.Measured = fmt.Sprintf("%+.2f ms of %v", 1000*far, w.RTT)
		}
		l.Detail.Rows = append(l.Detail.Rows, []string{fmt.Sprintf("%g", w.Mbps), w.RTT.String(), fmt.Sprintf("%g %%", 100*w.Loss), fmt.Sprintf("%g %%", 100*w.Cross), fmt.Sprintf("%+.3f ms", 1000*far)})
	}
	return l
}

func judgeCapacity(of []Reading) Line {
	l := Line{What: "capacity error where one flow is held to 1/8; knee", Bound: "10 %; factor 2"}
	l.Detail.Head = []string{"link Mbit/s", "one flow is held by", "one flow really gets", "lanes that get 95 %", "capacity in the map, median / worst error", "lanes in the map, least … most"}
	l.Detail.Note = "The link can carry 0.954 of its IP bytes as user bytes, less what is lost. The lanes that get 95 % of that were counted with real lanes from hosts of their own."
	var e, k []float64
	for _, r := range of {
		w := r.Cell.World
		here, lanes := errorsOf(r.Got["capacity"], r.one("truth")), errorsOf(r.Got["lanes"], r.one("knee"))
		e, k = append(e, here...), append(k, lanes...)
		by := "loss of " + fmt.Sprintf("%g %%", 100*w.Loss)
		if w.FlowMbps > 0 {
			by = fmt.Sprintf("the network, to %g", w.FlowMbps)
		}
		row := []string{fmt.Sprintf("%g", w.Mbps), by, mbps(r.one("one")), fmt.Sprintf("%g", r.one("knee")), signed(median(here)) + " / " + signed(worst(here)), "none"}
		if n := r.Got["lanes"]; len(n) > 0 {
			row[5] = fmt.Sprintf("%g … %g", slices.Min(n), slices.Max(n))
		}
		l.Detail.Rows = append(l.Detail.Rows, row)
	}
	far := worst(absolute(e))
	l.OK = far <= 0.1
	l.Measured = percent(far)
	if len(k) == 0 {
		l.OK = false
	} else {
		l.Measured += fmt.Sprintf("; %.2g … %.2g of the true knee", 1+slices.Min(k), 1+slices.Max(k))
		l.OK = l.OK && slices.Min(k) >= -0.5 && slices.Max(k) <= 1
	}
	return l
}

func judgeBytes(of []Reading) Line {
	l := Line{What: "probe bytes, idle, worst WAN link", Bound: "1 % of each WAN link"}
	l.Detail.Head = []string{"grid", "over", "links", "probe datagrams", "lanes of probes", "gossip datagrams", "QUIC of lane 0", "all that idle agents send"}
	l.Detail.Note = "The grid paper-3site has 20 hosts. Shares of what each link can carry, counted where packets leave its bottleneck; least … most of its WAN links. QUIC of lane 0 holds pings and the talk around probes, rows of the map, gossip streams and keep-alives, which the emulator cannot tell apart."
	var probes, all []float64
	for _, r := range of {
		for i := range r.Got["probe"] {
			probes = append(probes, r.Got["probe"][i]+r.Got["other sockets"][i])
		}
		all = append(all, r.Got["all"]...)
		row := []string{r.Cell.Grid, r.Cell.For.String(), fmt.Sprint(len(r.Got["all"]))}
		for _, what := range []string{"probe", "other sockets", "gossip", "quic", "all"} {
			cell := "none"
			if v := r.Got[what]; len(v) > 0 {
				cell = fmt.Sprintf("%.2f … %.2f %%", 100*slices.Min(v), 100*slices.Max(v))
			}
			row = append(row, cell)
		}
		l.Detail.Rows = append(l.Detail.Rows, row)
	}
	far := worst(probes)
	l.OK = far <= 0.01
	l.Measured = fmt.Sprintf("%.2f %% (all that idle agents send: %.2f %%)", 100*far, 100*worst(all))
	return l
}

func judgeFall(of []Reading) Line {
	bound := 30 * time.Second
	l := Line{What: "a WAN link falls to 1/4, idle: map / pool tree of a third site tell", OK: true}
	if of[0].Cell.Row == FallBusy {
		bound, l.What = 5*time.Second, "a WAN link falls to 1/4 during an exchange: map / pool tree of a third site tell"
	}
	l.Bound = bound.String()
	l.Detail.Head = []string{"grid", "seed", "one pair within 15 %", "half of the pairs", "all pairs", "pool tree"}
	l.Detail.Note = "Seconds after the fall, read from the agent of a host at a third site four times a second. The pairs are all of hosts on both sides of the link, in both directions; those that were not measured count as the agents predict them."
	if of[0].Cell.Row == FallBusy {
		l.Detail.Head = append(l.Detail.Head, "the exchange ended after")
	}
	var byMap, byTree []float64
	for _, r := range of {
		row := []string{r.Cell.Grid, fmt.Sprint(r.Cell.Seed)}
		for _, what := range []string{"first", "median", "map", "tree"} {
			row = append(row, within(r.one(what), r.Cell))
		}
		if r.Cell.Row == FallBusy {
			row = append(row, seconds(r.one("exchange")))
		}
		l.Detail.Rows = append(l.Detail.Rows, row)
		byMap, byTree = append(byMap, r.one("map")), append(byTree, r.one("tree"))
		l.OK = l.OK && r.one("map") <= bound.Seconds() && r.one("tree") <= bound.Seconds()
	}
	show := func(v []float64) string {
		s := seconds(worst(v))
		for _, r := range of {
			if worst(v) >= r.Cell.For.Seconds() {
				return "over " + s
			}
		}
		return s
	}
	l.Measured = show(byMap) + " / " + show(byTree)
	return l
}

func judgeWobble(of []Reading) Line {
	l := Line{What: "a 10 % wobble of every link and port: new pool trees", Bound: "0 in an hour", OK: true}
	l.Detail.Head = []string{"grid", "seed", "time", "new shapes", "new epochs"}
	l.Detail.Note = "Every ten seconds each link and each port gets another rate, by a factor of 0.9 to 1.1 at random."
	shapes, epochs := 0.0, 0.0
	for _, r := range of {
		shapes, epochs = shapes+r.one("shapes"), epochs+r.one("epochs")
		l.OK = l.OK && r.one("shapes") == 0 && r.one("epochs") == 0
		l.Detail.Rows = append(l.Detail.Rows, []string{r.Cell.Grid, fmt.Sprint(r.Cell.Seed), r.Cell.For.String(), fmt.Sprintf("%g", r.one("shapes")), fmt.Sprintf("%g", r.one("epochs"))})
	}
	l.Measured = fmt.Sprintf("%g shapes, %g epochs", shapes, epochs)
	return l
}

func judgeCost(of []Reading) Line {
	l := Line{What: "what probes cost an exchange", Bound: "1 %"}
	l.Detail.Head = []string{"grid", "seed", "exchanges", "mean with probes", "mean without", "cost"}
	l.Detail.Note = "The same allgathers one after the other with the same seed, with agents that probe and with agents whose probers stop when the first begins. The error is that of the mean of the differences."
	var cost []float64
	for _, r := range of {
		on, off := r.Got["on"], r.Got["off"]
		n := min(len(on), len(off))
		for i := range n {
			cost = append(cost, on[i]/off[i]-1)
		}
		m, _ := meanError(cost[len(cost)-n:])
		a, _ := meanError(on)
		b, _ := meanError(off)
		l.Detail.Rows = append(l.Detail.Rows, []string{r.Cell.Grid, fmt.Sprint(r.Cell.Seed), fmt.Sprint(n), seconds(a), seconds(b), signed(m)})
	}
	m, e := meanError(cost)
	l.Measured = fmt.Sprintf("%+.2f ± %.2f %%", 100*m, 100*e)
	l.OK = m <= 0.01
	return l
}

// meanError returns the mean and its standard error; NaN where there are too few values.
func meanError(v []float64) (mean, err float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	if len(v) == 0 {
		mean = math.NaN()
	}
	for _, x := range v {
		err += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(err / float64(len(v)-1) / float64(len(v)))
}
