package identity

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	seedAddr = "10.0.0.1:7946"
	hostAddr = "10.0.0.2:7946"
)

// A joinCase is one host that asks one seed.
type joinCase struct {
	sv    *Server
	token string
	dir   string
	opts  Options
	seeds []string
}

// tryJoin runs c in a network of its own. It must be called in a bubble.
func (c joinCase) try(t *testing.T) (*Identity, []string, error) {
	t.Helper()
	w := newWire()
	stop := serve(t, w.socket(seedAddr), c.sv.Identity, c.sv)
	defer stop()
	conn := w.socket(hostAddr)
	defer conn.Close()
	var seeds []net.Addr
	for _, s := range c.seeds {
		seeds = append(seeds, udp(s))
	}
	if c.opts.Host == "" {
		c.opts.Host = "uk0"
	}
	return Request(t.Context(), conn, seeds, c.token, c.dir, c.opts)
}

func newCase(t *testing.T, id *Identity, ttl time.Duration, uses int) joinCase {
	t.Helper()
	ts, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	tok, err := ts.Create(ttl, uses, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return joinCase{
		sv:    &Server{Identity: id, Members: func() []string { return []string{seedAddr} }},
		token: tok.String(), dir: filepath.Join(t.TempDir(), "d"), seeds: []string{seedAddr},
	}
}

func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its clock stands in 2000
		seed := makeCluster(t, "ut0")
		c := newCase(t, seed, 0, 1)
		c.opts = Options{Host: "UK0", Site: "UK"}
		id, members, err := c.try(t)
		if err != nil {
			t.Fatal(err)
		}
		if len(members) != 1 || members[0] != seedAddr {
			t.Errorf("members %q", members)
		}
		loaded, err := Load(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		want := Settings{Version: 1, Cluster: "grid", ID: seed.Settings.ID, Host: "uk0", Site: "UK", Advertise: hostAddr, Created: loaded.Settings.Created}
		if loaded.Settings != want || id.Settings != want {
			t.Errorf("settings %+v, returned %+v, want %+v", loaded.Settings, id.Settings, want)
		}
		if loaded.Authority != nil || loaded.Fingerprint() != seed.Fingerprint() || !bytes.Equal(loaded.GossipKeys[0], seed.GossipKeys[0]) {
			t.Errorf("not of the seed's cluster: %+v", loaded)
		}
		if _, err := loaded.Tokens(); err == nil {
			t.Error("a host without the authority makes tokens")
		}
		if leaf := loaded.chain[0]; time.Since(leaf.NotBefore) < 50*time.Minute {
			t.Errorf("certificate valid from %v: a host with a slow clock refuses it", leaf.NotBefore)
		}
	})
}

func TestJoinTriesSeedsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCase(t, makeCluster(t, "ut0"), 0, 1)
		c.seeds = []string{"10.0.0.9:1", seedAddr} // the first is not there
		if _, _, err := c.try(t); err != nil {
			t.Error(err)
		}
	})
}

func TestJoinRefused(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(t *testing.T, c *joinCase)
		is    error
		want  string
	}{
		{"malformed", func(_ *testing.T, c *joinCase) { c.token = c.token[:20] }, ErrMalformedToken, "cut in copying"},
		{"unknown secret", func(t *testing.T, c *joinCase) {
			tok, err := ParseToken(c.token)
			if err != nil {
				t.Fatal(err)
			}
			tok.Secret[3] ^= 1
			c.token = tok.String()
		}, ErrTokenUnknown, "not one of this cluster's"},
		{"expired here", func(*testing.T, *joinCase) { time.Sleep(27 * time.Hour) }, ErrTokenExpired, "expired 3h0m0s ago"},
		{"expired by the seed's clock", func(_ *testing.T, c *joinCase) {
			c.sv.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
		}, ErrTokenExpired, "expired 1h0m0s ago"},
		{"revoked", func(t *testing.T, c *joinCase) {
			tok, _ := ParseToken(c.token)
			ts, _ := c.sv.Identity.Tokens()
			if err := ts.Revoke(tok.ID.String()); err != nil {
				t.Fatal(err)
			}
		}, ErrTokenRevoked, "was revoked"},
		{"used up", func(t *testing.T, c *joinCase) {
			tok, _ := ParseToken(c.token)
			ts, _ := c.sv.Identity.Tokens()
			if err := ts.Redeem(tok.ID.String(), tok.Secret[:], "other", []byte("k"), time.Now()); err != nil {
				t.Fatal(err)
			}
		}, ErrTokenUsedUp, "used up"},
		{"name of a live member", func(_ *testing.T, c *joinCase) {
			c.sv.Live = func(name string) bool { return name == "uk0" }
		}, ErrNameTaken, `host name "uk0" is taken`},
		{"name of a member not met yet", func(_ *testing.T, c *joinCase) {
			c.sv.Unmet = func(name string) bool { return name == "uk0" }
		}, ErrNameTaken, `not met yet`},
		{"the seed's own name", func(_ *testing.T, c *joinCase) { c.opts.Host = "ut0" }, ErrNameTaken, "taken"},
		{"no authority", func(_ *testing.T, c *joinCase) {
			c.sv.Identity = without(c.sv.Identity)
			c.sv.Holder = func() string { return "ut7" }
		}, nil, "by way of ut7"},
		{"authority out of reach", func(_ *testing.T, c *joinCase) {
			c.sv.Identity = without(c.sv.Identity)
			c.sv.Holder = func() string { return "ut7" }
			c.sv.Forward = func(context.Context, JoinRequest) (JoinResponse, error) {
				return JoinResponse{}, errors.New("timeout")
			}
		}, nil, "cannot reach ut7"},
		{"nobody there", func(_ *testing.T, c *joinCase) { c.seeds = []string{"10.0.0.9:1"} }, nil, "10.0.0.9:1"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCase(t, makeCluster(t, "ut0"), 0, 1)
				tc.spoil(t, &c)
				_, _, err := c.try(t)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("join: %v, want %q", err, tc.want)
				}
				if tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("join: %v is not %v", err, tc.is)
				}
				if _, err := os.Stat(filepath.Join(c.dir, FileSettings)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a refused host has a cluster: %v", err)
				}
				if entries, err := os.ReadDir(c.dir); err == nil && len(entries) > 0 {
					t.Errorf("a refused host wrote %v", entries)
				}
			})
		})
	}
}

// without returns id as a member without the authority's key sees it.
func without(id *Identity) *Identity {
	c := *id
	c.Authority = nil
	return &c
}

// A reinstalled host gets its name with another key, and the log of the authority's host warns of it: it may be somebody else.
func TestNewKeyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newCase(t, makeCluster(t, "ut0"), 0, 0)
		c.sv.Log = slog.New(slog.NewTextHandler(&log, nil))
		for _, dir := range []string{"first", "second"} {
			log.Reset()
			c.dir = filepath.Join(t.TempDir(), dir)
			if _, _, err := c.try(t); err != nil {
				t.Fatal(err)
			}
			if told := strings.Contains(log.String(), "level=WARN"); told != (dir == "second") {
				t.Errorf("%s: warned %v:\n%s", dir, told, &log)
			}
			time.Sleep(2 * reservation)
		}
		if !strings.Contains(log.String(), "host=uk0") {
			t.Errorf("the warning does not name the host: %s", &log)
		}
	})
}

func TestJoinForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder := makeCluster(t, "ut0")
		c := newCase(t, holder, 0, 1)
		decider := c.sv
		c.sv = &Server{Identity: without(holder), Forward: func(ctx context.Context, r JoinRequest) (JoinResponse, error) {
			wire, err := json.Marshal(r) // it travels
			if err != nil {
				return JoinResponse{}, err
			}
			var there JoinRequest
			if err := json.Unmarshal(wire, &there); err != nil {
				return JoinResponse{}, err
			}
			return decider.Decide(ctx, there), nil
		}}
		id, members, err := c.try(t)
		if err != nil {
			t.Fatal(err)
		}
		if id.Settings.Advertise != hostAddr || len(members) != 1 {
			t.Errorf("advertise %q, members %q", id.Settings.Advertise, members)
		}
	})
}

// The secret must not reach a seed of another cluster.
func TestJoinWrongAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := makeCluster(t, "ut0"), makeCluster(t, "ut0")
		c := newCase(t, ours, 0, 1)
		c.sv = &Server{Identity: theirs}
		_, _, err := c.try(t)
		var wrong *WrongAuthorityError
		if !errors.As(err, &wrong) {
			t.Fatalf("join: %v, want a WrongAuthorityError", err)
		}
		if wrong.Want != ours.Fingerprint() || len(wrong.Got) != 1 || wrong.Got[0] != theirs.Fingerprint() {
			t.Errorf("want %v, got %v", wrong.Want, wrong.Got)
		}
		for _, f := range []Fingerprint{ours.Fingerprint(), theirs.Fingerprint()} {
			if !strings.Contains(err.Error(), f.String()) {
				t.Errorf("%q does not name %v", err, f)
			}
		}
	})
}

// A host certificate of the right cluster that is not in the chain of its authority
// must not pass: an impostor can present the true authority's public certificate.
func TestTrustNeedsTheChain(t *testing.T) {
	ours, theirs := makeCluster(t, "ut0"), makeCluster(t, "ut0")
	c := &candidate{token: Token{Authority: ours.Fingerprint()}}
	if _, err := c.trust(ours.chain); err != nil {
		t.Errorf("true chain: %v", err)
	}
	forged := []*x509.Certificate{theirs.chain[0], ours.chain[1]}
	if _, err := c.trust(forged); err == nil {
		t.Error("a leaf of another authority passed beside the true authority's certificate")
	}
	if _, err := c.trust(ours.chain[1:]); err == nil {
		t.Error("the authority itself passed for a host")
	}
	if _, err := c.trust(nil); err == nil {
		t.Error("no chain passed")
	}
}

func TestAcceptChecksTheAnswer(t *testing.T) {
	seed := makeCluster(t, "ut0")
	c, err := newCandidate(Token{Authority: seed.Fingerprint()}, Settings{Version: 1, Cluster: "unknown", Host: "uk0"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, key *ecdsa.PrivateKey) [][]byte {
		der, err := seed.Authority.Issue(name, &key.PublicKey, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{der, seed.Authority.Cert.Raw}
	}
	good := func() JoinResponse {
		return JoinResponse{Version: 1, Cluster: "grid", ClusterID: seed.Settings.ID, Chain: issue("uk0", c.key), GossipKeys: seed.GossipKeys, Members: []string{seedAddr}}
	}
	if _, _, err := c.accept(good()); err != nil {
		t.Fatalf("good answer: %v", err)
	}
	spoil := map[string]func(*JoinResponse){
		"version":        func(r *JoinResponse) { r.Version = 2 },
		"no chain":       func(r *JoinResponse) { r.Chain = nil },
		"garbage":        func(r *JoinResponse) { r.Chain[0] = []byte("x") },
		"other name":     func(r *JoinResponse) { r.Chain = issue("uk1", c.key) },
		"other key":      func(r *JoinResponse) { r.Chain = issue("uk0", other) },
		"no gossip key":  func(r *JoinResponse) { r.GossipKeys = nil },
		"short key":      func(r *JoinResponse) { r.GossipKeys = [][]byte{make([]byte, 16)} },
		"bad member":     func(r *JoinResponse) { r.Members = []string{"nowhere"} },
		"bad cluster":    func(r *JoinResponse) { r.Cluster = "../.." },
		"bad cluster id": func(r *JoinResponse) { r.ClusterID = strings.Repeat("x", 10000) },
	}
	for name, f := range spoil {
		r := good()
		f(&r)
		if _, _, err := c.accept(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNameIsReserved(t *testing.T) {
	id := makeCluster(t, "ut0")
	now := time.Now()
	sv := &Server{Identity: id, Now: func() time.Time { return now }}
	ts, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	tok, err := ts.Create(0, 0, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c *candidate) error {
		if r := sv.Decide(t.Context(), c.request); r.Refused != nil {
			return r.Refused
		}
		return nil
	}
	var hosts [2]*candidate
	for i := range hosts {
		if hosts[i], err = newCandidate(tok, Settings{Host: "uk0"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(hosts[0]); err != nil {
		t.Errorf("first: %v", err)
	}
	if err := ask(hosts[0]); err != nil {
		t.Errorf("first again, its answer was lost: %v", err)
	}
	now = now.Add(30 * time.Second)
	if err := ask(hosts[1]); !errors.Is(err, ErrNameTaken) || !strings.Contains(err.Error(), "1m30s") {
		t.Errorf("second: %v, want name taken for 1m30s", err)
	}
	now = now.Add(reservation)
	if err := ask(hosts[1]); err != nil {
		t.Errorf("second, after the reservation: %v", err)
	}
	if list, _ := ts.List(); list[0].Uses != 2 {
		t.Errorf("%d uses, want 2: refusals and repetitions are free", list[0].Uses)
	}
	bad := *hosts[1]
	bad.request.CSR = bytes.Clone(bad.request.CSR)
	bad.request.CSR[len(bad.request.CSR)-1] ^= 1
	var r *Refusal
	if err := ask(&bad); !errors.As(err, &r) || r.Code != RefusedRequest {
		t.Errorf("certificate request with a wrong signature: %v", err)
	}
}

func TestTooManyAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCase(t, makeCluster(t, "ut0"), 0, 0)
		good := c.token
		tok, err := ParseToken(good)
		if err != nil {
			t.Fatal(err)
		}
		tok.Secret[0] ^= 1
		c.token = tok.String()
		for i := range failLimit {
			if _, _, err := c.try(t); !errors.Is(err, ErrTokenUnknown) {
				t.Fatalf("attempt %d: %v", i, err)
			}
		}
		c.token = good
		_, _, err = c.try(t)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != RefusedTooMany {
			t.Errorf("after %d failures: %v, want %s", failLimit, err, RefusedTooMany)
		}
		time.Sleep(failWindow)
		if _, _, err := c.try(t); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	var a attempts
	now := time.Unix(0, 0)
	persistent := netip.MustParseAddr("2001:db8::1")
	for i := range uint32(maxSources + maxSources/16) {
		if i%100 == 0 {
			a.fail(persistent, now.Add(time.Duration(i)))
		}
		a.fail(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now.Add(time.Duration(i)))
	}
	if len(a.from) > maxSources {
		t.Errorf("%d sources are remembered, at most %d may be", len(a.from), maxSources)
	}
	var b attempts
	for i := range failLimit { // another address of the same /64 each time
		b.fail(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)), now)
	}
	if b.blocked(persistent, now) != failWindow {
		t.Errorf("a /64 is not counted as one source")
	}
	if b.blocked(netip.MustParseAddr("2001:db8:0:1::1"), now) != 0 {
		t.Errorf("the neighbouring /64 is blocked")
	}
}

// What a seed saw of a port that the kernel chose is not remembered: the agent gets another.
func TestJoinFromPortOfTheKernelsChoice(t *testing.T) {
	for bind, want := range map[string]string{
		"":                hostAddr,
		hostAddr:          hostAddr,
		"0.0.0.0:0":       netip.AddrPortFrom(netip.MustParseAddrPort(hostAddr).Addr(), 0).String(),
		"192.168.11.11:0": netip.AddrPortFrom(netip.MustParseAddrPort(hostAddr).Addr(), 0).String(),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCase(t, makeCluster(t, "ut0"), 0, 1)
			c.opts.Bind = bind
			id, _, err := c.try(t)
			if err != nil {
				t.Fatal(err)
			}
			if id.Settings.Advertise != want {
				t.Errorf("bind %q: advertise %q, want %q", bind, id.Settings.Advertise, want)
			}
			if again, err := Load(c.dir); err != nil || again.Settings != id.Settings {
				t.Errorf("bind %q: read back %+v (%v), want %+v", bind, again, err, id.Settings)
			}
		})
	}
}

// Over real sockets: the same, and the socket is still good afterwards.
func TestJoinOverLoopback(t *testing.T) {
	listen := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", udp("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := newCase(t, makeCluster(t, "ut0"), 0, 1)
	seed, host := listen(), listen()
	defer host.Close()
	addr := seed.LocalAddr()
	stop := serve(t, seed, c.sv.Identity, c.sv)
	defer stop()
	id, _, err := Request(t.Context(), host, []net.Addr{addr}, c.token, c.dir, Options{Host: "uk0"})
	if err != nil {
		t.Fatal(err)
	}
	if id.Settings.Advertise != host.LocalAddr().String() {
		t.Errorf("advertise %q, want what the seed saw, %v", id.Settings.Advertise, host.LocalAddr())
	}
	if _, err := host.WriteTo([]byte("x"), host.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	host.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 2048)
	for { // late QUIC packets of the seed may come first
		n, from, err := host.ReadFrom(buf)
		if err != nil {
			t.Fatalf("the socket is spoilt: %v", err)
		}
		if n == 1 && from.String() == host.LocalAddr().String() {
			return
		}
	}
}

func FuzzReadMessage(f *testing.F) {
	var ok bytes.Buffer
	if err := writeMessage(&ok, JoinRequest{Version: 1, TokenID: "0011223344", Secret: make([]byte, 16), Name: "uk0"}); err != nil {
		f.Fatal(err)
	}
	f.Add(ok.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	id := makeCluster(f, "ut0")
	sv := &Server{Identity: id}
	c := &candidate{token: Token{Authority: id.Fingerprint()}, settings: id.Settings, key: id.key}
	f.Fuzz(func(t *testing.T, in []byte) {
		var req JoinRequest
		if err := readMessage(bytes.NewReader(in), &req); err == nil {
			if r := sv.Decide(t.Context(), req); r.Refused == nil {
				t.Errorf("admitted without a token: %q", in)
			}
		}
		var resp JoinResponse
		if err := readMessage(bytes.NewReader(in), &resp); err == nil {
			if _, _, err := c.accept(resp); err == nil {
				t.Errorf("believed %q", in)
			}
		}
	})
}
