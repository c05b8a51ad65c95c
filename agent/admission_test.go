package agent

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/quic-go/quic-go"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/agent/membership"
)

// askToJoin is gridagent join up to the certificate, over a fresh socket.
func askToJoin(t *testing.T, seed *testHost, token, host string) (*identity.Identity, error) {
	t.Helper()
	conn, err := openSocket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	id, _, err := identity.Request(ctx, conn, []net.Addr{seed.Addr()}, token, filepath.Join(t.TempDir(), host),
		identity.Options{Host: host, Site: "Z", Bind: "127.0.0.1:0"})
	return id, err
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	api := a.client(t).API()
	create := func(ttl float64, uses uint32) *apiv1.TokenCreateResponse {
		t.Helper()
		r, err := api.TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{TtlSeconds: ttl, Uses: uses}))
		if err != nil {
			t.Fatal(err)
		}
		return r.Msg
	}

	// The seed that the newcomer knows need not be the one that holds the authority.
	once := create(60, 1)
	id, err := askToJoin(t, b, once.Token, "c")
	if err != nil {
		t.Fatalf("by way of b: %v", err)
	}
	id.Settings.Advertise = "" // that of the socket above, which is closed
	c := startHost(t, id, nil, b)
	waitMembers(t, a, b, c)

	refused := func(name, token string, seed *testHost, want string) {
		t.Helper()
		_, err := askToJoin(t, seed, token, "d")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	refused("used up", once.Token, b, "used up")
	revoked := create(60, 0)
	if _, err := api.TokenRevoke(t.Context(), connect.NewRequest(&apiv1.TokenRevokeRequest{Id: revoked.Info.Id})); err != nil {
		t.Fatal(err)
	}
	refused("revoked, here", revoked.Token, a, "revoked")
	refused("revoked, by way of b", revoked.Token, b, "revoked")
	tokens, err := first.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	old, err := tokens.Create(time.Hour, 0, time.Now().Add(-2*time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	refused("expired", old.String(), b, "expired")
	foreign, err := newCluster(t, "z").Tokens()
	if err != nil {
		t.Fatal(err)
	}
	other, err := foreign.Create(time.Hour, 0, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	refused("of another cluster", other.String(), a, "authority")
	refused("malformed", "ga1_nonsense", a, "token")
	if _, err := askToJoin(t, b, create(60, 0).Token, "a"); err == nil || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a name that is taken: %v", err)
	}

	// Tokens live where the authority does; elsewhere the answer says where that is.
	for name, call := range map[string]func() error{
		"create": func() error {
			_, err := b.client(t).API().TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{}))
			return err
		},
		"list": func() error {
			_, err := b.client(t).API().TokenList(t.Context(), connect.NewRequest(&apiv1.TokenListRequest{}))
			return err
		},
		"revoke": func() error {
			_, err := b.client(t).API().TokenRevoke(t.Context(), connect.NewRequest(&apiv1.TokenRevokeRequest{Id: "x"}))
			return err
		},
	} {
		err := call()
		wantCode(t, err, connect.CodeFailedPrecondition)
		if err == nil || !strings.Contains(err.Error(), "host a") {
			t.Errorf("token %s on b: %v, want one that names host a", name, err)
		}
	}

	// Without the authority's host nobody can be let in, and the newcomer is told why.
	good := create(60, 0)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "b sees that a is gone", func() error {
		if b.members.Live("a") {
			return errors.New("alive")
		}
		return nil
	})
	refused("authority away", good.Token, b, "authority")
}

// An agent that has just started does not give away the names of hosts that it remembers and has not met yet.
func TestNamesOfUnmetHostsAreKept(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	if err := errors.Join(b.stop(), a.stop()); err != nil {
		t.Fatal(err)
	}
	a = startHost(t, first, nil)
	token, err := a.client(t).API().TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{TtlSeconds: 60}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := askToJoin(t, a, token.Msg.Token, "b"); err == nil || !strings.Contains(err.Error(), "not met yet") {
		t.Errorf("the name of a host that may be alive: %v", err)
	}
	if _, err := askToJoin(t, a, token.Msg.Token, "c"); err != nil {
		t.Errorf("another name: %v", err)
	}
	for _, c := range []struct {
		state membership.State
		since time.Duration
		want  bool
	}{
		{membership.Unseen, meeting - 1, true}, {membership.Unseen, meeting, false},
		{membership.Failed, 0, false}, {membership.Stopped, 0, false}, {membership.Left, 0, false},
	} {
		if got := unmet(membership.Member{State: c.state}, c.since); got != c.want {
			t.Errorf("%v after %v: %v", c.state, c.since, got)
		}
	}
}

// A host with a copy of the authority's key, and without the tokens, keeps nobody from being let in, whether it is asked first or is the seed itself.
func TestCopyOfTheAuthority(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "b")
	b := startHost(t, first, nil)
	copied := admit(t, first, "a")
	copied.Authority = first.Authority
	a := startHost(t, copied, nil, b)
	c := startHost(t, admit(t, first, "c"), nil, b)
	waitMembers(t, a, b, c)
	token, err := b.client(t).API().TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{TtlSeconds: 60}))
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []*testHost{c, a, b} {
		if _, err := askToJoin(t, seed, token.Msg.Token, "new-by-"+seed.name); err != nil {
			t.Errorf("by way of %s: %v", seed.name, err)
		}
	}
	if _, err := b.client(t).API().TokenRevoke(t.Context(), connect.NewRequest(&apiv1.TokenRevokeRequest{Id: token.Msg.Info.Id})); err != nil {
		t.Fatal(err)
	}
	if _, err := askToJoin(t, c, token.Msg.Token, "later"); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked: %v", err)
	}
}

func TestFirstToKnow(t *testing.T) {
	unknown := identity.JoinResponse{Refused: &identity.Refusal{Code: identity.RefusedUnknown}}
	expired := identity.JoinResponse{Refused: &identity.Refusal{Code: identity.RefusedExpired}}
	good := identity.JoinResponse{Cluster: "c"}
	answers := map[string]identity.JoinResponse{"u": unknown, "e": expired, "g": good}
	for _, c := range []struct {
		holders string // one letter each; x does not answer
		want    identity.JoinResponse
		asked   int
		fails   bool
	}{
		{"g", good, 1, false}, {"ug", good, 2, false}, {"xg", good, 2, false}, {"gu", good, 1, false}, {"eg", expired, 1, false}, {"ux", unknown, 2, false},
		{"xu", unknown, 2, false}, {"xx", identity.JoinResponse{}, 2, true}, {"", identity.JoinResponse{}, 0, true}, {"uuuug", unknown, maxHolders, false},
	} {
		asked := 0
		got, err := firstToKnow(t.Context(), strings.Split(c.holders, "")[:len(c.holders)], func(_ context.Context, h string) (identity.JoinResponse, error) {
			asked++
			if r, ok := answers[h]; ok {
				return r, nil
			}
			return identity.JoinResponse{}, errors.New("no answer")
		})
		if got.Refused != c.want.Refused || got.Cluster != c.want.Cluster || asked != c.asked || c.fails != (err != nil) {
			t.Errorf("%q: %+v, %v, %d asked", c.holders, got, err, asked)
		}
	}
}

// Another cluster's agents on the same network come to nothing, and the operator of
// this one is told once a source, not once a packet.
func TestStrangers(t *testing.T) {
	t.Parallel()
	a := startHost(t, newCluster(t, "a"), nil)
	x := startHost(t, newCluster(t, "x"), nil, a) // its seed is a member of another cluster
	eventually(t, 20*time.Second, "x refuses to join", func() error {
		if !strings.Contains(x.log.String(), "certificate of another cluster") {
			return errors.New("nothing logged")
		}
		return nil
	})
	// x has hung up by itself. One that means harm does not.
	for range 3 {
		intrude(t, x.id, a.Addr())
	}
	r, err := a.client(t).API().Status(t.Context(), connect.NewRequest(&apiv1.StatusRequest{}))
	if err != nil || r.Msg.RefusedConnections < 3 {
		t.Errorf("status %v, %v, want 3 connections refused or more", r, err)
	}
	if a.Alive() != 1 || x.Alive() != 1 {
		t.Errorf("a sees %d members, x %d", a.Alive(), x.Alive())
	}
	if n := strings.Count(a.log.String(), "connection refused"); n != 1 {
		t.Errorf("%d log lines about refused connections, want 1:\n%s", n, a.log)
	}
	if !strings.Contains(a.log.String(), "cluster's certificate") && !strings.Contains(a.log.String(), "certificate of another cluster") {
		t.Errorf("the log does not say why:\n%s", a.log)
	}
	// Gossip packets with another cluster's key, straight at the port.
	eventually(t, 10*time.Second, "gossip refused", func() error {
		if err := x.endpoint.SendPacket(1, []byte("\x01 not a packet of this cluster, and long enough"), a.Addr()); err != nil {
			return err
		}
		if n := a.members.Stats().Refused; n < 3 {
			return errors.New("not counted yet")
		}
		return nil
	})
	if n := strings.Count(a.log.String(), "gossip refused"); n != 1 {
		t.Errorf("%d log lines about refused gossip, want 1:\n%s", n, a.log)
	}
}

// intrude dials a member with the certificate of another cluster and an open mind about its own.
func intrude(t *testing.T, id *identity.Identity, at net.Addr) {
	t.Helper()
	conn, err := openSocket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: conn}
	defer conn.Close()
	defer tr.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := tr.Dial(ctx, at, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"gridagent/1"}, InsecureSkipVerify: true,
		Certificates: []tls.Certificate{id.Credentials().Certificate},
	}, nil)
	if err == nil { // a client is done with its part before the server has looked at the certificate
		_, err = c.AcceptStream(ctx)
	}
	var closed *quic.TransportError
	if !errors.As(err, &closed) || !closed.ErrorCode.IsCryptoError() || !closed.Remote {
		t.Errorf("connection with the certificate of another cluster: %v", err)
	}
}

// Refusals are counted all, logged once a source, and remembered for so many sources only.
func TestRefusalsAreBounded(t *testing.T) {
	a := &Agent{log: discardLog()}
	for i := range 3 * maxRefusalSources {
		a.refusedConnection(&net.UDPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 1}, errors.New("x"))
		a.refusedConnection(&net.UDPAddr{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Port: 2}, errors.New("x"))
	}
	if a.refused.count != 6*maxRefusalSources || len(a.refused.logged) != maxRefusalSources {
		t.Errorf("%d counted, %d sources remembered", a.refused.count, len(a.refused.logged))
	}
}

// A broken tokens.json is told of at the start, and every operation on it is refused with
// its name; the agent goes on.
func TestBrokenTokensAreTold(t *testing.T) {
	t.Parallel()
	id := newCluster(t, "a")
	path := filepath.Join(id.Dir, identity.FileTokens)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, id, nil)
	if log := h.log.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, path) {
		t.Errorf("the log does not name %s:\n%s", path, log)
	}
	api := h.client(t).API()
	_, created := api.TokenCreate(t.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{}))
	_, listed := api.TokenList(t.Context(), connect.NewRequest(&apiv1.TokenListRequest{}))
	_, revoked := api.TokenRevoke(t.Context(), connect.NewRequest(&apiv1.TokenRevokeRequest{Id: "feed"}))
	for _, err := range []error{created, listed, revoked} {
		wantCode(t, err, connect.CodeFailedPrecondition)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want an error that names %s", err, path)
		}
	}
}
