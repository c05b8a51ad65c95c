package exchange

import (
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestSpacings: what is sent at one instant goes out at the rate, each site for itself; nobody waits for longer than he has to, and
// who comes later than the last has left does not wait.
func TestSpacings(t *testing.T) {
	const rate, slice = 1e6, 2500 // 2.5 ms
	trip := 20 * time.Millisecond
	var o spacings
	now := time.Unix(1e9, 0)
	for i := range 20 {
		want := max(0, min(time.Duration(i)*2500*time.Microsecond-pacerSlack, trip))
		if got := o.slot("a", slice, rate, trip, now); got != want {
			t.Errorf("slice %d waits %v, want %v", i, got, want)
		}
	}
	if got := o.slot("b", slice, rate, trip, now); got != 0 {
		t.Errorf("the first slice to another site waits %v", got)
	}
	if got := o.slot("a", slice, rate, trip, now.Add(trip+3*time.Millisecond)); got != 0 {
		t.Errorf("a slice behind all others waits %v", got)
	}
	for _, r := range []float64{0, -1, math.NaN()} {
		if got := o.slot("a", slice, r, trip, now); got != 0 {
			t.Errorf("at %v bytes a second a slice waits %v", r, got)
		}
	}
	for i := range 3 * maxSpacings {
		o.slot(string(rune('A'+i)), slice, rate, trip, now)
	}
	if len(o.next) > maxSpacings {
		t.Errorf("%d sites are remembered", len(o.next))
	}
}

// TestSpacingBegins: what is the first to go to a site in an exchange waits for its place among those of other hosts, once.
func TestSpacingBegins(t *testing.T) {
	const rate, slice, after = 1e6, 2500, 30 * time.Millisecond
	start := time.Unix(1e9, 0)
	var o spacings
	for range 2 { // two exchanges, a minute apart
		for i := range 3 { // slices, which two lanes send
			want := after + time.Duration(i)*2500*time.Microsecond - pacerSlack
			o.begin("a", start, after)
			if got := o.slot("a", slice, rate, time.Second, start); got != want {
				t.Errorf("slice %d waits %v, want %v", i, got, want)
			}
		}
		late := start.Add(time.Second)
		o.begin("a", start, after)
		if got := o.slot("a", slice, rate, time.Second, late); got != 0 {
			t.Errorf("a second later a slice waits %v", got)
		}
		start = start.Add(time.Minute)
	}
	for i := range 3 * maxSpacings {
		o.begin(string(rune('A'+i)), start, after)
	}
	if len(o.next) > maxSpacings {
		t.Errorf("%d sites are remembered", len(o.next))
	}
}

// TestSpacingAnswered: what came from a site takes the turns that its answers need, of that site alone, and only once something has gone there.
func TestSpacingAnswered(t *testing.T) {
	const rate, slice = 1e6, 2500 // 2.5 ms
	now := time.Unix(1e9, 0)
	s := spacing{rate: rate, answers: 0.04}
	var o spacings
	o.answered("a", 1<<20, s, now)
	if got := o.slot("a", slice, rate, time.Second, now); got != 0 {
		t.Errorf("the first slice waits %v", got)
	}
	before := o.slot("a", 50_000, rate, time.Second, now)
	o.slot("b", 50_000, rate, time.Second, now)
	o.answered("a", 250_000, s, now)
	o.answered("a", 250_000, spacing{rate: rate}, now)
	o.answered("a", 250_000, spacing{answers: 0.04}, now)
	if got, want := o.slot("a", slice, rate, time.Second, now), before+60*time.Millisecond; got != want {
		t.Errorf("behind 50,000 bytes and the answers to 250,000 a slice waits %v, want %v", got, want)
	}
	if got, want := o.slot("b", slice, rate, time.Second, now), 50*time.Millisecond-pacerSlack; got != want {
		t.Errorf("to another site it waits %v, want %v", got, want)
	}
	later := now.Add(time.Minute) // what was not used until then is gone
	o.answered("a", 250_000, s, later)
	if got, want := o.slot("a", slice, rate, time.Second, later), 10*time.Millisecond-pacerSlack; got != want {
		t.Errorf("a minute later it waits %v, want %v", got, want)
	}
}

// TestSpacingTo: the hosts of a site share what a slow link carries by what each of them sends there, for as long as the link needs for all of it. Where links are fast, or hold each flow, and where nothing
// goes, there is no spacing.
func TestSpacingTo(t *testing.T) {
	const trip = 10 * time.Millisecond
	slow, long := Path{RTT: trip, Rate: 400e3, Flows: 4}, Path{RTT: 13 * time.Millisecond, Rate: 400e3, Flows: 4}
	for _, tt := range []struct {
		name   string
		path   Path
		blocks [3]int64 // of a0, a1 and a2 for b0
		spaced bool
	}{
		{"alike", slow, [3]int64{4000, 4000, 4000}, true},
		{"unlike", slow, [3]int64{9000, 2000, 1000}, true},
		{"far", long, [3]int64{4000, 4000, 4000}, true},
		{"unlike and far", long, [3]int64{9000, 2000, 1000}, true},
		{"over a slow way", Path{RTT: trip, Rate: 400e3, Back: 800e3, Flows: 4}, [3]int64{4000, 4000, 4000}, true},
		{"one alone", slow, [3]int64{12000, 0, 0}, true},
		{"fast", Path{RTT: trip, Rate: 20e6, Flows: 4}, [3]int64{4000, 4000, 4000}, false},
		{"flows are held", Path{RTT: trip, Rate: 100e3, Capacity: 400e3, Flows: 4}, [3]int64{4000, 4000, 4000}, false},
		{"may carry more", Path{RTT: trip, Rate: 400e3, Flows: 4, AtLeast: true}, [3]int64{4000, 4000, 4000}, false},
		{"ports held the search", Path{RTT: trip, Rate: 400e3, Capacity: 400e3, Link: 400e3, Flows: 4}, [3]int64{4000, 4000, 4000}, false},
		{"unknown", Path{}, [3]int64{4000, 4000, 4000}, false},
	} {
		hosts := []string{"a0", "a1", "a2", "b0"}
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Hosts: hosts, Matrix: make([][]int64, len(hosts))}
		for i := range hosts {
			p.Matrix[i] = make([]int64, len(hosts))
		}
		for h, n := range tt.blocks {
			if p.Matrix[h][3] = n; n > 0 {
				p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: h, Dst: 3, Phase: -1, Blocks: []plan.Block{{Origin: h, Dest: 3}}})
			}
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		start := time.Unix(1e9, 0)
		var sum netmap.BytesPerSec
		for h, n := range tt.blocks {
			x := &run{eng: &Engine{cfg: Config{Self: hosts[h], Site: siteOfTest}}, part: parts[h], start: start}
			x.sites = sitesOf(x.part.Hosts, x.eng.cfg.Self, siteOfTest)
			got := x.spacingTo(&peer{name: "b0", path: tt.path})
			if (got.rate > 0) != (tt.spaced && n > 0) {
				t.Errorf("%s: %s sends %d bytes at %v bytes a second", tt.name, hosts[h], n, got.rate)
			}
			if (got.answers > 0) != (got.rate > 0 && tt.path.Back > 0) {
				t.Errorf("%s: %s counts %v of what comes back", tt.name, hosts[h], got.answers)
			}
			want := time.Duration(float64(h) / 3 * leastSlice * spacingShare / got.rate * 1e9)
			if tt.path.RTT == trip { // three slices take 19 ms
				want = 0
			}
			if got.rate > 0 && (got.after-want).Abs() > time.Microsecond {
				t.Errorf("%s: %s begins %v after the exchange, want %v", tt.name, hosts[h], got.after, want)
			}
			sum += netmap.BytesPerSec(got.rate)
			if want := tt.path.Rate.Time(12000); got.rate > 0 && (got.ends.Sub(start) < want*9/10 || got.ends.Sub(start) > want*11/10) {
				t.Errorf("%s: %s has a pace for %v, want %v", tt.name, hosts[h], got.ends.Sub(start), want)
			}
		}
		if want := spacingShare * tt.path.Rate; tt.spaced && (sum < want*99/100 || sum > want*101/100) {
			t.Errorf("%s: all send %v, want %v", tt.name, sum, want)
		}
	}
}

// TestSpaced: a lane waits for its host's turn while the link is the plan's, and no more than that: not once it should be through, by way of others, or where a pacer has the say.
func TestSpaced(t *testing.T) {
	now := time.Unix(1e9, 0)
	x := &run{eng: &Engine{cfg: Config{Self: "a0", Site: siteOfTest}}, part: &Part{Hosts: []string{"a0", "b0"}}, start: now}
	x.sites = sitesOf(x.part.Hosts, x.eng.cfg.Self, siteOfTest)
	p := &peer{name: "b0", path: Path{RTT: 10 * time.Millisecond, Rate: 400e3, Flows: 4}, spacing: spacing{rate: 100e3, ends: now.Add(2 * time.Second)}}
	old := &tap{window: &window{got: 1}} // it has heard of the peer
	l := &outLane{win: old}
	x.spaced(p, l, 5000, now)
	if got, want := x.spaced(p, l, 5000, now), 50*time.Millisecond-pacerSlack; got != want {
		t.Errorf("the second slice waits %v, want %v", got, want)
	}
	if got := x.spaced(p, &outLane{win: old, by: "c0"}, 5000, now); got != 0 {
		t.Errorf("by way of another site it waits %v", got)
	}
	whole := p.spacing
	if got := x.spaced(p, l, 5000, p.spacing.ends); got != 0 {
		t.Errorf("when the link should be through with the plan it waits %v", got)
	}
	full := p.path.Rate.Time(metSlices * leastSlice)
	for _, queue := range []time.Duration{0, full / 2, full} { // none, or what happens to be just ahead: the link carries more than is believed
		p.spacing, old.late = whole, queue
		x.eng.spacings.next = nil
		begin := now.Add(500 * time.Millisecond) // what is relayed comes later
		for d := time.Duration(0); d <= unmet; d += unmet / 4 {
			if got := x.spaced(p, l, 30_000, begin.Add(d)); d > 0 && (got > 0) != (queue == full || d < unmet) {
				t.Errorf("%v after it began, slices late by %v, it waits %v", d, queue, got)
			}
		}
	}
	p.spacing, p.opening = spacing{}, x.opens(p)
	if got := x.spaced(p, l, 5000, now); got != 0 {
		t.Errorf("without a spacing it waits %v", got)
	}
	if got := x.spaced(p, &outLane{win: &tap{window: &window{}}}, 5000, now); got <= 0 || got > p.path.RTT {
		t.Errorf("before the first answer it waits %v, want a round trip at most", got)
	}
}
