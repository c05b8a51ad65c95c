package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A link falls to a quarter during an exchange whose lanes show it. Within 5 s two senders and
// two receivers say so, which is what the map needs, for few trains. Lanes that fall while the link
// stays as it was change nothing.
func TestFallDuringAnExchange(t *testing.T) {
	if gridtest.Race {
		t.Skip("worlds of minutes: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, falls := range []bool{true, false} {
		t.Run(fmt.Sprintf("link falls=%v", falls), func(t *testing.T) {
			cfg := small()
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				var busy atomic.Bool
				ms := w.joinAll(n, cfg, func(c *Config) { c.Busy = busy.Load })
				w.run(ms, true, func(context.Context) {
					time.Sleep(90 * time.Second)
					busy.Store(true)
					time.Sleep(15 * time.Second) // what was under way has ended
					if falls {
						if err := n.SetLink("a", "b", func(l *gridnet.Link) { l.Rate /= 4 }); err != nil {
							t.Fatal(err)
						}
					}
					at, before := time.Now(), w.bytes()[siteLink{"a", "b"}]
					time.Sleep(time.Second)
					for _, m := range ms { // each host of a has a lane to each of b
						for _, q := range ms {
							if m.peer.Site == "a" && q.peer.Site == "b" {
								m.prober.Observe(Observation{Peer: q.peer.Name, Bytes: 70e3, Duration: time.Second, End: time.Now(), Network: true, Sharers: 4, Mean: 280e3})
							}
						}
					}
					from, to := make(map[string]bool), make(map[string]bool)
					for time.Since(at) < 5*time.Second && !(len(from) >= 2 && len(to) >= 2) {
						time.Sleep(100 * time.Millisecond)
						w.mu.Lock()
						for k, e := range w.est {
							if w.site(k[0]) == "a" && w.site(k[1]) == "b" && apart(float64(e.Bandwidth), float64(truth(2.5*gridnet.Mbps))) < 0.15 {
								from[k[0]], to[k[1]] = true, true
							}
						}
						w.mu.Unlock()
					}
					t.Logf("%d senders and %d receivers after %v", len(from), len(to), time.Since(at))
					if falls && (len(from) < 2 || len(to) < 2) || !falls && len(from) > 0 {
						t.Errorf("%d senders and %d receivers say that the link has fallen", len(from), len(to))
					}
					time.Sleep(10*time.Second - time.Since(at))
					if got := w.bytes()[siteLink{"a", "b"}] - before; got == 0 || got > 2*watchTrain*trainPayload {
						t.Errorf("%d bytes of trains in 10 s, want one train or two", got)
					}
				})
			})
		})
	}
}

// heard is a recorder whose map holds 10 Mbit/s of each pair of a0, a1 with b0, b1, of a minute
// ago, and of a0→b0 news.
func heard(news netmap.BytesPerSec, age time.Duration) (*recorder, map[[2]string]netmap.Estimate) {
	now := time.Now()
	est := make(map[[2]string]netmap.Estimate)
	self := Peer{"a1", "a"}
	r := newRecorder(&Config{
		Self:   self,
		Peers:  func() []Peer { return []Peer{{"a0", "a"}, {"b0", "b"}, {"b1", "b"}} },
		Known:  func(from, to string) (netmap.Estimate, bool) { e, ok := est[[2]string{from, to}]; return e, ok },
		Record: func(from, to string, e netmap.Estimate) { est[[2]string{from, to}] = e },
	})
	for _, from := range []string{"a0", "a1"} {
		for _, to := range []string{"b0", "b1"} {
			est[[2]string{from, to}] = believed(10*netmap.Mbps, now.Add(-time.Minute))
			if from == "a1" {
				for range 3 {
					r.pair(to).out.train(float64(10*netmap.Mbps), 0.01)
				}
				r.pair(to).last = est[[2]string{from, to}]
			}
		}
	}
	est[[2]string{"a0", "b0"}] = believed(news, now.Add(-age))
	return &r, est
}

// What another host has found is believed where own lanes have fallen, and leads to a train where
// they have not, to another receiver; what it found long ago, or is no fall, does neither.
func TestHearOfAFall(t *testing.T) {
	const low = 2.5 * netmap.Mbps
	for _, tc := range []struct {
		name    string
		news    netmap.BytesPerSec
		age     time.Duration
		fell    bool
		used    string
		want    netmap.BytesPerSec // of a1→b1
		suspect string
	}{
		{"lanes fell", low, time.Second, true, "b1", low, ""},
		{"lanes fell, to the same receiver", low, time.Second, true, "b0", 10 * netmap.Mbps, "b1"},
		{"no lanes", low, time.Second, false, "", 10 * netmap.Mbps, "b1"},
		{"lanes that did not fall", low, time.Second, false, "b1", 10 * netmap.Mbps, "b1"},
		{"old news", low, time.Minute, true, "b1", 10 * netmap.Mbps, ""},
		{"noise", 9 * netmap.Mbps, time.Second, true, "b1", 10 * netmap.Mbps, ""},
		{"a rise", 40 * netmap.Mbps, time.Second, true, "b1", 10 * netmap.Mbps, ""},
	} {
		r, est := heard(tc.news, tc.age)
		if tc.used != "" {
			r.used(tc.used, "b", tc.fell)
		}
		got := r.hear([]string{"a0"}, "b", []string{"b0", "b1"}, time.Now())
		if e := est[[2]string{"a1", "b1"}]; got != tc.suspect || apart(float64(e.Bandwidth), float64(tc.want)) > 0.01 {
			t.Errorf("%s: %.3g Mbit/s, suspect %q; want %.3g, %q", tc.name, e.Bandwidth.Mbps(), got, tc.want.Mbps(), tc.suspect)
		}
	}
}

// What comes from a site has fallen by the word of two of its hosts: the way there is looked at, once and only by who sends nothing there,
// and one train that reads as little is believed.
func TestMirroredFall(t *testing.T) {
	const low = 2.5 * netmap.Mbps
	for _, tc := range []struct {
		name    string
		senders []string
		news    netmap.BytesPerSec
		age     time.Duration
		used    bool
		trained bool
		want    string
	}{
		{"two senders", []string{"b0", "b1"}, low, time.Second, false, false, "b1"},
		{"one sender", []string{"b0"}, low, time.Second, false, false, ""},
		{"old news", []string{"b0", "b1"}, low, time.Minute, false, false, ""},
		{"little", []string{"b0", "b1"}, 9 * netmap.Mbps, time.Second, false, false, ""},
		{"lanes tell", []string{"b0", "b1"}, low, time.Second, true, false, ""},
		{"looked since", []string{"b0", "b1"}, low, time.Second, false, true, ""},
	} {
		r, est := heard(10*netmap.Mbps, time.Minute)
		now := time.Now()
		for _, from := range tc.senders {
			for _, to := range []string{"a0", "a1"} {
				est[[2]string{from, to}] = believed(tc.news, now.Add(-tc.age))
			}
		}
		if tc.used {
			r.pair("b0").used = now
		}
		if tc.trained {
			r.pair("b0").trained = now
		}
		if got := r.mirrored([]string{"a0"}, "b", []string{"b0", "b1"}, now); got != tc.want {
			t.Errorf("%s: suspect %q, want %q", tc.name, got, tc.want)
		}
		again := r.trains("b1", "b", result{Bandwidth: low, Spread: 0.01})
		if e := est[[2]string{"a1", "b1"}]; (apart(float64(e.Bandwidth), float64(low)) < 0.01) != (tc.want != "") || again != (tc.want == "") {
			t.Errorf("%s: %.3g Mbit/s after a train of %.3g, another one wanted: %v", tc.name, e.Bandwidth.Mbps(), low.Mbps(), again)
		}
	}
}

// One train that shows a fall is believed if another witness says the same, and else makes no
// estimate younger that it contradicts.
func TestTrainAndWitness(t *testing.T) {
	const low = 2.5 * netmap.Mbps
	for _, tc := range []struct {
		name    string
		witness func(r *recorder)
		rate    netmap.BytesPerSec
		want    netmap.BytesPerSec
		younger bool
	}{
		{"none", func(*recorder) {}, low, 10 * netmap.Mbps, false},
		{"lanes fell", func(r *recorder) { r.used("b1", "b", true) }, low, low, true},
		{"lanes to another site fell", func(r *recorder) { r.used("c0", "c", true) }, low, 10 * netmap.Mbps, false},
		{"lanes fell, the link did not", func(r *recorder) { r.used("b1", "b", true) }, 9.8 * netmap.Mbps, 10 * netmap.Mbps, true},
		{"another host read it", func(r *recorder) { r.hear([]string{"a0"}, "b", []string{"b0", "b1"}, time.Now()) }, low, low, true},
		{"another host read more", func(r *recorder) { r.hear([]string{"a0"}, "b", []string{"b0", "b1"}, time.Now()) }, low / 2, 10 * netmap.Mbps, false},
	} {
		r, est := heard(low, time.Second)
		before := est[[2]string{"a1", "b1"}].Measured
		tc.witness(r)
		r.trains("b1", "b", result{Bandwidth: tc.rate, Spread: 0.01})
		e := est[[2]string{"a1", "b1"}]
		if apart(float64(e.Bandwidth), float64(tc.want)) > 0.01 || e.Measured.After(before) != tc.younger {
			t.Errorf("%s: %.3g Mbit/s, younger %v; want %.3g, %v", tc.name, e.Bandwidth.Mbps(), e.Measured.After(before), tc.want.Mbps(), tc.younger)
		}
	}
}

// However the trains end, a link bears urgentMost of them in urgentGap, and one if it reads
// what was believed.
func TestAlarms(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var a alarms
		now := time.Unix(1000, 0)
		var granted []time.Time
		steady := seed%2 == 0
		for range 2000 {
			now = now.Add(time.Duration(rng.IntN(200)) * time.Millisecond)
			if a.wait(now) > 0 {
				continue
			}
			a.grant(now)
			granted = append(granted, now)
			a.ended(now, true, steady || rng.IntN(2) == 0, !steady && rng.IntN(2) == 0)
		}
		most := urgentMost
		if steady {
			most = 1
		}
		if len(granted) < 10 {
			t.Fatalf("seed %d: %d granted", seed, len(granted))
		}
		// A window that begins with one of them may hold those of two: the end of one, and the next.
		for i := 2 * most; i < len(granted); i++ {
			if d := granted[i].Sub(granted[i-2*most]); d < urgentGap {
				t.Fatalf("seed %d: %d within %v", seed, 2*most+1, d)
			}
		}
	}
}

// What a full queue let in of a train is read for a second opinion, and for nothing else.
func TestReadFew(t *testing.T) {
	const gap = 2600 * time.Microsecond
	as := []arrival{{0, 0}, {1, gap}, {5, 2 * gap}}
	if r, err := readTrain(as, watchTrain, fewArrivals); err != nil || apart(r.Rate, 1/gap.Seconds()) > 0.01 {
		t.Errorf("%+v, %v; want %.1f packets a second", r, err, 1/gap.Seconds())
	}
	if _, err := readTrain(as, watchTrain, minArrivals); err == nil {
		t.Error("three packets are a reading")
	}
	if _, err := readTrain(as[:2], watchTrain, 0); err == nil {
		t.Error("two packets are a reading")
	}
}
