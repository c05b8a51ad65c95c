package treetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/shuffle"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// Config says where plans run.
type Config struct {
	Net gridnet.Config
	// Path is what engines believe of the way between two hosts, see [exchange.Config]. Nil
	// means nothing, which is what agents say of a round trip below 2 ms.
	Path func(from, to string) exchange.Path
	// Lanes is over how many lanes every host sends to every other, each lane but the first from a socket of
	// its own. Zero leaves it to the engines.
	Lanes int
	// Rules are what plans are verified by, beside what every plan must be.
	Rules plan.Rules
	// Chunk is the chunk of a plan, in bytes. Nil means what [exchange.ChunkOf] says.
	Chunk func(*plan.Plan) int
	// PathMTU lets connections look for the largest packet of each path, as over the kernel's sockets: see [gridnet.DontFragment].
	PathMTU bool
	// Watch is the bin of [Result.Use]. Zero means that it is not wanted.
	Watch time.Duration
}

// A Cluster is an engine on every host of a network, all connected with one another.
type Cluster struct {
	net     *gridnet.Network
	cfg     Config
	t       *testing.T // of the bubble
	engines map[string]*exchange.Engine
	sites   map[string]string // of hosts
	use     *recorder         // nil: nobody wants to know
	runs    uint64
}

// Run runs f in a bubble on a cluster whose hosts are all connected. When f has returned
// it ends the cluster; what is left over fails the test.
func Run(t *testing.T, cfg Config, f func(c *Cluster)) {
	t.Helper()
	use := record(&cfg.Net, cfg.Watch)
	gridtest.Run(t, cfg.Net, func(t *testing.T, n *gridnet.Network) {
		var hosts []string
		c := &Cluster{net: n, cfg: cfg, t: t, use: use, engines: make(map[string]*exchange.Engine), sites: make(map[string]string)}
		for _, s := range cfg.Net.Sites {
			hosts = append(hosts, s.Hosts...)
			for _, h := range s.Hosts {
				c.sites[h] = s.Name
			}
		}
		if err := use.know(n, c.sites); err != nil {
			t.Fatal(err)
		}
		stop := c.start(hosts, cfg)
		defer stop()
		c.connect(hosts)
		f(c)
	})
}

// start starts an endpoint and an engine on every host. The function that it returns ends
// them and waits for that.
func (c *Cluster) start(hosts []string, cfg Config) (stop func()) {
	var endpoints []*lane.Endpoint
	fail := func(err error) {
		for _, ep := range endpoints {
			ep.Close()
		}
		c.t.Fatal(err)
	}
	// Inside the bubble, whose clock starts in 2000.
	authority, err := identity.NewAuthority("tree", time.Now(), rand.Reader)
	if err != nil {
		fail(err)
	}
	addrs := make(map[string]net.Addr, len(hosts)) // complete before anybody runs
	for _, h := range hosts {
		cred, err := credentials(authority, h)
		if err != nil {
			fail(err)
		}
		conn := gridtest.Listen(c.t, c.net, h)
		addrs[h] = conn.LocalAddr()
		ep, err := lane.New(lane.Config{
			Conn: c.socket(conn), Credentials: cred,
			Resolve: func(name string) (net.Addr, bool) { a, ok := addrs[name]; return a, ok },
			OpenSocket: func() (net.PacketConn, error) {
				conn, err := c.net.Listen(h)
				if err != nil {
					return nil, err
				}
				return c.socket(conn), nil
			},
		})
		if err != nil {
			fail(err)
		}
		engine := exchange.Config{Self: h, Open: exchange.OpenOver(ep), Site: func(host string) string { return c.sites[host] }}
		if cfg.Path != nil {
			engine.Path = func(to string) exchange.Path { return cfg.Path(h, to) }
		}
		if cfg.Lanes > 0 {
			engine.Lanes = func(string) int { return cfg.Lanes }
		}
		if c.engines[h], err = exchange.New(engine); err != nil {
			fail(err)
		}
		ep.HandleStreams(lane.StreamData, c.engines[h].AcceptLane)
		endpoints = append(endpoints, ep)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, ep := range endpoints {
		running.Go(func() {
			if err := ep.Run(ctx); err != nil {
				c.t.Errorf("%s: %v", hosts[i], err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// socket returns conn as engines get it.
func (c *Cluster) socket(conn *gridnet.Conn) net.PacketConn {
	if c.cfg.PathMTU {
		return gridnet.NewDontFragment(conn)
	}
	return conn
}

func credentials(a *identity.Authority, host string) (lane.Credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return lane.Credentials{}, err
	}
	der, err := a.Issue(host, &key.PublicKey, time.Now())
	if err != nil {
		return lane.Credentials{}, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	return lane.Credentials{
		Certificate: tls.Certificate{Certificate: [][]byte{der, a.Cert.Raw}, PrivateKey: key},
		Roots:       roots,
	}, nil
}

// connect connects every two hosts, by an exchange of no bytes; agents keep such
// connections between collectives. It goes in rounds: all at once the hosts would fill the queues
// of a slow link with handshakes.
func (c *Cluster) connect(hosts []string) {
	c.t.Helper()
	p, err := shuffle.Shift(hosts, plan.AlltoallSizes{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.Run(p)
}
