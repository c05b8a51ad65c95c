package membership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
)

// idle returns a configuration over an endpoint that does not run.
func idle(t *testing.T, g *grid) Config {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ep, err := lane.New(lane.Config{Conn: conn, Credentials: credentials(t, g.ca, "h0")})
	if err != nil {
		t.Fatal(err)
	}
	return Config{Endpoint: ep, Name: "h0", Advertise: netip.MustParseAddrPort("10.0.0.1:7946"), Keys: [][]byte{make([]byte, 32)}, Log: slog.New(g.logs)}
}

// secrets returns what a cluster shares, without a network.
func secrets(t *testing.T) *grid {
	t.Helper()
	ca, err := identity.NewAuthority("grid", time.Now(), new(zeros))
	if err != nil {
		t.Fatal(err)
	}
	return &grid{t: t, ca: ca, key: make([]byte, 32), logs: &logBook{}}
}

// zeros is a poor source of randomness.
type zeros struct{}

func (*zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// Three agents on real sockets.
func TestOverLoopback(t *testing.T) {
	g := secrets(t)
	var nodes []*node
	for i := range 3 {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, startOn(t, g, conn, fmt.Sprintf("h%d", i), func(c *Config) { c.Profile = LAN }))
	}
	defer func() {
		done := make(chan struct{})
		go func() { defer close(done); nodes[0].stop() }()
		nodes[1].stop()
		<-done
	}()
	for _, n := range nodes[1:] {
		n.join(t, nodes[0])
	}
	agree(t, 10*time.Second, nodes, "h0 h1 h2")
	if err := nodes[2].Leave(t.Context()); err != nil {
		t.Error(err)
	}
	agree(t, 5*time.Second, nodes[:2], "h0 h1")
	if got := nodes[0].view(Left); got != "h2" {
		t.Errorf("left: %q, want h2", got)
	}
	nodes[2].stop()
}

func TestNewRefuses(t *testing.T) {
	g := secrets(t)
	if _, err := New(idle(t, g)); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Config){
		"endpoint is required":     func(c *Config) { c.Endpoint = nil },
		"host name \"a b\"":        func(c *Config) { c.Name = "a b" },
		"0.0.0.0:7946":             func(c *Config) { c.Advertise = netip.MustParseAddrPort("0.0.0.0:7946") },
		"10.0.0.1:0":               func(c *Config) { c.Advertise = netip.MustParseAddrPort("10.0.0.1:0") },
		"invalid AddrPort":         func(c *Config) { c.Advertise = netip.AddrPort{} },
		"zone":                     func(c *Config) { c.Advertise = netip.MustParseAddrPort("[fe80::1%eth0]:7946") },
		"gossip key is required":   func(c *Config) { c.Keys = nil },
		"gossip key 1 has 5 bytes": func(c *Config) { c.Keys = append(c.Keys, make([]byte, 5)) },
		"re-joins of 1ms":          func(c *Config) { c.Rejoin = time.Millisecond },
	}
	for want, spoil := range tests {
		c := idle(t, g)
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// The most common first failure: a loopback address given to hosts of other machines.
func TestLoopbackAdvertised(t *testing.T) {
	g := secrets(t)
	c := idle(t, g)
	c.Advertise = netip.MustParseAddrPort("127.0.0.1:7946")
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	var ae *AdvertiseError
	_, err = m.Join(t.Context(), []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:7946")})
	if !errors.As(err, &ae) || !strings.Contains(err.Error(), "--advertise") {
		t.Errorf("join: %v, want an AdvertiseError", err)
	}
	if m, err = New(idle(t, g)); err != nil {
		t.Fatal(err)
	}
	if err := m.delegate.NotifyAlive(&memberlist.Node{Name: "uk0", Addr: net.IPv4(10, 0, 0, 2), Port: 1}); !errors.Is(err, errNotMet) {
		t.Errorf("a member before any join: %v", err)
	}
	if err := m.delegate.NotifyMerge(nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err := m.delegate.NotifyAlive(&memberlist.Node{Name: "uk0", Addr: net.IPv4(127, 0, 0, 1), Port: 7946})
		if !errors.As(err, &ae) || ae.Host != "uk0" {
			t.Errorf("a member at loopback: %v", err)
		}
	}
	if n := g.logs.count("member refused", "uk0"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	for _, n := range []memberlist.Node{
		{Name: "UK0", Addr: net.IPv4(10, 0, 0, 2), Port: 1}, {Name: "a\x1b[2J", Addr: net.IPv4(10, 0, 0, 2), Port: 1},
		{Name: "uk0", Port: 1}, {Name: "uk0", Addr: net.IPv4zero, Port: 1}, {Name: "uk0", Addr: net.IPv4(10, 0, 0, 2)},
		{Name: "uk0", Addr: net.IP{1, 2, 3}, Port: 1},
	} {
		if m.delegate.NotifyAlive(&n) == nil {
			t.Errorf("let %q at %v:%d in", n.Name, n.Addr, n.Port)
		}
	}
	if err := m.delegate.NotifyAlive(&memberlist.Node{Name: "uk0", Addr: net.IPv4(10, 0, 0, 2), Port: 1}); err != nil {
		t.Errorf("kept uk0 out: %v", err)
	}
}

// memberlist suspects a host to which it has no route only if it is told so by type.
func TestWriteErrorsAreOpErrors(t *testing.T) {
	m, err := New(idle(t, secrets(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"nonsense", "10.0.0.2:7946"} {
		if to != "nonsense" {
			m.transport.ep.Close()
			go m.transport.ep.Run(context.Background())
			time.Sleep(50 * time.Millisecond) // the socket closes
		}
		_, err := m.transport.WriteTo([]byte("x"), to)
		var oe *net.OpError
		if e, ok := err.(*net.OpError); !ok || e.Op != "write" || e.Net != "udp" {
			t.Errorf("write to %s: %T %v (as OpError: %v)", to, err, err, errors.As(err, &oe))
		}
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	book := &logBook{}
	r := &refusals{log: slog.New(book), from: make(map[netip.AddrPort]*Refusal)}
	const flood = 3 * maxRefused
	for i := range flood {
		r.add(&net.UDPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 1 + i>>16}, reasonForeign, time.Unix(int64(i), 0))
	}
	list := r.list()
	if len(list) > maxRefused+1 || len(book.lines) > maxRefused+1 {
		t.Errorf("%d sources remembered and %d lines logged, at most %d may be", len(list), len(book.lines), maxRefused+1)
	}
	var sum uint64
	for _, e := range list {
		sum += e.Packets
	}
	if sum != flood || list[0].From.IsValid() || list[0].Packets != flood-maxRefused {
		t.Errorf("%d packets counted of %d, the rest is %+v", sum, flood, list[0])
	}
}

func TestForeign(t *testing.T) {
	ours, theirs := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	p := sealed(t, ours)
	if why, _ := foreign(p, [][]byte{theirs, ours}); why != "" {
		t.Errorf("own packet refused: %s", why)
	}
	if why, _ := foreign(p, [][]byte{theirs}); why != reasonForeign {
		t.Errorf("foreign packet: %q", why)
	}
	for i := range p { // any bit that changes on the way spoils it
		q := bytes.Clone(p)
		q[i] ^= 0x10
		if why, _ := foreign(q, [][]byte{ours}); why == "" {
			t.Errorf("packet changed at %d passed", i)
		}
		if why, _ := foreign(p[:i], [][]byte{ours}); why == "" {
			t.Errorf("packet cut to %d passed", i)
		}
	}
}

func TestAsksForProbe(t *testing.T) {
	for in, want := range map[string]bool{
		"": false, "\x01": true, "\x00x": false, "\x07": false, "\x07\x02": false,
		"\x0c----\x01x": true, "\x0c----\x02x": false,
		"\x07\x02\x00\x02\x00\x03ab\x01cd":               true,
		"\x0c----\x07\x02\x00\x03\x00\x02\x04\x01b\x02c": false, // a one inside a part
		"\x07\xff\x00\x01\x00\x01a":                      false, // cut off
	} {
		if got := asksForProbe([]byte(in)); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestTable(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
	}
	tab := newTable("self", []Peer{{Name: "self", Addr: at(9)}, {Name: "old", Addr: at(1), Site: "UT", Seen: now}})
	if all, _ := tab.list(); len(all) != 1 || all[0].State != Unseen || all[0].Site != "UT" {
		t.Errorf("remembered: %+v", all)
	}
	changes, stop := tab.subscribe()
	<-changes // the first is there at once
	tab.set(Member{Name: "new", Addr: at(1), State: Alive, Since: now})
	if _, ok := tab.get("old"); ok {
		t.Error("the former owner of an address is still known")
	}
	tab.set(Member{Name: "x", Addr: at(2), State: Alive, Since: now})
	select {
	case <-changes:
	default:
		t.Error("no signal after two changes")
	}
	select {
	case <-changes:
		t.Error("two changes that nobody saw gave two signals")
	default:
	}
	_, before := tab.list()
	tab.set(Member{Name: "x", Addr: at(2), State: Alive, Since: now})
	if _, after := tab.list(); after != before {
		t.Error("nothing changed, and it counted as a change")
	}
	stop()
	tab.set(Member{Name: "x", Addr: at(2), State: Left, Since: now})
	if len(changes) != 0 {
		t.Error("a signal after the end")
	}
	for i := range 2 * maxGone {
		tab.set(Member{Name: fmt.Sprintf("g%d", i), Addr: at(10 + i), State: Failed, Since: now.Add(time.Duration(i) * time.Second)})
	}
	all, _ := tab.list()
	if len(all) > maxGone+pruneSlack+1 {
		t.Errorf("%d members, of whom 1 is alive; at most %d gone are kept", len(all), maxGone)
	}
	if _, ok := tab.get("new"); !ok {
		t.Error("a live member was pruned")
	}
	if _, ok := tab.get(fmt.Sprintf("g%d", 2*maxGone-1)); !ok {
		t.Error("the newest loss was pruned")
	}
	if lost := tab.in(mrand.New(mrand.NewPCG(1, 1)), Failed); len(lost) < maxGone || !tab.company() {
		t.Errorf("%d lost, company %v", len(lost), tab.company())
	}
	tab.set(Member{Name: "l", Addr: at(5000), State: Left, Since: now})
	tab.set(Member{Name: "new", Addr: at(1), State: Failed, Since: now.Add(leftMemory + time.Hour)})
	if _, ok := tab.get("l"); ok {
		t.Error("who left a month ago is still remembered")
	}
}

func TestTableBuries(t *testing.T) {
	now := time.Unix(1e9, 0)
	addr := func(i byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, i}), 1) }
	table := func() *table {
		tab := newTable("self", []Peer{{Name: "unseen", Addr: addr(1), Seen: now}})
		tab.set(Member{Name: "alive", Addr: addr(2), State: Alive, Since: now})
		tab.set(Member{Name: "failed", Addr: addr(3), State: Failed, Since: now})
		tab.set(Member{Name: "left", Addr: addr(4), State: Left, Since: now})
		return tab
	}
	later := now.Add(leftMemory / 2)
	for _, tt := range []struct {
		name string
		addr byte
		left time.Time
		want State
		at   time.Time // 0: unchanged
	}{
		{"unseen", 1, now.Add(time.Hour), Left, now.Add(time.Hour)},
		{"unseen", 1, now.Add(-time.Hour), Unseen, now}, // it came back after that
		{"unseen", 1, now.Add(1000 * leftMemory), Left, later},
		{"unseen", 1, later.Add(-leftMemory - 1), Unseen, now},
		{"alive", 2, now.Add(time.Hour), Alive, now},
		{"failed", 3, now.Add(-leftSlack), Left, now.Add(-leftSlack)}, // found dead after it had left
		{"failed", 3, now.Add(-leftSlack - 1), Failed, now},
		{"left", 4, now.Add(time.Hour), Left, now.Add(time.Hour)},
		{"left", 4, now.Add(-time.Hour), Left, now},
		{"new", 5, now, Left, now},
		{"new", 2, now, 0, time.Time{}}, // the address is another's by now
		{"self", 6, now, 0, time.Time{}},
	} {
		tab := table()
		tab.bury([]Peer{{Name: tt.name, Addr: addr(tt.addr), Left: tt.left}, {Name: "not left", Addr: addr(9)}}, later)
		m, ok := tab.get(tt.name)
		if ok == tt.at.IsZero() || ok && (m.State != tt.want || !m.Since.Equal(tt.at)) {
			t.Errorf("%s at %d, left %v: %v %+v, want %v since %v", tt.name, tt.addr, tt.left, ok, m, tt.want, tt.at)
		}
		if _, ok := tab.get("not left"); ok {
			t.Error("who has not left was taken in")
		}
	}
	tab := table()
	for i := range 2 * maxTold {
		tab.set(Member{Name: fmt.Sprintf("l%d", i), Addr: addr(byte(i)), State: Left, Since: now.Add(time.Duration(i) * time.Second)})
	}
	told := tab.left(maxTold)
	if len(told) != maxTold || told[0].Name != fmt.Sprintf("l%d", 2*maxTold-1) {
		t.Errorf("tells of %d, first of %+v; want the last %d to leave", len(told), told[0], maxTold)
	}
}

func TestProbeClock(t *testing.T) {
	const p, longest = 2 * time.Second, 4 * time.Second
	now := time.Unix(1e9, 0)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for _, tt := range []struct {
		what         string
		before, last time.Duration
		now          time.Duration
		want         time.Duration
	}{
		{"both on their ticks, the next to come", 0, p, p + 500*time.Millisecond, 0},
		{"one tick between was passed over", 0, 2 * p, 2*p + 1, 0},
		{"the next is about to come", 0, p, 2*p - clockSlack, longest},
		{"the next has come a second ago", 0, p, 2*p + time.Second, longest - time.Second},
		{"the last began late, so the next tick is near", 0, p + p/2, p + p/2 + 1, longest},
		{"two answers to one probe", p, p + 1, p + 2, longest},
	} {
		c := probeClock{others: 1}
		c.answered(at(tt.before))
		c.answered(at(tt.last))
		if got := c.rest(at(tt.now), p, longest); got != tt.want {
			t.Errorf("%s: rests %v, want %v", tt.what, got, tt.want)
		}
	}
	var c probeClock
	c.company(1, at(0))
	if c.rest(at(time.Hour), p, longest) != longest {
		t.Error("no rest with a host to probe and no answer")
	}
	c.company(-1, at(0))
	if c.rest(at(longest), p, longest) == 0 || c.rest(at(longest+1), p, longest) != 0 {
		t.Error("alone: want none only when the last probe must be over")
	}
}

func FuzzNotifyMsg(f *testing.F) {
	f.Add([]byte("fuk0"))
	f.Add([]byte("suk0"))
	f.Add([]byte("e0123456789abcdef"))
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := &Config{Name: "self"}
		d := &delegate{cfg: cfg, log: slog.New(slog.DiscardHandler), table: newTable("self", nil), complaints: make(map[string]struct{})}
		d.table.set(Member{Name: "uk0", Addr: netip.MustParseAddrPort("10.0.0.1:1"), State: Alive})
		_, came := d.expectEcho()
		d.NotifyMsg(in)
		d.MergeRemoteState(in, true)
		select {
		case <-came:
			t.Errorf("%q passed for an echo", in)
		default:
		}
		if m, ok := d.table.get("uk0"); !ok || m.State != Alive {
			t.Errorf("%q changed a live member to %+v", in, m)
		}
	})
}

func TestPeersOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), identity.FilePeers)
	if got, err := ReadPeers(path); err != nil || got != nil {
		t.Errorf("missing file: %v, %v", got, err)
	}
	want := []Peer{
		{Name: "uk0", Addr: netip.MustParseAddrPort("192.0.2.1:7946"), Site: "UK", Seen: time.Unix(1e9, 0).UTC()},
		{Name: "uk1", Addr: netip.MustParseAddrPort("[2001:db8::1]:7946"), Seen: time.Unix(1e9, 0).UTC()},
		{Name: "uk2", Addr: netip.MustParseAddrPort("192.0.2.2:7946"), Seen: time.Unix(1e9, 0).UTC(), Left: time.Unix(1e9, 0).UTC()},
	}
	if err := SaveTo(path)(want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadPeers(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"peers":[{"name":"../x","addr":"10.0.0.1:1"},{"name":"ok","addr":"10.0.0.1:0"},{"name":"ok","addr":"10.0.0.1:1"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPeers(path); err != nil || len(got) != 1 || got[0].Name != "ok" {
		t.Errorf("of one good and two bad entries: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"version":2}`, `{"version":1,"peers":[{"addr":"x"}]}`} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPeers(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want an error that names the file", bad, err)
		}
	}
}

func TestMetaRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		rng := mrand.New(mrand.NewPCG(seed, 0))
		want := Meta{Site: strings.Repeat("s", rng.IntN(maxSite+1)), HoldsCA: rng.IntN(2) == 0, TCP: rng.IntN(2) == 0, Words: rng.IntN(2) == 0}
		if rng.IntN(4) > 0 {
			want.Started = time.Unix(1+rng.Int64N(1<<40), 0).UTC()
		}
		if rng.IntN(2) == 0 {
			want.Switches = rng.Uint64()
		}
		b := want.appendTo(nil)
		if len(b) > 84 {
			t.Fatalf("seed %d: %d bytes", seed, len(b))
		}
		for _, in := range [][]byte{b, append(bytes.Clone(b), "of a later release"...)} {
			if got, err := parseMeta(in); err != nil || got != want {
				t.Fatalf("seed %d: %+v became %+v, %v", seed, want, got, err)
			}
		}
		for n := range b {
			if _, err := parseMeta(b[:n]); err == nil {
				t.Fatalf("seed %d: cut to %d of %d and not noticed", seed, n, len(b))
			}
		}
	}
}

func TestParseLine(t *testing.T) {
	tests := []struct {
		in    string
		level slog.Level
		text  string
	}{
		{"[ERR] memberlist: Push/Pull with x failed: y\n", slog.LevelInfo, "Push/Pull with x failed: y"},
		{"[WARN] memberlist: Refuting a suspect message (from: a)\n", slog.LevelDebug, "Refuting a suspect message (from: a)"},
		{"[DEBUG] memberlist: x [ERR] y", slog.LevelDebug, "x [ERR] y"},
		{"no level", slog.LevelDebug, "no level"},
		{"", slog.LevelDebug, ""},
		{"] ", slog.LevelDebug, "]"},
	}
	for _, tc := range tests {
		if level, text := parseLine([]byte(tc.in)); level != tc.level || text != tc.text {
			t.Errorf("%q: %v %q, want %v %q", tc.in, level, text, tc.level, tc.text)
		}
	}
}

func TestRTTIsChecked(t *testing.T) {
	var got []time.Duration
	d := &delegate{cfg: &Config{RTT: func(_ string, d time.Duration) { got = append(got, d) }}}
	for _, rtt := range []time.Duration{-1, 0, 1, time.Second, maxRTT, 1 << 62} {
		d.NotifyPingComplete(&memberlist.Node{Name: "x"}, rtt, nil)
	}
	if !reflect.DeepEqual(got, []time.Duration{1, time.Second}) {
		t.Errorf("passed on %v", got)
	}
}

func FuzzParseMeta(f *testing.F) {
	f.Add(Meta{Site: "UT", HoldsCA: true, Started: time.Unix(1e9, 0)}.appendTo(nil))
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := parseMeta(in)
		if err != nil {
			return
		}
		if again, err := parseMeta(m.appendTo(nil)); err != nil || again != m {
			t.Errorf("%x: %+v became %+v, %v", in, m, again, err)
		}
	})
}

func FuzzParsePeers(f *testing.F) {
	f.Add([]byte(`{"version":1,"peers":[{"name":"uk0","addr":"192.0.2.1:7946","site":"UK","seen":"2030-01-02T03:04:05Z"}]}`))
	f.Add([]byte(`{"version":1,"peers":[{"name":"uk0","addr":"[::ffff:192.0.2.1]:7946"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		peers, err := ParsePeers(in)
		if err != nil {
			return
		}
		for _, p := range peers {
			if checkAddr(p.Addr) != nil || p.Addr != normal(p.Addr) {
				t.Errorf("%q: took address %v", in, p.Addr)
			}
		}
		out, err := FormatPeers(peers)
		if err != nil {
			return // a year after 9999 has no JSON
		}
		again, err := ParsePeers(out)
		if err != nil || len(again) != len(peers) {
			t.Errorf("%q: %d peers became %d, %v", in, len(peers), len(again), err)
		}
	})
}
