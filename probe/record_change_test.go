package probe

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// changes is a recorder of a1, of a site with a0, in a grid with a site of b0 and b1, between all of
// which trains have read 10 Mbit/s.
func changes(t *testing.T) (r *recorder, est map[[2]string]netmap.Estimate) {
	t.Helper()
	est = make(map[[2]string]netmap.Estimate)
	rec := newRecorder(&Config{
		Self:   Peer{"a1", "a"},
		Peers:  func() []Peer { return []Peer{{"a0", "a"}, {"b0", "b"}, {"b1", "b"}} },
		Known:  func(from, to string) (netmap.Estimate, bool) { e, ok := est[[2]string{from, to}]; return e, ok },
		Record: func(from, to string, e netmap.Estimate) { est[[2]string{from, to}] = e },
	})
	for _, to := range []string{"b0", "b1"} {
		for range 3 {
			rec.trains(to, "b", result{Bandwidth: 10 * netmap.Mbps, Spread: 0.01})
		}
		est[[2]string{"a0", to}] = believed(10*netmap.Mbps, time.Now().Add(-time.Minute))
	}
	rec.listen([]string{"a0"}, "b", []string{"b0", "b1"}, time.Now())
	return &rec, est
}

func (r *recorder) next(pairs int, now time.Time) string {
	return r.behind("b", []string{"b0", "b1"}, pairs, 1, now)
}

// A change of one pair makes the others urgent, and one train of each is enough then.
func TestChangeMakesLikeUrgent(t *testing.T) {
	r, est := changes(t)
	now := time.Now()
	if got := r.next(4, now); got != "" {
		t.Errorf("%s is wanted, and nothing has changed", got)
	}
	if !r.trains("b0", "b", result{Bandwidth: 3 * netmap.Mbps, Spread: 0.01}) || r.next(4, now) != "" {
		t.Error("one train was believed, or is not asked for again")
	}
	r.trains("b0", "b", result{Bandwidth: 3 * netmap.Mbps, Spread: 0.01})
	if got := r.next(4, time.Now()); got != "b1" {
		t.Errorf("%q is wanted after the link to b0 has changed, want b1", got)
	}
	if r.trains("b1", "b", result{Bandwidth: 3.1 * netmap.Mbps, Spread: 0.01}) {
		t.Error("a train that confirms the change is not believed")
	}
	if got := est[[2]string{"a1", "b1"}].Bandwidth; got != 3.1*netmap.Mbps || r.next(4, time.Now()) != "" {
		t.Errorf("b1 is at %v, and %q is wanted", got, r.next(4, time.Now()))
	}
}

// What a mate has found makes this host's pairs urgent, until one of them shows that the mate has spoken of its
// own port.
func TestChangeHeardOfAMate(t *testing.T) {
	r, est := changes(t)
	later := time.Now().Add(time.Minute)
	est[[2]string{"a0", "b0"}] = believed(2*netmap.Mbps, later)
	r.listen([]string{"a0"}, "b", []string{"b0", "b1"}, later)
	if got := r.next(4, later); got != "b1" {
		t.Errorf("%q is wanted, want b1: hosts begin with different peers", got)
	}
	if got := r.next(shiftAll+1, later); got == "" {
		t.Error("a host of a large site looks at nothing")
	}
	if got := r.next(4, later.Add(shiftAge+time.Second)); got != "" {
		t.Errorf("%s is wanted long after the change", got)
	}
	r.trains("b1", "b", result{Bandwidth: 10 * netmap.Mbps, Spread: 0.01})
	if got := r.next(4, later); got != "" {
		t.Errorf("%s is wanted after a train has shown that the link is as it was", got)
	}
	// Who says another rate each second is heard once in a while.
	heard := 0
	for i := range 60 {
		at := later.Add(time.Duration(i+1) * time.Second)
		est[[2]string{"a0", "b0"}] = believed(netmap.BytesPerSec(1+i%2*9)*netmap.Mbps, at)
		before := r.shifts["b"].at
		r.listen([]string{"a0"}, "b", []string{"b0", "b1"}, at)
		if r.shifts["b"].at != before {
			heard++
		}
	}
	if heard == 0 || heard > int(time.Minute/shiftRest)+1 {
		t.Errorf("heard %d times in a minute", heard)
	}
	r.forgetShifts(nil, later)
	if len(r.shifts)+len(r.lines) != 0 {
		t.Errorf("%d changes and %d sites are remembered of nobody", len(r.shifts), len(r.lines))
	}
}

// A bulk probe that contradicts what is believed is not published, and makes nothing younger: the next train says
// whether the link has changed, or something holds flows on it.
func TestBulkWaitsForATrain(t *testing.T) {
	for _, tc := range []struct {
		train, want, later netmap.BytesPerSec // what trains read then, what is believed, and after the link is as before
	}{
		{2.5 * netmap.Mbps, 2.5 * netmap.Mbps, 10 * netmap.Mbps},
		{10 * netmap.Mbps, 2.5 * netmap.Mbps, 2.5 * netmap.Mbps},
	} {
		r, est := changes(t)
		key := [2]string{"a1", "b0"}
		before := est[key]
		if !r.bulk("b0", bulkResult{Rate: 2.5 * netmap.Mbps, Spread: 0.01}) || est[key] != before {
			t.Fatalf("a contradicting bulk probe was believed: %+v", est[key])
		}
		for range 2 {
			r.trains("b0", "b", result{Bandwidth: tc.train, Spread: 0.01})
		}
		if got := est[key].Bandwidth; apart(float64(got), float64(tc.want)) > 0.02 {
			t.Errorf("trains of %.1f Mbit/s: believed %.2f, want %.2f", tc.train.Mbps(), got.Mbps(), tc.want.Mbps())
		}
		for range 2 {
			r.trains("b0", "b", result{Bandwidth: 10 * netmap.Mbps, Spread: 0.01})
		}
		if got := est[key].Bandwidth; apart(float64(got), float64(tc.later)) > 0.02 {
			t.Errorf("trains of %.1f, then 10 Mbit/s: believed %.2f, want %.2f", tc.train.Mbps(), got.Mbps(), tc.later.Mbps())
		}
	}
}

// A pair inside a site that stands on one train is odd once its like are known.
func TestLoneOutlierIsOdd(t *testing.T) {
	r, est := changes(t)
	r.trains("a0", "a", result{Bandwidth: 70 * netmap.Mbps, Spread: 0.01})
	if r.odd("a0") {
		t.Error("odd, with nothing to compare with")
	}
	est[[2]string{"a0", "a1"}] = believed(85*netmap.Mbps, time.Now())
	if !r.odd("a0") {
		t.Error("70 beside 85 Mbit/s is not odd")
	}
	r.trains("a0", "a", result{Bandwidth: 85 * netmap.Mbps, Spread: 0.01})
	if r.odd("a0") {
		t.Error("odd after a second train")
	}
}

// A bulk probe that contradicts what trains have read counts once any pair of the two sites has shown that the link is as it was, and not where that
// one shows another link.
func TestAnyTrainReadsBulk(t *testing.T) {
	flow := bulkResult{Rate: 2 * netmap.Mbps, Spread: 0.05, Enough: true}
	for _, c := range []struct {
		train netmap.BytesPerSec
		want  netmap.BytesPerSec // of the pair with the bulk probe
	}{
		{10 * netmap.Mbps, 2 * netmap.Mbps},
		{3 * netmap.Mbps, 10 * netmap.Mbps},
	} {
		r, est := changes(t)
		if !r.bulk("b0", flow) {
			t.Fatal("a bulk probe that contradicts all trains wants none")
		}
		if e := est[[2]string{"a1", "b0"}]; e.Has(netmap.FieldLine) || e.Bandwidth != 10*netmap.Mbps {
			t.Fatalf("it counts before any train: %+v", e)
		}
		if r.searches("b0", false) {
			t.Error("what several flows get is searched for before anybody knows what one does")
		}
		r.trains("b1", "b", result{Bandwidth: c.train, Spread: 0.01})
		e := est[[2]string{"a1", "b0"}]
		if e.Bandwidth != c.want || e.Has(netmap.FieldLine) != (c.want == flow.Rate) || r.searches("b0", false) != (c.want == flow.Rate) {
			t.Errorf("after a train to another host has read %.0f Mbit/s: %+v, searched for: %v", c.train.Mbps(), e, r.searches("b0", false))
		}
	}
}
