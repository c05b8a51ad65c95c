package probe

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// youngWorld runs f in a young grid of two sites with two hosts each, over link.
func youngWorld(t *testing.T, link gridnet.Link, f func(t *testing.T, w *bulkWorld, members []*member)) {
	if gridtest.Race {
		t.Skip("seconds of CPU, and twelve times as much with the race detector")
	}
	cfg := sitesOver(link, 2)
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := &bulkWorld{world: newWorld(t), n: n}
		members := w.joinSites(cfg)
		w.run(members, true, func(context.Context) { f(t, w, members) })
	})
}

// searched returns what the map says of the link from a to b as far as one of its pairs was searched.
func (w *bulkWorld) searched() (e netmap.Estimate, ok bool) {
	for to, k := range w.pairs(netmap.FieldLanes) {
		if to == (siteLink{"a", "b"}) && k > 0 {
			ok = true
		}
	}
	s := w.snapshot()
	for i := range s.N() {
		for j := range s.N() {
			if x := s.Estimate(i, j); s.Host(i).Site == "a" && s.Host(j).Site == "b" && x.Has(netmap.FieldLanes) && x.Lanes >= e.Lanes {
				e = x
			}
		}
	}
	return e, ok
}

// A link of which one flow got a part that strangers may explain, or a busy host, is searched in its first minutes as any other: what several lanes get
// decides between schedules by the factor that they gain.
func TestSharedLinkIsSearched(t *testing.T) {
	for seed := range uint64(1) {
		rate := 4.75 * gridnet.Mbps
		youngWorld(t, gridnet.Link{Rate: rate, Latency: 76 * time.Millisecond}, func(t *testing.T, w *bulkWorld, _ []*member) {
			for _, l := range [][2]string{{"a", "b"}, {"b", "a"}} {
				if _, err := w.n.StartCross(gridnet.CrossTraffic{From: l[0], To: l[1], Rate: 0.25 * rate, Poisson: true}); err != nil {
					t.Error(err)
					return
				}
			}
			time.Sleep(4*time.Minute + time.Duration(seed)*time.Second)
			e, ok := w.searched()
			t.Logf("%.2f Mbit/s with %d lanes", e.Capacity.Mbps(), e.Lanes)
			if off := float64(e.Capacity)/(0.75*linkTruth(rate)) - 1; !ok || math.Abs(off) > 0.2 {
				t.Errorf("searched %v: capacity %.2f Mbit/s, %+.1f %%", ok, e.Capacity.Mbps(), 100*off)
			}
		})
	}
}

// A first search that finds no gain is repeated before it is believed for an hour: what was in its way may be gone.
func TestNoGainIsLookedAtAgain(t *testing.T) {
	const flow, all = 1.25 * gridnet.Mbps, 10 * gridnet.Mbps
	youngWorld(t, gridnet.Link{Rate: flow, Latency: 50 * time.Millisecond}, func(t *testing.T, w *bulkWorld, _ []*member) {
		var e netmap.Estimate
		ok := false
		for range 60 {
			time.Sleep(5 * time.Second)
			if e, ok = w.searched(); ok {
				break
			}
		}
		if !ok || e.Lanes != 1 {
			t.Errorf("searched %v: %d lanes, want 1", ok, e.Lanes)
			return
		}
		if err := w.n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate, l.FlowRate = all, flow }); err != nil {
			t.Error(err)
			return
		}
		time.Sleep(3 * time.Minute)
		e, _ = w.searched()
		if off := float64(e.Capacity)/linkTruth(all) - 1; math.Abs(off) > 0.15 || e.Lanes < 4 {
			t.Errorf("capacity %.2f Mbit/s, %+.1f %%, with %d lanes", e.Capacity.Mbps(), 100*off, e.Lanes)
		}
	})
}

// Who seems to have met strangers waits for a second opinion, for a while; not where losses explain what a flow got. By chance it may get more than half of a
// link that losses leave a quarter of, and the second opinion may wait for the link's budget for a quarter of an hour.
func TestWhoIsPatient(t *testing.T) {
	const line = 19 * netmap.Mbps
	for _, tt := range []struct {
		name           string
		part, lost     float64
		patient, at120 bool // what it does at first, and two minutes after the start
	}{
		{"strangers", 0.7, 0, false, true},
		{"losses", 0.7, 14, true, true},
		{"all of the link", 0.97, 0, true, true},
	} {
		r, _ := lossy(line, 300)
		r.bulk("b0", bulkResult{Rate: netmap.BytesPerSec(tt.part) * line, Spread: 0.1, Enough: true, Lost: tt.lost, Steady: 300 * tt.lost})
		r.trains("b0", "b", result{Bandwidth: line, Spread: 0.01, sent: 10})
		if p, i := r.searches("b0", true), r.searches("b0", false); p != tt.patient || i != tt.at120 {
			t.Errorf("%s: searches while patient %v, want %v, and then %v, want %v", tt.name, p, tt.patient, i, tt.at120)
		}
		if one, _ := r.one("b0"); (one.Rate > 0) != tt.patient {
			t.Errorf("%s: a search takes %.3g bytes a second for one lane as known", tt.name, one.Rate)
		}
	}
}

// The credit of first searches is for one, and for a second one if the first took no more than it was to cost, as one does that finds no gain.
// Who says that its search will cost much has no more of it.
func TestSearchCredit(t *testing.T) {
	const rate, cost = 1e6, 2e6
	terms := terms{share: 0.006, burst: 64 << 20}
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name     string
		took     int64
		second   int64 // what it is to cost
		may      bool
		theThird bool
	}{
		{"no gain", cost / 2, cost, true, false},
		{"eight lanes", 8 * cost, cost, false, false},
		{"eight lanes, and one that boasts", 8 * cost, 1000 * cost, false, false},
	} {
		var b budget
		b.spend(now, searching, 0, rate, terms)
		if b.wait(now, searching, cost, terms) > 0 {
			t.Errorf("%s: the first waits", tt.name)
		}
		b.spend(now, searching, tt.took, rate, terms)
		if got := b.wait(now, searching, tt.second, terms) == 0; got != tt.may {
			t.Errorf("%s: a second one may begin %v, want %v", tt.name, got, tt.may)
		}
		b.spend(now, searching, 2*cost, rate, terms)
		if got := b.wait(now, searching, cost, terms) == 0; got != tt.theThird {
			t.Errorf("%s: a third one may begin %v", tt.name, got)
		}
	}
}
