package lane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// one returns the only refusal that n was told of.
func (n *node) one(t testing.TB) refusal {
	t.Helper()
	time.Sleep(time.Second)
	if len(n.refused) != 1 {
		t.Fatalf("%d refusals, want 1", len(n.refused))
	}
	return <-n.refused
}

// stranger is an endpoint of another cluster on the same network.
func (c *cluster) stranger(host string, edit ...func(*lane.Config)) *node {
	other := newCluster(c.t, c.net)
	other.addrs = c.addrs // knows where ours are
	return other.start(host, edit...)
}

// Members of two clusters refuse each other; both operators can see it.
func TestWrongCluster(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		x := c.stranger("a0")
		for l := range 2 {
			_, err := x.Open(t.Context(), "b0", l, echo)
			if !errors.Is(err, lane.ErrWrongCluster) {
				t.Errorf("lane %d: %v, want ErrWrongCluster", l, err)
			}
			if r := b.one(t); r.from.String() != x.Addr().String() {
				t.Errorf("refused %v: %v; the stranger is %v", r.from, r.err, x.Addr())
			}
		}
		if _, err := x.OpenAddr(t.Context(), b.Addr(), echo); !errors.Is(err, lane.ErrWrongCluster) {
			t.Errorf("by address: %v", err)
		}
		b.one(t)
		if len(x.refused) > 0 {
			t.Errorf("the dialing end has an error, and beside it %v", <-x.refused)
		}
		x.wantLinks(t, 0)
		b.wantLinks(t, 0)
		if b.Waiting() != 0 {
			t.Errorf("%d handshakes in progress", b.Waiting())
		}
		x.stop()
		b.stop()
	})
}

// A dialer that trusts us, but whose certificate we do not trust: an authority rotated
// on one side, or an impostor that does not look at us.
func TestUntrustedDialer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		x := c.stranger("a0", func(cfg *lane.Config) { cfg.Credentials.Roots.AddCert(c.ca.cert) })
		if err := x.talk("b0", 0); err == nil {
			t.Error("a stranger was served")
		}
		if r := b.one(t); r.from.String() != x.Addr().String() || !errors.Is(r.err, lane.ErrWrongCluster) {
			t.Errorf("refused %v: %v", r.from, r.err)
		}
		b.wantLinks(t, 0)
		if b.Waiting() != 0 {
			t.Errorf("%d handshakes in progress", b.Waiting())
		}
		x.stop()
		b.stop()
	})
}

// memberConf are the TLS settings of a member that does not look at whom it has reached.
func memberConf(certs ...tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"gridagent/1"}, Certificates: certs}
}

// withConn has f use a bare QUIC connection from a socket of host.
func withConn(t testing.TB, c *cluster, host string, to net.Addr, conf *tls.Config, f func(*quic.Conn)) error {
	t.Helper()
	conn := c.listen(host)
	defer conn.Close()
	tr := &quic.Transport{Conn: conn}
	defer tr.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := tr.Dial(ctx, to, conf, nil)
	if err != nil {
		return err
	}
	defer q.CloseWithError(0, "")
	f(q)
	return nil
}

// ask opens a stream on q, sends what begins it, and returns the answer.
func ask(q *quic.Conn, begin string) (string, error) {
	s, err := q.OpenStream()
	if err != nil {
		return "", err
	}
	if _, err := s.Write([]byte(begin)); err != nil {
		return "", err
	}
	s.Close()
	b, err := io.ReadAll(s)
	return string(b), err
}

// rawDial reports whether a bare connection is served.
func rawDial(t testing.TB, c *cluster, host string, to net.Addr, conf *tls.Config) (err error) {
	t.Helper()
	dialErr := withConn(t, c, host, to, conf, func(q *quic.Conn) { _, err = ask(q, string(rune(echo))+"x") })
	return errors.Join(dialErr, err)
}

// Whoever has no certificate, an expired one or one that names nobody is refused, and
// the listener is told once and from where.
func TestBadCertificates(t *testing.T) {
	tests := []struct {
		name    string
		conf    func(c *cluster) *tls.Config
		foreign bool
	}{
		{"none", func(*cluster) *tls.Config { return memberConf() }, true},
		{"none on a further lane", func(*cluster) *tls.Config {
			conf := memberConf()
			conf.NextProtos = []string{"gridagent-lane/1"}
			return conf
		}, true},
		{"expired", func(c *cluster) *tls.Config {
			return memberConf(c.ca.credentials(t, "a0", func(x *x509.Certificate) { x.NotAfter = time.Now().Add(-time.Minute) }).Certificate)
		}, false},
		{"of a server only", func(c *cluster) *tls.Config {
			return memberConf(c.ca.credentials(t, "a0", func(x *x509.Certificate) { x.ExtKeyUsage = x.ExtKeyUsage[:1] }).Certificate)
		}, false},
		{"nameless", func(c *cluster) *tls.Config { return memberConf(c.credentials("").Certificate) }, false},
		{"of another cluster", func(c *cluster) *tls.Config {
			return memberConf(newAuthority(t).credentials(t, "a0").Certificate)
		}, true},
		// The true chain without its key: the check of the chain passes, the handshake must not.
		{"stolen", func(c *cluster) *tls.Config {
			cert := c.credentials("a0").Certificate
			cert.PrivateKey = c.credentials("a0").Certificate.PrivateKey
			return memberConf(cert)
		}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *cluster) {
				conf := tc.conf(c)
				b := c.start("b0")
				if err := rawDial(t, c, "a0", b.Addr(), conf); err == nil {
					t.Error("was served")
				}
				if tc.name == "stolen" {
					if b.wantLinks(t, 0); len(b.refused) > 0 {
						t.Logf("told: %v", <-b.refused)
					}
				} else if r := b.one(t); r.from == nil || errors.Is(r.err, lane.ErrWrongCluster) != tc.foreign {
					t.Errorf("refused %v: %v", r.from, r.err)
				}
				time.Sleep(time.Second)
				b.wantLinks(t, 0)
				if b.Waiting() != 0 {
					t.Errorf("%d handshakes in progress", b.Waiting())
				}
				b.stop()
			})
		})
	}
}

func TestNoProtocolOfOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		b := c.start("b0")
		for _, protos := range [][]string{nil, {"h3"}} {
			conf := memberConf(c.credentials("a0").Certificate)
			conf.NextProtos = protos
			if err := rawDial(t, c, "a0", b.Addr(), conf); err == nil {
				t.Errorf("protocols %q were served", protos)
			}
		}
		b.stop()
	})
}

func TestNewRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		conn := c.listen("a0")
		defer conn.Close()
		good := lane.Config{Conn: conn, Credentials: c.credentials("a0")}
		tests := map[string]func(*lane.Config){
			"no socket":         func(c *lane.Config) { c.Conn = nil },
			"no roots":          func(c *lane.Config) { c.Credentials.Roots = nil },
			"no certificate":    func(c *lane.Config) { c.Credentials.Certificate = tls.Certificate{} },
			"not a certificate": func(c *lane.Config) { c.Credentials.Certificate.Certificate = [][]byte{{1}} },
			"nameless":          func(cfg *lane.Config) { cfg.Credentials = c.credentials("") },
			"idle timeout":      func(c *lane.Config) { c.IdleTimeout = -1 },
			"keep-alive":        func(c *lane.Config) { c.KeepAlive = -1 },
			"window":            func(c *lane.Config) { c.Window = -1 },
			"budget":            func(c *lane.Config) { c.WindowBudget = -1 },
		}
		for name, spoil := range tests {
			cfg := good
			spoil(&cfg)
			if _, err := lane.New(cfg); err == nil {
				t.Errorf("%s: accepted", name)
			}
		}
		cfg := good
		cfg.Credentials.Certificate.Leaf, _ = x509.ParseCertificate(cfg.Credentials.Certificate.Certificate[0])
		if _, err := lane.New(cfg); err != nil {
			t.Errorf("with a parsed leaf: %v", err)
		}
	})
}
