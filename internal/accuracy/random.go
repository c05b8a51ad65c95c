package main

import (
	"fmt"
	"math"
	"time"

	"github.com/gridagent/gridagent/internal/accuracy/random"
)

// looks are when the maps of a drawn grid are read; the last is after its change.
var looks = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}

const (
	randomChange   = 150 * time.Second // when the change comes
	randomPatience = 2 * time.Minute   // how long it is waited for
)

// randomCells are the grids of seeds first to last.
func randomCells(seeds string) ([]Cell, error) {
	var first, last uint64
	if n, _ := fmt.Sscanf(seeds, "%d-%d", &first, &last); n == 1 {
		last = first
	} else if n == 0 || last < first || last-first > 1000 {
		return nil, fmt.Errorf("--random %q: want a seed, or two as in 1-20", seeds)
	}
	var cells []Cell
	for s := first; s <= last; s++ {
		cells = append(cells, Cell{Row: Random, Seed: s, Idle: looks[len(looks)-1]})
	}
	return cells, nil
}

// under is the name of what is read of link i of w, at a look.
func under(w *random.Grid, i int, what string, at ...time.Duration) string {
	s := w.Name(i) + " " + what
	if len(at) > 0 {
		s += " " + at[0].String()
	}
	return s
}

// allowance is how far a round trip over link i may be off.
func allowance(w *random.Grid, i int) time.Duration {
	jitter := w.File.WAN[i].Jitter + w.File.WAN[i^1].Jitter
	return max(time.Millisecond, w.RoundTrip(i)/50) + jitter
}

// A verdict is what is wrong with a link at a look.
type verdict struct {
	known         int
	median, worst float64 // of the rates known
	rtt           time.Duration
	wrong         []string
}

// randomVerdict compares what r says of link i of w at a look with the truth. Where losses, strangers, jitter or a short queue make
// what a flow gets wander, the lane that the truth was taken from wanders, too, and more is allowed.
func randomVerdict(r *Reading, w *random.Grid, i int, truth float64, at time.Duration) verdict {
	var v verdict
	var rates []float64
	for _, x := range r.Got[under(w, i, "rate", at)] {
		if x >= 0 {
			v.known++
			rates = append(rates, x)
		}
	}
	e := errorsOf(rates, truth)
	v.median, v.worst = median(e), worst(e)
	for _, x := range r.Got[under(w, i, "rtt", at)] {
		if d := time.Duration(x*1e9) - w.RoundTrip(i); x >= 0 && abs(d) > abs(v.rtt) {
			v.rtt = d
		}
	}
	if at < 2*time.Minute {
		return v // a young grid is shown, and not judged
	}
	_, exact := w.Flow(i)
	most := 0.15
	if !exact {
		most = 0.25
	}
	if pairs := len(r.Got[under(w, i, "rate", at)]); v.known < pairs {
		v.wrong = append(v.wrong, fmt.Sprintf("%d of %d known", v.known, pairs))
	}
	if !(math.Abs(v.worst) <= most) {
		v.wrong = append(v.wrong, "rate "+signed(v.worst))
	}
	if abs(v.rtt) > allowance(w, i) {
		v.wrong = append(v.wrong, fmt.Sprintf("rtt %+.2f ms", v.rtt.Seconds()*1000))
	}
	if k := w.File.WAN[i]; k.Loss > 0 || at > 2*time.Minute {
		var off []float64
		for _, x := range r.Got[under(w, i, "loss", at)] {
			if x >= 0 && (x > 2*k.Loss+0.002 || x < k.Loss/2-0.002) {
				off = append(off, x)
			}
		}
		if off != nil {
			v.wrong = append(v.wrong, fmt.Sprintf("loss %s", percent(worst(off))))
		}
	}
	if k := w.File.WAN[i]; at == looks[len(looks)-1] && (exact || k.Bandwidth < k.Capacity) {
		var caps []float64
		for _, x := range r.Got[under(w, i, "capacity", at)] {
			if x >= 0 {
				caps = append(caps, x)
			}
		}
		// Held flows of one port reach it with 64 lanes at most, all drawn ones with ten.
		if far := worst(errorsOf(caps, float64(w.Carries(i)))); len(caps) > 0 && math.Abs(far) > 0.15 {
			v.wrong = append(v.wrong, "capacity "+signed(far))
		}
	}
	return v
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// judgeRandom lists every link of every drawn grid, with what is wrong at the end of its line.
func judgeRandom(of []Reading) Line {
	l := Line{What: "grids drawn at random: bandwidth after 2 min, median / worst; changes seen by all", Bound: "5 % / 15 %; 30 s"}
	l.Detail.Head = []string{"seed", "link", "one flow really gets, Mbit/s"}
	for _, at := range looks {
		l.Detail.Head = append(l.Detail.Head, at.String())
	}
	l.Detail.Head = append(l.Detail.Head, "wrong")
	l.Detail.Note = "Errors are of what one flow gets, median / worst over all pairs of hosts of the link that the map of a third host knows. The last look is after a change of one link."
	var all, seen []float64
	wrongs, trees := 0, 0
	for _, r := range of {
		before := random.Draw(r.Cell.Seed, random.Wide)
		after := before.After()
		for i := range before.File.WAN {
			row := []string{fmt.Sprint(r.Cell.Seed), before.Name(i) + " " + before.Describe(i), mbps(r.one(under(before, i, "truth")))}
			_, exact := before.Flow(i)
			if exact {
				row[2] += " exact"
			}
			wrong := ""
			for k, at := range looks {
				w, truth := before, r.one(under(before, i, "truth"))
				if k == len(looks)-1 {
					w, truth = after, r.one(under(before, i, "truth after"))
				}
				v := randomVerdict(&r, w, i, truth, at)
				row = append(row, signed(v.median)+" / "+signed(v.worst))
				for _, x := range v.wrong {
					wrong += fmt.Sprintf("%v: %s; ", at, x)
					wrongs++
				}
				if at == 2*time.Minute && exact {
					all = append(all, absolute(errorsOf(knownOnly(r.Got[under(w, i, "rate", at)]), truth))...)
				}
			}
			l.Detail.Rows = append(l.Detail.Rows, append(row, wrong))
		}
		row := []string{fmt.Sprint(r.Cell.Seed), before.String(), ""}
		hosts := float64(len(before.File.Hosts()))
		wrong := ""
		for _, at := range looks {
			n := r.one(fmt.Sprintf("trees %v", at))
			row = append(row, fmt.Sprintf("%g of %g trees", n, hosts))
			if at >= 2*time.Minute && n < hosts {
				wrong += fmt.Sprintf("%v: trees; ", at)
				trees++
			}
		}
		s, certain := r.one("seen"), before.Certain()
		change := fmt.Sprintf("%v of %s", before.Change, before.Name(before.Change.Links[0]))
		if len(before.Change.Links) > 1 {
			change += " and back"
		}
		if !certain {
			change += ", which the truth wanders too much to tell"
		} else if seen = append(seen, s); s > 30 {
			wrong += "change; "
			wrongs++
		}
		row[2] = fmt.Sprintf("%s: half %s, all %s", change, seconds(r.one("half")), seconds(s))
		l.Detail.Rows = append(l.Detail.Rows, append(row, wrong))
	}
	mid, far := median(all), worst(all)
	l.Measured = fmt.Sprintf("%s / %s; %s at most; %d things wrong, %d trees", percent(mid), percent(far), seconds(worst(seen)), wrongs, trees)
	l.OK = mid <= 0.05 && far <= 0.15 && !(worst(seen) > 30)
	return l
}

// knownOnly leaves out what a map does not say.
func knownOnly(v []float64) []float64 {
	var out []float64
	for _, x := range v {
		if x >= 0 {
			out = append(out, x)
		}
	}
	return out
}
