package lane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/quic-go/quic-go"
)

// udpAt is the i-th address of a test.
func udpAt(i int) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, 0, byte(i)), Port: 7946} }

// testLink is a link without a connection, and what ends it.
func testLink(name string, addr net.Addr, lane int, dialed bool) (*link, context.CancelFunc) {
	up, end := context.WithCancel(context.Background())
	return &link{up: up, peer: Peer{Name: name, Addr: addr}, lane: lane, dialed: dialed}, end
}

// TestLinksAgainstList compares links with the plain rule, applied to a list of all that
// has happened: the newest that lives, leads there, and may be used.
func TestLinksAgainstList(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newLinks()
		type entry struct {
			*link
			end context.CancelFunc
		}
		var all []entry
		for range 60 {
			switch rng.IntN(4) {
			case 0, 1:
				dialed := rng.IntN(2) == 0
				lane := rng.IntN(3)
				if !dialed {
					lane = min(lane, 1)
				}
				l, end := testLink(fmt.Sprintf("h%d", rng.IntN(4)), udpAt(rng.IntN(4)), lane, dialed)
				if !s.add(l) {
					t.Fatalf("seed %d: link refused", seed)
				}
				all = append(all, entry{l, end})
			case 2: // its end is seen, and a little later it is removed
				if len(all) > 0 {
					all[rng.IntN(len(all))].end()
				}
			case 3:
				if len(all) > 0 {
					i := rng.IntN(len(all))
					all[i].end()
					s.remove(all[i].link)
					all = slices.Delete(all, i, i+1)
				}
			}
			for i := range 4 {
				for lane := range 3 {
					byName := target{name: fmt.Sprintf("h%d", i), lane: lane}
					byAddr := target{addr: udpAt(i), lane: lane}
					var wantName, wantAddr *link
					for _, e := range all {
						if e.up.Err() != nil || e.lane != lane || (lane > 0 && !e.dialed) {
							continue
						}
						if e.peer.Name == byName.name {
							wantName = e.link
						}
						if e.peer.Addr.String() == byAddr.addr.String() {
							wantAddr = e.link
						}
					}
					if got := s.find(byName); got != wantName {
						t.Fatalf("seed %d: %+v leads to %+v, want %+v", seed, byName, got, wantName)
					}
					if got := s.find(byAddr); got != wantAddr {
						t.Fatalf("seed %d: %+v leads to %+v, want %+v", seed, byAddr, got, wantAddr)
					}
				}
			}
			if len(s.order) != len(all) {
				t.Fatalf("seed %d: %d links, want %d", seed, len(s.order), len(all))
			}
		}
		for _, e := range all {
			s.remove(e.link)
		}
		if len(s.of) != 0 || len(s.order) != 0 {
			t.Fatalf("seed %d: %d members and %d links are left", seed, len(s.of), len(s.order))
		}
	}
}

func TestLinksOfOneMemberAreBounded(t *testing.T) {
	s := newLinks()
	first, _ := testLink("a", udpAt(1), 0, false)
	s.add(first)
	for range maxAccepted - 1 {
		l, _ := testLink("a", udpAt(1), 1, false)
		if !s.add(l) {
			t.Fatal("refused too early")
		}
	}
	more, _ := testLink("a", udpAt(1), 0, false)
	if s.add(more) {
		t.Error("one too many was taken")
	}
	ours, _ := testLink("a", udpAt(1), 3, true)
	if !s.add(ours) {
		t.Error("a lane that this host dialed was refused")
	}
	other, _ := testLink("b", udpAt(1), 0, false)
	if !s.add(other) {
		t.Error("another member was refused")
	}
	s.remove(first)
	if !s.add(more) {
		t.Error("refused although there is room")
	}
}

func TestAttempts(t *testing.T) {
	s := newLinks()
	begin := func(t2 target) *attempt {
		t.Helper()
		a, begun := s.attempt(t2)
		if !begun {
			t.Fatalf("%v is being dialed", t2)
		}
		return a
	}
	settled := func(a *attempt) bool {
		select {
		case <-a.settled:
			return true
		default:
			return false
		}
	}
	old := begin(target{name: "a", addr: udpAt(1)})
	moved := begin(target{name: "a", addr: udpAt(2)})
	lane1 := begin(target{name: "a", lane: 1, addr: udpAt(2)})
	unnamed := begin(target{addr: udpAt(3)})
	other := begin(target{name: "b", addr: udpAt(3)})
	v6 := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2).To16(), Port: 7946}
	if a, begun := s.attempt(target{name: "a", addr: v6}); begun || a != moved {
		t.Error("the same address in its IPv6 form is dialed again")
	}

	further, _ := testLink("a", udpAt(3), 1, false) // not ours to use
	s.add(further)
	if settled(old) || settled(moved) || settled(lane1) || settled(unnamed) {
		t.Error("an accepted lane 1 settled a dial")
	}
	l, _ := testLink("a", udpAt(3), 0, false)
	s.add(l)
	for _, a := range []*attempt{old, moved, unnamed} {
		if !settled(a) || a.link != l || a.err != nil {
			t.Errorf("%v: not settled by the member's own call", a.target)
		}
	}
	if settled(lane1) || settled(other) {
		t.Error("settled by a link that leads elsewhere")
	}
	s.settle(moved, nil, net.ErrClosed) // its dial fails later
	if moved.err != nil {
		t.Error("settled twice")
	}
	s.settle(other, nil, net.ErrClosed)
	if !settled(other) || other.err != net.ErrClosed {
		t.Error("not settled by its failure")
	}
	if len(s.dials) != 1 {
		t.Errorf("%d dials are left, want 1", len(s.dials))
	}
}

func TestSameAddr(t *testing.T) {
	unix := &net.UnixAddr{Name: "x", Net: "unixgram"}
	tests := []struct {
		a, b net.Addr
		want bool
	}{
		{udpAt(1), udpAt(1), true},
		{udpAt(1), udpAt(2), false},
		{udpAt(1), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1).To4(), Port: 7946}, true},
		{udpAt(1), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, false},
		{udpAt(1), nil, false},
		{nil, nil, false},
		{unix, unix, true},
		{unix, udpAt(1), false},
		{(*net.UDPAddr)(nil), udpAt(1), false},
		{&net.UDPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "a"}, &net.UDPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "b"}, false},
	}
	for _, tc := range tests {
		if got := sameAddr(tc.a, tc.b); got != tc.want {
			t.Errorf("%v and %v: %v", tc.a, tc.b, got)
		}
		if got := sameAddr(tc.b, tc.a); got != tc.want {
			t.Errorf("%v and %v: %v", tc.b, tc.a, got)
		}
	}
}

// TestBudget: whatever connections ask, the sum of what they hold and what is left is
// the total, nobody holds more than half of what was left over, and what ends gives all back.
func TestBudget(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		total := rng.Uint64N(1 << 28)
		b := newBudget(total)
		conns := make([]*quic.Conn, 20)
		held := make(map[*quic.Conn]uint64)
		in := make(map[*quic.Conn]bool)
		sum := uint64(0)
		for i := range conns {
			conns[i] = new(quic.Conn)
		}
		for range 400 {
			c := conns[rng.IntN(len(conns))]
			switch rng.IntN(10) {
			case 0:
				b.release(c)
				sum -= held[c]
				delete(held, c)
				in[c] = false
			case 1:
				b.admit(c)
				in[c] = true
			default:
				delta := uint64(1) << rng.IntN(27)
				if rng.IntN(50) == 0 {
					delta = ^uint64(0) - rng.Uint64N(3) // must not wrap around
				}
				left := total - sum
				want := in[c] && delta <= left/2 && held[c]+delta <= left/2
				if got := b.grow(c, delta); got != want {
					t.Fatalf("seed %d: %d more for one that has %d of %d, %d left: %v", seed, delta, held[c], total, left, got)
				}
				if want {
					held[c] += delta
					sum += delta
				}
			}
			if b.left != total-sum {
				t.Fatalf("seed %d: %d left of %d, %d are held", seed, b.left, total, sum)
			}
		}
		for _, c := range conns {
			b.release(c)
		}
		if b.left != total || len(b.given) != 0 {
			t.Fatalf("seed %d: %d of %d came back", seed, b.left, total)
		}
	}
}

// TestBudgetReachesAll: twenty connections that ask for all they can get, one after
// the other, all get something.
func TestBudgetReachesAll(t *testing.T) {
	b := newBudget(defaultBudget)
	for i := range 20 {
		c := new(quic.Conn)
		b.admit(c)
		window := uint64(initialConnWindow)
		for window < defaultWindow && b.grow(c, min(window, defaultWindow-window)) {
			window = min(2*window, defaultWindow)
		}
		if i == 0 && window < 96<<20 {
			t.Errorf("the first connection got a window of %d bytes", window)
		}
		if i < 6 && window < 8*initialConnWindow {
			t.Errorf("connection %d got a window of %d bytes", i, window)
		}
	}
	if b.left > defaultBudget/8 {
		t.Errorf("%d bytes were left to nobody", b.left)
	}
}

func TestDoor(t *testing.T) {
	var d door
	var vs []*visitor
	for i := range maxHandshakes {
		if d.crowded() != (i >= crowd) {
			t.Fatalf("crowded with %d: %v", i, d.crowded())
		}
		v, err := d.knock(udpAt(i))
		if err != nil {
			t.Fatal(err)
		}
		vs = append(vs, v)
	}
	if _, err := d.knock(udpAt(1)); err == nil {
		t.Error("one handshake too many was begun")
	}
	for i, v := range vs {
		if !d.gone(v) || d.gone(v) {
			t.Fatalf("visitor %d was counted wrong", i)
		}
	}
	if d.waiting != 0 || d.crowded() {
		t.Errorf("%d handshakes in progress", d.waiting)
	}
	for i := range 2 {
		for k := range maxJoinsFrom {
			if !d.enter(udpAt(i)) {
				t.Fatalf("join %d from address %d was refused", k, i)
			}
		}
		if d.enter(udpAt(i)) {
			t.Error("one address has too many joins")
		}
	}
	if d.enter(udpAt(3)) {
		t.Error("one join too many")
	}
	d.leave(udpAt(0))
	if !d.enter(udpAt(3)) {
		t.Error("refused although there is room")
	}
	d.leave(udpAt(3))
	for i, n := range []int{maxJoinsFrom - 1, maxJoinsFrom} {
		for range n {
			d.leave(udpAt(i))
		}
	}
	if d.joining != 0 || len(d.joinFrom) != 0 {
		t.Errorf("%d joins, %d addresses are left", d.joining, len(d.joinFrom))
	}
}
