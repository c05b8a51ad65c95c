package exchange

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestHostilePeer lets a certified member of the exchange send what the plan does not
// give it. Each time the run ends with a ProtocolError that names it.
func TestHostilePeer(t *testing.T) {
	chunk := func(number, index, n int) string {
		return string((&frame{kind: frameChunk, number: number, index: index, n: n}).appendTo(nil)) + strings.Repeat("x", min(n, 100))
	}
	for _, tc := range []struct{ name, wire, want string }{
		{"unknown kind", "\x66", "kind 0x66"},
		{"answer from the opener", "\x11\x00", "kind 0x11"},
		{"window answer from the opener", "\x16\x00\x00", "kind 0x16"},
		{"unknown block", chunk(9, 0, 10), "block 9"},
		{"own block", chunk(1, 0, 10), "block 1"},
		{"chunk out of range", chunk(0, 10, 10), "chunk 10 of block 0"},
		{"too many bytes", chunk(0, 0, 11), "has 11 bytes, want 10"},
		{"huge length", chunk(0, 0, maxNumber), "want 10"},
		{"too few bytes", chunk(0, 0, 9), "has 9 bytes"},
		{"token", "\x03\x01", "token of transfer 1"},
		{"two checksums", "\x02\x0012345678\x02\x0012345679", "checksum"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := ringPlan(2)
				p.MessageBytes = 100
				g := newFakeGrid(t, p.Hosts, nil)
				j := newJob(t, rand.New(rand.NewPCG(1, 40)), p, 10)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				// host0 runs no part: the test speaks for it.
				s, err := g.open(ctx, "host0", "host1")
				if err != nil {
					t.Fatal(err)
				}
				go io.Copy(io.Discard, s)
				s.Write(append(header{id: j.parts[1].ID}.appendTo(nil), tc.wire...))
				_, err = g.engines["host1"].Run(ctx, j.parts[1], j.data[1])
				var pe *ProtocolError
				if !errors.As(err, &pe) || pe.Peer != "host0" || !strings.Contains(pe.Reason, tc.want) {
					t.Errorf("got %v, want a protocol error by host0 with %q", err, tc.want)
				}
				s.Abort()
				g.accepts.Wait()
				cancel()
				time.Sleep(time.Minute) // what waits for host0's part gives up
				g.accepts.Wait()
			})
		})
	}
}

// TestHostileAnswers lets the receiver of data answer what it must not.
func TestHostileAnswers(t *testing.T) {
	for _, wire := range []string{"\x11\x09", "\x12\x00", "\x16\x0a\x00", "\x13\x00\x00\x0d", "\x13\x01\x00\x01", "\x13\x00\x80\x80\x01\x01", "\x01\x00\x00\x00", "\xff"} {
		inBubble(t, func(t *testing.T) {
			p := ringPlan(2)
			p.MessageBytes = 100
			cfg := Config{Self: "host0", Open: func(context.Context, string, int) (Stream, error) {
				a, b := fakePair(1 << 10)
				go func() {
					b.Write([]byte(wire))
					io.Copy(io.Discard, b)
				}()
				return a, nil
			}}
			e, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			j := newJob(t, rand.New(rand.NewPCG(1, 41)), p, 10)
			_, err = e.Run(t.Context(), j.parts[0], j.data[0])
			var pe *ProtocolError
			if !errors.As(err, &pe) || pe.Peer != "host1" {
				t.Errorf("%q: got %v, want a protocol error by host1", wire, err)
			}
		})
	}
}

// TestStranger opens a stream from a host that has nothing to send here: it is told
// so, and the exchange goes on.
func TestStranger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := ringPlan(3)
		p.MessageBytes = 5000
		g := newFakeGrid(t, p.Hosts, nil)
		g.stream = func(_, _ string, s *fakeStream) { s.pause = func() { time.Sleep(time.Millisecond) } }
		j := newJob(t, rand.New(rand.NewPCG(1, 42)), p, 100)
		time.AfterFunc(10*time.Millisecond, func() {
			s, _ := g.open(t.Context(), "host2", "host1") // in a ring, host 1 gets its blocks from host 0
			s.Write(header{id: j.parts[1].ID}.appendTo(nil))
			b, _ := io.ReadAll(s)
			if !strings.Contains(string(b), "expects nothing from host2") {
				t.Errorf("the stranger was told %q", b)
			}
			s.Abort()
		})
		if _, errs := g.run(t.Context(), j); errors.Join(errs...) != nil {
			t.Error(errs)
		}
		g.accepts.Wait()
	})
}

func TestWaitingIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newFakeGrid(t, []string{"a", "b"}, func(c *Config) { c.MaxWaiting = 3; c.WaitStart = time.Second })
		began := time.Now()
		ended := make(chan time.Duration, 5)
		for i := range 5 {
			s, _ := g.open(t.Context(), "a", "b")
			s.Write(header{id: ID{byte(i)}}.appendTo(nil))
			go func() {
				io.Copy(io.Discard, s)
				ended <- time.Since(began)
			}()
		}
		at := map[time.Duration]int{}
		for range 5 {
			at[<-ended]++
		}
		if at[0] != 2 || at[time.Second] != 3 {
			t.Errorf("streams ended at %v, want 2 at once and 3 after a second", at)
		}
		g.accepts.Wait()
		if n := len(g.engines["b"].expected); n != 0 || g.engines["b"].waiting != 0 {
			t.Errorf("%d exchanges are still expected", n)
		}
	})
}

func TestRunRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 43))
		p := alltoallPlan(rng, 5, 1)
		p.MessageBytes = 1000
		g := newFakeGrid(t, p.Hosts, func(c *Config) { c.MaxTransit = 1 })
		j := newJob(t, rng, p, 100)
		forwards := 0
		for h, part := range j.parts {
			if part.Transit() == 0 {
				continue
			}
			forwards++
			if _, err := g.engines[p.Hosts[h]].Run(t.Context(), part, j.data[h]); !errors.Is(err, ErrTransit) {
				t.Errorf("host %d forwards %d bytes: %v", h, part.Transit(), err)
			}
		}
		if forwards == 0 {
			t.Error("nobody forwards")
		}
		e := g.engines["host0"]
		part, data := j.parts[0], j.data[0]
		if _, err := e.Run(t.Context(), j.parts[1], j.data[1]); err == nil {
			t.Error("ran another host's part")
		}
		for name, layout := range map[string]func(b Block) []Segment{
			"too short":   func(b Block) []Segment { return []Segment{{0, b.Size - 1}} },
			"too long":    func(b Block) []Segment { return []Segment{{0, b.Size + 1}} },
			"outside":     func(b Block) []Segment { return []Segment{{int64(len(data.Result)), b.Size}} },
			"negative":    func(b Block) []Segment { return []Segment{{-1, b.Size}} },
			"overlapping": func(b Block) []Segment { return []Segment{{0, b.Size}} },
			"none":        func(Block) []Segment { return nil },
		} {
			if _, err := e.Run(t.Context(), part, Data{Result: data.Result, Layout: layout}); err == nil {
				t.Errorf("layout %s: accepted", name)
			}
		}
		one := ringPlan(1)
		j = newJob(t, rng, one, 0)
		if _, err := e.Run(t.Context(), j.parts[0], j.data[0]); err != nil {
			t.Errorf("one host: %v", err)
		}
		if _, err := e.Run(t.Context(), j.parts[0], j.data[0]); !errors.Is(err, ErrRunning) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestDuplicates sends chunks twice, and one of them on a second lane while the first
// lane holds half of it and then breaks: whichever copy is dropped, the block is whole.
func TestDuplicates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPlanner(plan.Allgather, 2)
		p.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
		p.add(1, 0, plan.Block{Origin: 1, Dest: plan.All})
		p.p.Sizes = []int64{30, 0}
		g := newFakeGrid(t, p.p.Hosts, nil)
		j := newJob(t, rand.New(rand.NewPCG(1, 44)), p.p, 10)
		want := content(p.p, plan.Block{Origin: 0, Dest: plan.All})
		var sum uint64
		m := memory{pieces: [][]byte{want[:30]}, starts: []int64{0}}
		for i := range 3 {
			sum += sumWord(i, m.crc(int64(i*10), 10))
		}
		chunk := func(i int) []byte {
			return append((&frame{kind: frameChunk, index: i, n: 10}).appendTo(nil), want[i*10:i*10+10]...)
		}
		dial := func(n int) *fakeStream {
			s, err := g.open(t.Context(), "host0", "host1")
			if err != nil {
				t.Fatal(err)
			}
			s.Write(header{id: j.parts[1].ID, lane: n}.appendTo(nil))
			return s.(*fakeStream)
		}
		first, second := dial(0), dial(1)
		go func() {
			first.Write(chunk(0))
			first.Write(chunk(0))
			first.Write(chunk(1)[:8]) // claimed, and never finished here
			time.Sleep(time.Second)
			second.Write(chunk(1)) // waits for the claim
			time.Sleep(time.Second)
			if n := j.data[1].Progress.Received.Load(); n != 10 {
				t.Errorf("%d bytes have arrived while chunk 1 is claimed, want 10", n)
			}
			first.Abort()
			second.Write(chunk(2))
			second.Write((&frame{kind: frameSum, sum: sum}).appendTo(nil))
			second.Write((&frame{kind: frameSum, sum: sum}).appendTo(nil))
			second.Write([]byte{frameAsk})
			time.Sleep(time.Second)
			second.Close()
		}()
		// host0 runs no part: to its stream of the empty block the test answers.
		g.engines["host1"].cfg.Open = func(context.Context, string, int) (Stream, error) {
			a, b := fakePair(1 << 10)
			go func() {
				b.Write((&frame{kind: frameDone, number: 1}).appendTo(nil))
				io.Copy(io.Discard, b)
			}()
			return a, nil
		}
		st, err := g.engines["host1"].Run(t.Context(), j.parts[1], j.data[1])
		if err == nil {
			err = j.check(1)
		}
		if err != nil {
			t.Error(err)
		}
		if d := st.Peers["host0"].Duplicates; d != 10 {
			t.Errorf("%d bytes were duplicates, want 10", d)
		}
		got, _ := io.ReadAll(second)
		if !strings.Contains(string(got), "\x11\x00") {
			t.Errorf("host1 answered %q, want done with transfer 0 in it", got)
		}
		g.accepts.Wait()
	})
}
