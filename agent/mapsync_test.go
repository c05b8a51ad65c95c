package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	var frames mapSync
	all := [][]byte{{}, {1}, bytes.Repeat([]byte{7}, 300), bytes.Repeat([]byte{9}, 1<<20)}
	for _, f := range all {
		if err := frames.write(&buf, f); err != nil {
			t.Fatal(err)
		}
	}
	if sent, _ := frames.Bytes(); sent != uint64(buf.Len()) {
		t.Errorf("%d bytes counted of %d", sent, buf.Len())
	}
	whole := bytes.Clone(buf.Bytes())
	r := bufio.NewReader(&buf)
	for i, want := range all {
		if got, err := readFrame(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("frame %d: %d bytes, %v, want %d", i, len(got), err, len(want))
		}
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(whole[:len(whole)-1]))); err != nil {
		t.Errorf("first frame of a stream that is cut later: %v", err)
	}
	cut := binary.AppendUvarint(nil, 10)
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(append(cut, 1, 2, 3)))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("3 of 10 bytes: %v", err)
	}
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(binary.AppendUvarint(nil, netmap.MaxMessage+1)))); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is too long: %v", err)
	}
}

// TestStrangersRows: rows of hosts that are no members are neither taken nor kept.
func TestStrangersRows(t *testing.T) {
	now := time.Now()
	estimate := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps}
	members := map[string]bool{"a": true, "b": true}
	theirs, stranger, mine := newMap(t, "b", nil), newMap(t, "x", nil), newMap(t, "a", func(n string) bool { return members[n] })
	if err := errors.Join(theirs.Set("b", "a", estimate, now), stranger.Set("x", "a", estimate, now)); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*netmap.Map{theirs, stranger} {
		if urgent, err := m.Publish(now, false); !urgent || err != nil {
			t.Fatal(urgent, err)
		}
	}
	compare(t, theirs, stranger, now)
	compare(t, mine, theirs, now)
	if got := mine.Reporters(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("after the exchange: rows of %v, want b's and not x's", got)
	}
	s := newMapSync(mine, nil, "")
	s.known = func(n string) bool { return members[n] }
	delete(members, "b")
	s.forgetStrangers()
	if got := mine.Reporters(); len(got) != 0 {
		t.Errorf("b is no member any more, and still there: %v", got)
	}
}

func newMap(t *testing.T, self string, member func(string) bool) *netmap.Map {
	t.Helper()
	m, err := netmap.NewMap(netmap.MapConfig{Self: self, Member: member})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compare makes one round between two maps.
func compare(t *testing.T, a, b *netmap.Map, now time.Time) {
	t.Helper()
	r, request := a.Start("b", now)
	for range maxMapRequests {
		answer, _, fault, err := b.Answer("a", request, now)
		if fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if request, fault, err = r.Next(answer, now); fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if request == nil {
			return
		}
	}
	t.Fatal("the round does not end")
}

// News of one's own go to both other sites at once, and inside the site beside that: a round over a link that an exchange fills holds up
// nobody. Where it fails, it is not tried again without end. Virtual time; when run returns its rounds have ended.
func TestNewsDoNotWaitForFarRounds(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMap(t, "a0", nil)
			s := newMapSync(m, nil, "a")
			s.peers = func() []netmap.Host {
				return []netmap.Host{{Name: "a1", Site: "a"}, {Name: "a2", Site: "a"}, {Name: "b0", Site: "b"}, {Name: "b1", Site: "b"}, {Name: "c0", Site: "c"}}
			}
			s.known, s.busy, s.log = func(string) bool { return true }, func() bool { return true }, discardLog()
			var mu sync.Mutex // guards what follows
			begun := make(map[byte][]time.Duration)
			far, most, full := 0, 0, false // full: the links to other sites are
			begin := time.Now()
			s.meet = func(ctx context.Context, peer string) (bool, error) {
				m.Start(peer, time.Now()) // takes news along
				count := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					far += by
					most = max(most, far)
				}
				mu.Lock()
				begun[peer[0]] = append(begun[peer[0]], time.Since(begin))
				quick := peer[0] == 'a' || !full
				mu.Unlock()
				if quick {
					return false, nil
				}
				count(1)
				defer count(-1)
				if cut {
					return false, errors.New("the link is cut")
				}
				if !sleep(ctx, 8*time.Second) {
					return false, context.Cause(ctx)
				}
				return false, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); s.run(ctx) }()
			time.Sleep(30 * time.Second) // it has met others
			mu.Lock()
			clear(begun)
			begin, full = time.Now(), true
			mu.Unlock()
			if err := m.Set("a0", "b0", netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps}, time.Now()); err != nil {
				t.Fatal(err)
			}
			s.wake()
			time.Sleep(10 * time.Second)
			cancel()
			<-ended
			mu.Lock()
			defer mu.Unlock()
			for _, site := range []byte("abc") {
				if at := begun[site]; len(at) == 0 || at[0] > 400*time.Millisecond {
					t.Errorf("cut %v: rounds with site %c began after %v, want one within 0.4 s", cut, site, at)
				}
			}
			if n := len(begun['b']) + len(begun['c']); far != 0 || most > maxCrossing || n > 20 {
				t.Errorf("cut %v: %d rounds are under way, there were up to %d, and %d in 10 s with other sites", cut, far, most, n)
			}
		})
	}
}

// What a host has learned of links in its first seconds goes on its own account when it has waited for more of its kind, also where
// nothing wakes the host. Virtual time.
func TestHeldNewsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		m := newMap(t, "a", nil)
		const others = 60
		estimate := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps}
		for i := range others {
			o := newMap(t, fmt.Sprint("h", i), nil)
			if err := o.Set(fmt.Sprint("h", i), "a", estimate, now); err != nil {
				t.Fatal(err)
			}
			if _, err := o.Publish(now, false); err != nil {
				t.Fatal(err)
			}
			compare(t, m, o, now)
		}
		other := newMap(t, "b", nil)
		s := newMapSync(m, nil, "a")
		s.peers = func() []netmap.Host { return []netmap.Host{{Name: "b", Site: "a"}} }
		s.known, s.busy, s.log = func(string) bool { return true }, func() bool { return false }, discardLog()
		s.meet = func(context.Context, string) (bool, error) {
			compare(t, m, other, time.Now())
			return false, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		time.Sleep(12 * time.Second) // it is quiet
		set := func(peer string) {
			if err := m.Set("a", peer, estimate, time.Now()); err != nil {
				t.Fatal(err)
			}
			s.wake()
		}
		heard := func(peer string, limit time.Duration) {
			t.Helper()
			begin := time.Now()
			for time.Since(begin) < limit {
				if _, ok := other.Lookup("a", peer, time.Now()); ok {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("no word of %s within %v", peer, limit)
		}
		set("x")
		heard("x", 300*time.Millisecond)
		set("y")
		heard("y", 1200*time.Millisecond) // 61 reporters, 10 ms each, and two pauses
		cancel()
		<-ended
	})
}

// A host of another site that says after each round that there is more, as one that lies may, is turned to again after a pause, as any.
// Virtual time.
func TestMoreAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMapSync(newMap(t, "a0", nil), nil, "a")
		s.peers = func() []netmap.Host { return []netmap.Host{{Name: "b0", Site: "b"}} }
		s.known, s.busy, s.log = func(string) bool { return true }, func() bool { return false }, discardLog()
		var rounds atomic.Int64
		s.meet = func(ctx context.Context, _ string) (bool, error) {
			rounds.Add(1)
			sleep(ctx, time.Millisecond)
			return true, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		const span = 10 * time.Second
		time.Sleep(span)
		cancel()
		<-ended
		if n := rounds.Load(); n < 20 || n > int64(span/(mapPausePass/2)) {
			t.Errorf("%d rounds in %v", n, span)
		}
	})
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 2, 3})
	f.Add(bytes.Repeat([]byte{0xff}, 11))
	f.Add(binary.AppendUvarint(nil, netmap.MaxMessage))
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := readFrame(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return
		}
		if len(b) > len(in) {
			t.Fatalf("%d bytes out of %d", len(b), len(in))
		}
		var again bytes.Buffer
		if err := new(mapSync).write(&again, b); err != nil {
			t.Fatal(err)
		}
		if c, err := readFrame(bufio.NewReader(&again)); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
