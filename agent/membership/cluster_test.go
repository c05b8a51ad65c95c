package membership

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	mrand "math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
)

// inBubble runs f in virtual time, and ends the test with all stacks if that takes
// too long: a stopped clock waits for ever.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	watchdog := time.AfterFunc(4*time.Minute, func() { panic("the bubble's clock stands still") })
	defer watchdog.Stop()
	synctest.Test(t, f)
}

// A grid is a network of sites a, b, … with agents on it.
type grid struct {
	t    *testing.T
	net  *gridnet.Network
	ca   *identity.Authority
	key  []byte
	logs *logBook

	roots *identity.Authority // whose certificates are accepted; nil: those of ca
}

// A node is an agent reduced to endpoint and membership.
type node struct {
	*Membership
	host string
	addr netip.AddrPort
	ep   *lane.Endpoint
	rtts sync.Map             // name → time.Duration
	disk chan []Peer          // holds what was saved last
	ends chan *NameTakenError // gets the error that ended it by itself
	stop func()               // leaves without a word and waits
	kill func()               // ends without closing anything: the power went
}

// newGrid makes a network with the given numbers of hosts in its sites, 20 ms apart.
// It must be closed in the bubble.
func newGrid(t *testing.T, hosts ...int) *grid {
	t.Helper()
	cfg := gridnet.Config{RealTime: false}
	for i, n := range hosts {
		s := gridnet.Site{Name: string(rune('a' + i)), Latency: 100 * time.Microsecond}
		for j := range n {
			s.Hosts = append(s.Hosts, fmt.Sprintf("%s%d", s.Name, j))
		}
		for _, o := range cfg.Sites {
			cfg.Links = append(cfg.Links,
				gridnet.Link{From: s.Name, To: o.Name, Rate: 10 * gridnet.Mbps, Latency: 20 * time.Millisecond},
				gridnet.Link{From: o.Name, To: s.Name, Rate: 10 * gridnet.Mbps, Latency: 20 * time.Millisecond})
		}
		cfg.Sites = append(cfg.Sites, s)
	}
	n, err := gridnet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := identity.NewAuthority("grid", time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewGossipKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &grid{t: t, net: n, ca: ca, key: key, logs: &logBook{}}
}

func (g *grid) close() {
	if err := g.net.Close(); err != nil {
		g.t.Errorf("close network: %v", err)
	}
}

func credentials(t *testing.T, ca *identity.Authority, name string) lane.Credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := ca.Issue(name, &key.PublicKey, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	return lane.Credentials{Certificate: tls.Certificate{Certificate: [][]byte{der, ca.Cert.Raw}, PrivateKey: key}, Roots: roots}
}

// start runs an agent called host on its emulated machine.
func (g *grid) start(host string, edit ...func(*Config)) *node {
	g.t.Helper()
	conn, err := g.net.Listen(host)
	if err != nil {
		g.t.Fatal(err)
	}
	return startOn(g.t, g, conn, host, edit...)
}

// startOn runs an agent on conn. Its log goes to g.logs.
func startOn(t *testing.T, g *grid, conn net.PacketConn, host string, edit ...func(*Config)) *node {
	t.Helper()
	n := &node{host: host, addr: addrPort(conn.LocalAddr()), disk: make(chan []Peer, 1), ends: make(chan *NameTakenError, 1)}
	creds := credentials(t, g.ca, host)
	if g.roots != nil {
		creds.Roots = x509.NewCertPool()
		creds.Roots.AddCert(g.roots.Cert)
	}
	ep, err := lane.New(lane.Config{
		Conn: conn, Credentials: creds,
		Resolve: func(name string) (net.Addr, bool) { return n.Resolve(name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	n.ep = ep
	cfg := Config{
		Endpoint: ep, Name: host, Advertise: n.addr, Keys: [][]byte{g.key},
		Meta: Meta{Site: host[:1], Started: time.Now()},
		RTT:  func(name string, d time.Duration) { n.rtts.Store(name, d) },
		Save: func(p []Peer) error {
			select {
			case <-n.disk:
			default:
			}
			n.disk <- p
			return nil
		},
		Rand: mrand.New(mrand.NewPCG(uint64(len(host)), uint64(host[len(host)-1]))),
		Log:  slog.New(g.logs).With("on", host),
	}
	for _, f := range edit {
		f(&cfg)
	}
	if n.Membership, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	epctx, epcancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		if err := ep.Run(epctx); err != nil {
			t.Errorf("%s: endpoint: %v", host, err)
		}
	})
	left := make(chan struct{})
	tasks.Go(func() {
		defer close(left)
		err := n.Run(ctx)
		var taken *NameTakenError
		if asError(err, &taken) {
			n.ends <- taken
		} else if err != nil {
			t.Errorf("%s: %v", host, err)
		}
	})
	n.stop = func() {
		cancel()
		<-left
		epcancel()
		tasks.Wait()
	}
	n.kill = func() {
		if err := g.net.Kill(host); err != nil {
			t.Errorf("kill %s: %v", host, err)
		}
		n.stop()
	}
	return n
}

// join makes n known at the others.
func (n *node) join(t *testing.T, others ...*node) {
	t.Helper()
	var addrs []netip.AddrPort
	for _, o := range others {
		addrs = append(addrs, o.addr)
	}
	if _, err := n.Join(t.Context(), addrs); err != nil {
		t.Errorf("%s: %v", n.host, err)
	}
}

// view returns the members that n believes to be in state s.
func (n *node) view(s State) string {
	var names []string
	for _, m := range n.Members() {
		if m.State == s {
			names = append(names, m.Name)
		}
	}
	return strings.Join(names, " ")
}

// agree waits until all nodes see exactly the hosts of want alive, and returns how
// long that took.
func agree(t *testing.T, within time.Duration, nodes []*node, want string) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		ok := true
		for _, n := range nodes {
			ok = ok && n.view(Alive) == want
		}
		if ok {
			return time.Since(begin)
		}
		if time.Since(begin) > within {
			for _, n := range nodes {
				t.Errorf("after %v %s sees %q alive, want %q", within, n.host, n.view(Alive), want)
			}
			return time.Since(begin)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func names(nodes []*node) string {
	var s []string
	for _, n := range nodes {
		s = append(s, n.host)
	}
	return strings.Join(s, " ")
}

func stopAll(nodes []*node) {
	for _, n := range nodes {
		n.stop()
	}
}

// A logBook keeps records as lines.
type logBook struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (b *logBook) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (b *logBook) WithGroup(string) slog.Handler                { return b }
func (b *logBook) WithAttrs(a []slog.Attr) slog.Handler         { return &logPage{b, fmt.Sprint(a)} }
func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	b.add("", r)
	return nil
}

func (b *logBook) add(prefix string, r slog.Record) {
	line := prefix + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line)
}

// count returns how many lines hold all of parts.
func (b *logBook) count(parts ...string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, l := range b.lines {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(l, p)
		}
		if all {
			n++
		}
	}
	return n
}

// A logPage is a logBook with attributes.
type logPage struct {
	*logBook
	prefix string
}

func (p *logPage) Handle(_ context.Context, r slog.Record) error {
	p.add(p.prefix, r)
	return nil
}

// startAll starts all hosts of sites of the given sizes and joins them to the first.
func (g *grid) startAll(hosts ...int) []*node {
	g.t.Helper()
	var nodes []*node
	for i, k := range hosts {
		for j := range k {
			nodes = append(nodes, g.start(fmt.Sprintf("%c%d", 'a'+i, j)))
		}
	}
	for _, n := range nodes[1:] {
		n.join(g.t, nodes[0])
	}
	return nodes
}

func addrs(nodes ...*node) []netip.AddrPort {
	var out []netip.AddrPort
	for _, n := range nodes {
		out = append(out, n.addr)
	}
	return out
}

func addrAt(a netip.Addr, port uint16) []netip.AddrPort {
	return []netip.AddrPort{netip.AddrPortFrom(a, port)}
}

func contains(err error, part string) bool { return strings.Contains(err.Error(), part) }

func asError[E error](err error, target *E) bool { return err != nil && errors.As(err, target) }

// sealed returns a packet as memberlist encrypts it with key.
func sealed(t *testing.T, key []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, sealNonce)
	return gcm.Seal(append([]byte{sealVersion}, nonce...), nonce, []byte("anything"), nil)
}
