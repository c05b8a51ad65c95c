package probe

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Long probes of both directions of a link never begin together, those that a turn is long enough for do not meet, and every host of a site of
// up to fullAcross has turns in which it may begin.
func TestOurWay(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, takes := range []time.Duration{time.Second, wayTurn / 3, wayTurn * 2 / 3, time.Minute} {
		var last [2]time.Duration // when one could have begun, there and back
		for i := range 10 * time.Minute / (100 * time.Millisecond) {
			at := i * 100 * time.Millisecond
			may := [2]bool{ourWay("a", "b", takes, begin.Add(at)), ourWay("b", "a", takes, begin.Add(at))}
			if may[0] && may[1] {
				t.Fatalf("both directions after %v", at)
			}
			for way := range may {
				if may[way] {
					last[way] = at
				}
				if other := last[1-way]; may[way] && other > 0 && takes <= wayTurn*2/3 && at < other+takes {
					t.Fatalf("one of %v may begin after %v, and one the other way after %v", takes, other, at)
				}
			}
		}
		for hosts := int64(1); hosts <= fullAcross; hosts++ {
			begun := make(map[int64]bool)
			for i := range time.Hour / (200 * time.Millisecond) {
				now := begin.Add(i * 200 * time.Millisecond)
				if number := now.UnixNano() / int64(bulkTurn); ourWay("a", "b", takes, now) {
					begun[number%hosts] = true
				}
			}
			if len(begun) != int(hosts) {
				t.Errorf("of %d hosts %d may begin in an hour", hosts, len(begun))
			}
		}
	}
}

// A long probe whose peer is taken is asked for again while the turn of its direction lasts, and no longer.
func TestLongProbeIsNotInsistedOnOutOfTurn(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := &declining{after: 2 * time.Millisecond, retry: slotRetry, n: make(map[string]int)}
			p, err := New(Config{Self: Peer{"a0", "a"}, Peers: func() []Peer { return []Peer{{"b0", "b"}} }, Endpoint: e, Record: drop})
			if err != nil {
				t.Fatal(err)
			}
			p.look()
			l := longProbe{kind: KindBandwidth, peer: Peer{"b0", "b"}, rate: 1e6, rtt: 20 * time.Millisecond}
			open := func(now time.Time) bool { return ourWay("a", "b", l.takes(), now) }
			for open(time.Now()) || !open(time.Now().Add(time.Millisecond)) { // until a turn begins
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Millisecond)
			for late && open(time.Now().Add(time.Millisecond)) {
				time.Sleep(time.Millisecond)
			}
			err = p.insistLong(t.Context(), l)
			if n := e.n["b0"]; !errors.As(err, new(*BusyError)) || late != (n == 1) {
				t.Errorf("at the end of a turn: %v. b0 was asked %d times: %v", late, n, err)
			}
		})
	}
}

// The first bulk probe of a young link does not wait because trains were refused: these are each 10 s, and of a slow link's turns 4 s in 26 are
// open to one that takes longer than a turn. In a tenth of all runs no turn of the first two minutes was. Later ones wait.
func TestFirstBulkIsNotClosed(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 5, 0, 0, time.UTC)
	for _, tt := range []struct {
		what   string
		age    time.Duration
		bulked string
		start  time.Duration // of its schedule, from now
		want   bool
	}{
		{"a young link", 5 * time.Minute, "", -time.Minute, true},
		{"its schedule has not come", 5 * time.Minute, "", time.Second, false},
		{"a second bulk probe", 5 * time.Minute, "b0", -time.Minute, false},
		{"a link that is young no more", youth, "", -time.Minute, false},
	} {
		l := &linkState{since: now.Add(-tt.age), read: 1e6, closed: now.Add(time.Second), bulked: tt.bulked, bulk: schedule{notBefore: now.Add(tt.start)}}
		p := &Prober{cfg: Config{Self: Peer{Name: "a0", Site: "a"}, Peers: others(7)}, links: map[string]*linkState{"b": l}}
		if got := p.longDue(KindBandwidth, "b", now); got != tt.want {
			t.Errorf("%s: due %v, want %v", tt.what, got, tt.want)
		}
	}
}

// others returns n peers of no site.
func others(n int) func() []Peer { return func() []Peer { return make([]Peer, n) } }

// TestFewHostsChatterLess: the first bulk probe waits for as long as the chatter of a young grid takes, which is less where there are fewer hosts.
func TestFewHostsChatterLess(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 5, 0, 0, time.UTC)
	for _, tt := range []struct {
		hosts int
		after time.Duration // at 250 kB/s
	}{{20, 16777 * time.Millisecond}, {100, 16777 * time.Millisecond}, {10, 4194 * time.Millisecond}, {2, 167 * time.Millisecond}} {
		for _, early := range []bool{true, false} {
			age := tt.after + 10*time.Millisecond
			if early {
				age = tt.after - 10*time.Millisecond
			}
			l := &linkState{since: now.Add(-age), read: 250e3, bulk: schedule{notBefore: now}}
			p := &Prober{cfg: Config{Self: Peer{Name: "a0", Site: "a"}, Peers: others(tt.hosts - 1)}, links: map[string]*linkState{"b": l}}
			if got := p.longDue(KindBandwidth, "b", now); got == early {
				t.Errorf("%d hosts, %v after the start: due %v", tt.hosts, age, got)
			}
		}
	}
}
