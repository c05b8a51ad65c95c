package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// watchedRun returns a run of the first of three hosts of a ring, each a site of its own, in which nothing runs yet, and what looks at its
// way to the second. *rate is what the map says of every way.
func watchedRun(t *testing.T, seed uint64, rate *netmap.BytesPerSec) (x *run, look func() *route) {
	t.Helper()
	p := ringPlan(3)
	p.MessageBytes = 100
	g := newFakeGrid(t, p.Hosts, func(c *Config) {
		c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: *rate, Flows: 1} }
		c.Site = func(h string) string { return h }
	})
	j := newJob(t, rand.New(rand.NewPCG(1, seed)), p, 10)
	x, err := newRun(t.Context(), g.engines["host0"], j.parts[0], j.data[0])
	if err != nil {
		t.Fatal(err)
	}
	to := x.peers["host1"]
	to.path = x.eng.cfg.Path("host1")
	to.win = x.tapOf(to, to.path, "")
	return x, func() *route {
		told := x.told()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.watch(time.Now(), told)
		return x.ways["host1"]
	}
}

// TestMapIsAskedUnlocked: each look asks the map, which may take a second to answer on a busy machine. No lane waits for that.
func TestMapIsAskedUnlocked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rate := netmap.BytesPerSec(1e6)
		x, look := watchedRun(t, 46, &rate)
		defer func() { x.cancel(nil); x.writers.Wait() }()
		look()
		asked := 0
		path := x.eng.cfg.Path
		x.eng.cfg.Path = func(host string) Path {
			asked++
			if !x.mu.TryLock() {
				t.Error("the map is asked under the run's lock")
				return path(host)
			}
			defer x.mu.Unlock()
			return path(host)
		}
		if look(); asked == 0 {
			t.Error("nobody asked the map")
		}
	})
}

// TestTold: what the plan stands on is what rates are compared with, also when the map has learnt of the fall; and the map's word
// alone is a reason to look.
func TestTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rate := netmap.BytesPerSec(1e6)
		x, look := watchedRun(t, 45, &rate)
		defer func() { x.cancel(nil); x.writers.Wait() }()
		if w := look(); w.told != 0 || w.asking || w.planned != 1e6 {
			t.Errorf("nothing has happened: told %v, asks %v, planned %v", w.told, w.asking, w.planned)
		}
		rate = 7e5
		if w := look(); w.told != 0 || w.asking {
			t.Errorf("a third less is no fall: told %v, asks %v", w.told, w.asking)
		}
		rate = 2.5e5
		if w := look(); w.told != 2.5e5 || !w.asking {
			t.Errorf("a quarter is left: told %v, asks %v", w.told, w.asking)
		}
		if own := x.together(1); own.usual != 1e6 || own.rate != 2.5e5 || !own.fell(fallShare) {
			t.Errorf("all together: %+v", own)
		}
		// Who sends nothing there says what it got last, if that had fallen.
		x.mu.Lock()
		x.ways["host1"].pace.low = 1e5
		st := x.standing(1)
		x.mu.Unlock()
		if st.rate != 1e5 {
			t.Errorf("would get %v, want 1e5", st.rate)
		}
	})
}

// TestSure: a way has fallen when the site has said so for long enough without a break, the longer the exchange is, and at once
// where the map says it too. What was seen before the way was well again does not count.
func TestSure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rate := netmap.BytesPerSec(1e6)
		x, look := watchedRun(t, 46, &rate)
		defer func() { x.cancel(nil); x.writers.Wait() }()
		w := look()
		low, well := stand{rate: 3e5, usual: 1e6, hosts: 3}, stand{rate: 9e5, usual: 1e6, hosts: 3}
		expect := func(what string, own stand, want bool) {
			t.Helper()
			if sure, fell, _ := x.judge(w, own); sure != want || fell != (own == low) {
				t.Errorf("%s: sure %v, fell %v", what, sure, fell)
			}
		}
		expect("first", low, false)
		time.Sleep(leastSure)
		expect("still", low, true)
		expect("well again", well, false)
		expect("a second fall", low, false)
		time.Sleep(leastSure)
		look() // its own rate is as usual: nobody asks
		expect("a third one", low, false)
		expect("well again", well, false)

		time.Sleep(10 * time.Second)
		expect("after ten seconds", low, false)
		time.Sleep(leastSure)
		expect("not for long enough", low, false)
		time.Sleep(leastSure)
		time.Sleep(leastSure)
		expect("for long enough", low, true)
		expect("well again", well, false)
		w.told = 3e5
		expect("the map says so too", low, false)
		time.Sleep(leastSure)
		expect("and it lasts", low, true)
	})
}
