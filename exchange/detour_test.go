package exchange

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestEar: a peer is silent when several packets have gone to it and none has come back for all of the patience, and
// not when nothing was sent.
func TestEar(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 97))
		var e Ear
		now := time.Unix(1e9, 0)
		var sent, received uint64
		look := func() bool { now = now.Add(paceEvery); return e.listen(sent, received, now, silence) }
		for range 100 {
			switch rng.IntN(3) {
			case 0:
				sent += uint64(rng.IntN(20))
				received += 1 + uint64(rng.IntN(20))
			case 1: // nothing is to be said, but for a ping now and then
				received += uint64(rng.IntN(2))
			case 2:
				sent++
				if look() {
					t.Fatalf("seed %d: silent after a packet", seed)
				}
				received++
			}
			if look() {
				t.Fatalf("seed %d: silent though packets come back", seed)
			}
		}
		began := now
		for quiet := false; !quiet; {
			sent += uint64(rng.IntN(3))
			if quiet = look(); now.Sub(began) > 3*silence {
				t.Fatalf("seed %d: not found silent after %v", seed, now.Sub(began))
			}
		}
		if took := now.Sub(began); took < silence {
			t.Fatalf("seed %d: silent after %v", seed, took)
		}
	}
}

// TestBroken: two hosts that tell each other that the way between them is broken try it again though, however often they talk.
func TestBroken(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			ends := []*Engine{{}, {}} // each is "x" to the other
			finds := rng.IntN(2)
			ends[finds].Broke("x", time.Now())
			for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second)))) {
				from := rng.IntN(2)
				if ends[from].Broken("x") {
					if d := time.Since(began); d >= 2*brokenFor {
						t.Fatalf("seed %d: broken after %v", seed, d)
					}
					ends[1-from].ToldBroken("x")
				}
			}
			if ends[finds].ToldBroken("x"); !ends[finds].Broken("x") {
				t.Errorf("seed %d: what it is told an hour later counts for nothing", seed)
			}
		})
	}
}

// TestConnectedIsWhole: a connection that was made after the last that was heard before the breach, or before somebody can have found it, shows
// that the way is whole: the host was killed, and started again.
func TestConnectedIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made time.Time
		e := &Engine{cfg: Config{Connected: func(string) time.Time { return made }}}
		began := time.Now()
		for _, tt := range []struct {
			name   string
			made   time.Duration // when
			told   bool
			broken bool
		}{
			{"before", 1, false, true},
			{"between", 7, false, false},
			{"after", 11, false, false},
			{"told, connected long before", 5, true, true},
			{"told, connected a moment before", 8, true, false},
		} {
			e.broken, made = nil, time.Time{}
			time.Sleep(10*time.Second - time.Since(began))
			if made = began.Add(tt.made * time.Second); tt.told {
				e.ToldBroken("x")
			} else {
				e.Broke("x", began.Add(6*time.Second)) // found after 4 s
			}
			time.Sleep(2 * time.Second)
			if e.Broken("x") != tt.broken {
				t.Errorf("%s: broken %v", tt.name, !tt.broken)
			}
			began = time.Now()
		}
	})
}

// TestVias: those tried first are of different sites, and no host goes by itself or by the one that it wants to reach.
func TestVias(t *testing.T) {
	site := func(h string) string { return h[:1] }
	e := &Engine{cfg: Config{Self: "a0", Site: site, Vias: func() []string { return []string{"a0", "d0", "b0", "b1"} }}}
	x := &run{eng: e, part: &Part{Hosts: []string{"a0", "a1", "a2", "b0", "b1", "c0", "c1"}}}
	for _, tc := range []struct{ to, by, want string }{
		{"b1", "", "a1 b0 c0 a2 c1 d0"},
		{"b1", "c1", "c1 a1 b0 c0 a2 d0"},
		{"a1", "", "a2 b0 c0 b1 c1 d0"},
	} {
		if got := strings.Join(x.vias(&peer{name: tc.to, by: tc.by}), " "); got != tc.want {
			t.Errorf("to %s, last by %q: %s, want %s", tc.to, tc.by, got, tc.want)
		}
	}
}

// TestTighter: what goes by way of others is bounded by the slower of the two links.
func TestTighter(t *testing.T) {
	own := stand{backlog: 1e6, rate: 1e4}
	fast, slow, full := stand{rate: 1e5}, stand{rate: 2e4}, stand{backlog: 5e8, rate: 1e6}
	for _, tc := range []struct{ a, b, want stand }{{fast, slow, slow}, {slow, fast, slow}, {full, fast, full}, {fast, full, full}} {
		if got := tighter(own, tc.a, tc.b); got != tc.want {
			t.Errorf("of %+v and %+v: %+v", tc.a, tc.b, got)
		}
	}
}

// TestDetourRefused: a host passes nothing back, to itself, or on for ever; and detours do not nest.
func TestDetourRefused(t *testing.T) {
	id := ID{7}
	by := func(host string) []byte { return header{id: id, lane: byLane, host: host}.appendTo(nil) }
	from := func(host string) []byte { return header{id: id, lane: fromLane, host: host}.appendTo(nil) }
	for _, tc := range []struct {
		name  string
		wire  []byte
		busy  bool   // it carries as many as it may
		inner []byte // what follows once the detour has been answered, which it is not if this is nil
		taken bool   // the stream stays open
	}{
		{name: "passed on", wire: by("c"), inner: header{id: id}.appendTo(nil), taken: true},
		{name: "to itself", wire: by("b")},
		{name: "back", wire: by("a")},
		{name: "too many", wire: by("c"), busy: true},
		{name: "nested", wire: from("c"), inner: by("c")},
		{name: "of another exchange", wire: from("c"), inner: header{id: ID{8}}.appendTo(nil)},
		{name: "from itself", wire: from("b")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				g := newFakeGrid(t, []string{"a", "b", "c"}, nil)
				if tc.busy {
					g.engines["b"].pipes = maxPipes
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s, err := g.open(ctx, "a", "b")
				if err != nil {
					t.Fatal(err)
				}
				s.SetReadDeadline(time.Now().Add(5 * time.Second))
				s.Write(tc.wire)
				if tc.inner != nil {
					here := make([]byte, 1)
					if _, err := io.ReadFull(s, here); err != nil || here[0] != frameHere {
						t.Fatalf("answered %x, %v", here, err)
					}
					s.Write(tc.inner)
				}
				got, err := io.ReadAll(s)
				if open := errors.Is(err, os.ErrDeadlineExceeded); len(got) > 0 || open != tc.taken {
					t.Errorf("%x and %v came, open %v", got, err, open)
				}
				s.Abort()
				time.Sleep(time.Minute) // what was passed on waits for an exchange
				g.accepts.Wait()
				if n := g.engines["b"].pipes; n != 0 && !tc.busy {
					t.Errorf("%d detours are carried by a host that has ended them all", n)
				}
			})
		})
	}
}

// FuzzHeader: headers of all kinds come back as they were; others are refused.
func FuzzHeader(f *testing.F) {
	for _, h := range []header{{lane: 3}, {lane: newsLane}, {lane: byLane, host: "b"}, {lane: fromLane, host: strings.Repeat("x", maxName)}} {
		f.Add(h.appendTo(nil))
	}
	f.Add(append(header{lane: byLane, host: "b"}.appendTo(nil)[:18], 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := newFrameReader(bytes.NewReader(in)).header()
		if err != nil {
			return
		}
		if h.lane > fromLane || (h.lane > newsLane) != (h.host != "") || len(h.host) > maxName {
			t.Fatalf("%+v", h)
		}
		if again, err := newFrameReader(bytes.NewReader(h.appendTo(nil))).header(); err != nil || again != h {
			t.Fatalf("%+v became %+v, %v", h, again, err)
		}
	})
}

// TestBorrow: what goes aside is what would be sent last, no more than the budget, and each entry once; what is confirmed to
// the whole ends both.
func TestBorrow(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := ringPlan(3)
		p.MessageBytes = 100
		g := newFakeGrid(t, p.Hosts, func(c *Config) {
			c.Path = func(string) Path { return Path{RTT: 10 * time.Millisecond, Rate: 1e6, Flows: 1} }
		})
		j := newJob(t, rand.New(rand.NewPCG(1, 44)), p, 10)
		x, err := newRun(t.Context(), g.engines["host0"], j.parts[0], j.data[0])
		if err != nil {
			t.Fatal(err)
		}
		defer x.cancel(nil)
		main := x.peers["host1"]
		main.path = g.engines["host0"].cfg.Path("host1")
		w := &route{site: "host1", host: 1, peers: []*peer{main}}
		x.divert(w, []string{"host2"}, 35)
		d := x.helped[0]
		x.mu.Lock()
		defer x.mu.Unlock()
		var moved []int
		for x.borrow(d) {
			moved = append(moved, d.out[0].b.index)
		}
		own := main.sends[0].blocks[0]
		if len(moved) != 4 || own.sent.has(5) || !own.sent.has(6) || own.by[9] != byGiven || d.out[0].awaited != 4 {
			t.Errorf("%d entries went aside, want 4, the last of ten: %b", len(moved), own.sent)
		}
		if err := x.confirmWhole(d, main.sends[0].ID); err != nil {
			t.Error(err)
		}
		if !main.sends[0].confirmed {
			t.Error("the answer to the whole came aside, and counts for nothing")
		}
	})
}

// confirmWhole has the peer answer on a lane of p that it has all of a transfer.
func (x *run) confirmWhole(p *peer, transfer int) error {
	x.mu.Unlock()
	defer x.mu.Lock()
	return x.answer(p, &outLane{}, &frame{kind: frameDone, number: transfer})
}
