package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/netmap"
)

// authority signs the certificates of a test's hosts.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.sign(t, "authority", &key.PublicKey, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) sign(t testing.TB, name string, key *ecdsa.PublicKey, c *x509.Certificate) *x509.Certificate {
	t.Helper()
	c.SerialNumber = big.NewInt(1)
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour)
	parent := a.cert
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) credentials(t testing.TB, name string) lane.Credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := a.sign(t, name, &key.PublicKey, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return lane.Credentials{
		Certificate: tls.Certificate{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key},
		Roots:       roots,
	}
}

// A world is a set of probers that share one map, as if its rows travelled at once.
type world struct {
	t     testing.TB
	start time.Time
	ca    *authority
	peers []Peer
	addrs map[string]net.Addr

	mu     sync.Mutex // guards what follows
	est    map[[2]string]netmap.Estimate
	brings map[[2]string]netmap.BytesPerSec // see [netmap.FieldCarried]
	sent   map[siteLink]int64               // bytes of trains, by the sites' labels
	from   map[trainID]Peer
	now    map[string]trainID          // the train that a link or a host carries
	past   map[string]map[trainID]bool // the trains it has carried
	clash  map[string]int              // trains that met, by resource
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, start: time.Now(), ca: newAuthority(t), addrs: make(map[string]net.Addr),
		est: make(map[[2]string]netmap.Estimate), brings: make(map[[2]string]netmap.BytesPerSec), sent: make(map[siteLink]int64),
		from: make(map[trainID]Peer), now: make(map[string]trainID), past: make(map[string]map[trainID]bool), clash: make(map[string]int),
	}
}

func (w *world) record(from, to string, e netmap.Estimate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := [2]string{from, to}
	if e.Known&^netmap.FieldCarried == 0 { // what the receiver adds, or takes back
		w.brings[k] = e.Carried
		return
	}
	w.est[k] = e
}

// pairs counts, for each ordered pair of sites, the host pairs that hold f.
func (w *world) pairs(f netmap.Field) map[siteLink]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := make(map[siteLink]int)
	for k, e := range w.est {
		if e.Has(f) {
			n[siteLink{w.site(k[0]), w.site(k[1])}]++
		}
	}
	return n
}

func (w *world) site(name string) string {
	for _, p := range w.peers {
		if p.Name == name {
			return p.Site
		}
	}
	return ""
}

// A spy watches the trains of one host. Those of two sessions must not mingle on a host
// or on a link between sites, as seen where they arrive: they may leave in no time.
type spy struct {
	*lane.Endpoint
	w    *world
	self Peer
}

func (s *spy) SendPacket(k lane.PacketKind, b []byte, to net.Addr) error {
	s.w.mu.Lock()
	for _, p := range s.w.peers {
		if s.w.addrs[p.Name].String() == to.String() {
			s.w.sent[siteLink{s.self.Site, p.Site}] += int64(len(b) + 1)
		}
	}
	s.w.from[trainID(b[:16])] = s.self
	s.w.mu.Unlock()
	return s.Endpoint.SendPacket(k, b, to)
}

func (s *spy) HandlePackets(k lane.PacketKind, h func(p []byte, from net.Addr, at time.Time)) {
	s.Endpoint.HandlePackets(k, func(p []byte, from net.Addr, at time.Time) {
		s.w.arrived(trainID(p[:16]), s.self)
		h(p, from, at)
	})
}

func (w *world) arrived(id trainID, at Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.from[id]
	resources := []string{from.Name, at.Name}
	if from.Site != at.Site {
		resources = append(resources, from.Site+"→"+at.Site)
	}
	for _, r := range resources {
		if w.now[r] == id {
			continue
		}
		if w.past[r] == nil {
			w.past[r] = make(map[trainID]bool)
		}
		if w.past[r][id] {
			w.clash[r]++
		}
		w.past[r][id] = true
		w.now[r] = id
	}
}

func (w *world) known(from, to string) (netmap.Estimate, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := [2]string{from, to}
	e, ok := w.est[k]
	if c := w.brings[k]; c > 0 {
		e.Carried, e.Known = c, e.Known|netmap.FieldCarried
	}
	return e, ok
}

// A member is one host: its socket, endpoint and prober.
type member struct {
	peer     Peer
	endpoint *lane.Endpoint
	prober   *Prober
}

// join adds a host on conn. change may alter its configuration.
func (w *world) join(conn net.PacketConn, peer Peer, change func(*Config)) *member {
	w.t.Helper()
	e, err := lane.New(lane.Config{
		Conn: conn, Credentials: w.ca.credentials(w.t, peer.Name),
		Resolve: func(name string) (net.Addr, bool) { a, ok := w.addrs[name]; return a, ok },
		// As an agent has it: what keeps connections alive is part of the price.
		IdleTimeout: 30 * time.Second, KeepAlive: 10 * time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.addrs[peer.Name] = conn.LocalAddr()
	w.peers = append(w.peers, peer)
	cfg := Config{
		Self: peer, Endpoint: &spy{e, w, peer}, Record: w.record, Known: w.known,
		Peers: func() []Peer { return w.peers }, // holds the host itself, which New tolerates
		Rand:  mrand.New(mrand.NewPCG(uint64(len(w.peers)), 9)),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return &member{peer, e, p}
}

// run runs the members until f returns. measuring says whether the probers run too,
// or only serve.
func (w *world) run(members []*member, measuring bool, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	ectx, ecancel := context.WithCancel(context.Background())
	var edges, probers sync.WaitGroup
	for _, m := range members {
		edges.Go(func() {
			if err := m.endpoint.Run(ectx); err != nil {
				w.t.Error(err)
			}
		})
		if measuring {
			probers.Go(func() {
				if err := m.prober.Run(ctx); err != nil {
					w.t.Error(err)
				}
			})
		}
	}
	f(ctx)
	cancel()
	probers.Wait()
	ecancel()
	edges.Wait()
	time.Sleep(time.Second) // what the sockets sent last
}

// joinAll makes a member of every host of a grid.
func (w *world) joinAll(n *gridnet.Network, cfg gridnet.Config, change func(*Config)) []*member {
	var ms []*member
	for _, site := range cfg.Sites {
		for _, h := range site.Hosts {
			ms = append(ms, w.join(gridtest.Listen(w.t, n, h), Peer{h, site.Name}, change))
		}
	}
	return ms
}

// train measures peer with one session of trains, and returns what is believed then.
func (p *Prober) train(ctx context.Context, peer Peer) (netmap.Estimate, error) {
	err := p.insist(ctx, func() error {
		_, _, err := p.onceTrains(ctx, peer)
		return err
	})
	e, _ := p.rec.known(peer.Name)
	return e, err
}

// truth is what the map should hold for a link of a rate.
func truth(r gridnet.Rate) netmap.BytesPerSec {
	return netmap.BytesPerSec(float64(r) * userPayload / (trainPayload + gridnet.HeaderBytes))
}

func TestBandwidthOverEmulatedLinks(t *testing.T) {
	const ms, us = time.Millisecond, time.Microsecond
	tests := []struct {
		name      string
		link      gridnet.Link
		jitter    time.Duration // of the receiver
		tolerance float64
	}{
		{"0.1 Mbit/s", gridnet.Link{Rate: 0.1 * gridnet.Mbps, Latency: 50 * ms}, 0, 0.06},
		{"1.16 Mbit/s", gridnet.Link{Rate: 1.16 * gridnet.Mbps, Latency: 50 * ms}, 100 * us, 0.06},
		{"4.75 Mbit/s", gridnet.Link{Rate: 4.75 * gridnet.Mbps, Latency: 76 * ms}, 100 * us, 0.06},
		{"20 Mbit/s, 1 % loss", gridnet.Link{Rate: 20 * gridnet.Mbps, Latency: 20 * ms, Loss: 0.01}, 100 * us, 0.06},
		{"85 Mbit/s", gridnet.Link{Rate: 85.19 * gridnet.Mbps, Latency: 60 * us}, 100 * us, 0.06},
		{"85 Mbit/s, 0.1 % loss", gridnet.Link{Rate: 85.19 * gridnet.Mbps, Latency: 10 * ms, Loss: 0.001}, 100 * us, 0.06},
		{"289 Mbit/s", gridnet.Link{Rate: 289.33 * gridnet.Mbps, Latency: 60 * us}, 100 * us, 0.12},
		{"300 Mbit/s, 64 packets of queue", gridnet.Link{Rate: 300 * gridnet.Mbps, Latency: 10 * ms, Queue: 64}, 100 * us, 0.12},
		{"1 Gbit/s", gridnet.Link{Rate: 1000 * gridnet.Mbps, Latency: 100 * us}, 50 * us, 0.15},
		{"2 Mbit/s a flow of 20", gridnet.Link{Rate: 20 * gridnet.Mbps, FlowRate: 2 * gridnet.Mbps, Latency: 50 * ms}, 100 * us, 0.06},
		{"5 Mbit/s after 32 kB at 1 Gbit/s", gridnet.Link{Rate: 1000 * gridnet.Mbps, ShapeRate: 5 * gridnet.Mbps, ShapeBurst: 32 << 10, Latency: 20 * ms}, 100 * us, 0.06},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := gridtest.Pair(tt.link)
			for i := range cfg.Sites {
				cfg.Sites[i].ReceiveJitter = tt.jitter
			}
			gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
				w := newWorld(t)
				ms := w.joinAll(n, cfg, nil)
				want := tt.link.Rate
				for _, r := range []gridnet.Rate{tt.link.FlowRate, tt.link.ShapeRate} {
					if r > 0 {
						want = r
					}
				}
				w.run(ms, false, func(ctx context.Context) {
					for range 3 {
						e, err := ms[0].prober.train(ctx, ms[1].peer)
						if err != nil {
							t.Fatal(err)
						}
						off := float64(e.Bandwidth/truth(want)) - 1
						t.Logf("%.3f Mbit/s, %+.1f %%, spread %.3f, %d bytes so far", e.Bandwidth.Mbps(), 100*off, e.Spread, ms[0].prober.Stats().Bytes)
						if math.Abs(off) > tt.tolerance {
							t.Errorf("reads %.3f Mbit/s, want %.3f", e.Bandwidth.Mbps(), truth(want).Mbps())
						}
					}
					a, err := ms[0].prober.ProbeOnce(ctx, ms[1].peer, KindRTT, nil)
					if err != nil {
						t.Fatal(err)
					}
					// The least of three round trips, and none is shorter than its packets take.
					tolerated := max(tt.link.Latency/50, time.Millisecond/2) + time.Duration(140*float64(time.Second)/float64(want)/2)
					if off := (a.RTT/2 - tt.link.Latency).Abs(); off > tolerated {
						t.Errorf("latency %v, want %v", a.RTT/2, tt.link.Latency)
					}
				})
			})
		})
	}
}
