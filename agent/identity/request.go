package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// seedTimeout bounds the try of one seed.
const seedTimeout = 25 * time.Second

// A WrongAuthorityError means that a seed belongs to another cluster than the token,
// or that somebody answers in its place.
type WrongAuthorityError struct {
	Want Fingerprint   // the token's
	Got  []Fingerprint // of the authorities that the seed presented; empty if it presented none
}

func (e *WrongAuthorityError) Error() string {
	got := make([]string, len(e.Got))
	for i, f := range e.Got {
		got[i] = f.String()
	}
	if len(got) == 0 {
		got = []string{"none"}
	}
	return fmt.Sprintf("wrong cluster authority: the token was made by %v, the seed presents %s: is the token of this cluster?",
		e.Want, strings.Join(got, ", "))
}

// Request joins the cluster of token: it asks the seeds, in order, over conn for a
// certificate for opts.Host, and once admitted writes the directory dir. Until then
// nothing is written. It returns the identity and the addresses (IP:PORT) of members.
// conn stays open and is the caller's; nothing reads it once Request has returned.
//
// Errors, wrapped with the seed: [ErrMalformedToken], [*TokenExpiredError],
// [*WrongAuthorityError], [*Refusal]; [ErrExists] if dir holds a cluster, [*OwnerError] if it is another user's.
func Request(ctx context.Context, conn net.PacketConn, seeds []net.Addr, token, dir string, opts Options) (*Identity, []string, error) {
	t, err := ParseToken(token)
	if err != nil {
		return nil, nil, err
	}
	if err := t.Check(time.Now()); err != nil {
		return nil, nil, err
	}
	if len(seeds) == 0 {
		return nil, nil, errors.New("join: no seed given")
	}
	opts.Cluster = "unknown" // until a seed says
	settings, err := newSettings(opts, time.Now())
	if err != nil {
		return nil, nil, err
	}
	if err := checkOwner(dir, os.Geteuid()); err != nil {
		return nil, nil, err
	}
	lock, err := makeDir(dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock(lock)
	if err := checkRoom(dir); err != nil {
		return nil, nil, err
	}
	c, err := newCandidate(t, settings)
	if err != nil {
		return nil, nil, err
	}
	transport := &quic.Transport{Conn: conn}
	defer transport.Close() // leaves conn open
	var failed []error
	for _, seed := range seeds {
		id, members, err := c.ask(ctx, transport, seed, opts.DialTCP)
		if err == nil {
			id.Dir = dir
			if err := id.write(); err != nil {
				return nil, nil, err
			}
			return id, members, nil
		}
		failed = append(failed, fmt.Errorf("join by way of %v: %w", seed, err))
		var refusal *Refusal
		if ctx.Err() != nil || errors.As(err, &refusal) && refusal.final() {
			break
		}
	}
	return nil, nil, errors.Join(failed...)
}

// A candidate is a host that asks for admission. One key serves all tries, so that a
// lost answer does not cost another use of the token.
type candidate struct {
	token    Token
	settings Settings
	key      *ecdsa.PrivateKey
	request  JoinRequest
}

func newCandidate(t Token, s Settings) (*candidate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: s.Host}}, key)
	if err != nil {
		return nil, fmt.Errorf("make certificate request: %w", err)
	}
	return &candidate{token: t, settings: s, key: key, request: JoinRequest{
		Version: joinVersion, TokenID: t.ID.String(), Secret: t.Secret[:], CSR: csr,
		Name: s.Host, Site: s.Site, Advertise: s.Advertise,
	}}, nil
}

// ask tries one seed. The secret leaves this host only after the seed has proved that
// it belongs to the token's authority.
func (c *candidate) ask(ctx context.Context, tr *quic.Transport, seed net.Addr, tcp func(context.Context, net.Addr, string) (net.Conn, error)) (*Identity, []string, error) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	var checked error // TLS wraps it beyond recognition
	conf := lane.JoinTLS(func(chain []*x509.Certificate) error {
		_, checked = c.trust(chain)
		return checked
	})
	s, closeConn, err := lane.Join(ctx, tr, seed, conf, tcp)
	if checked != nil {
		return nil, nil, checked
	}
	if err != nil {
		return nil, nil, err
	}
	defer closeConn()
	if at, ok := ctx.Deadline(); ok {
		s.SetDeadline(at)
	}
	stop := context.AfterFunc(ctx, s.Abort)
	defer stop()
	if err := writeMessage(s, c.request); err != nil {
		return nil, nil, err
	}
	s.Close()
	var resp JoinResponse
	if err := readMessage(s, &resp); err != nil {
		return nil, nil, err
	}
	if resp.Refused != nil {
		return nil, nil, resp.Refused
	}
	return c.accept(resp)
}

// trust checks that chain leads to the token's authority and returns that.
func (c *candidate) trust(chain []*x509.Certificate) (*x509.Certificate, error) {
	wrong := &WrongAuthorityError{Want: c.token.Authority}
	for _, cert := range chain {
		if !cert.IsCA {
			continue
		}
		fp := FingerprintOf(cert)
		if fp != c.token.Authority {
			wrong.Got = append(wrong.Got, fp)
			continue
		}
		if _, err := checkChain(chain, cert, time.Now()); err != nil {
			return nil, err
		}
		return cert, nil
	}
	return nil, wrong
}

// accept checks the answer before anything of it is believed.
func (c *candidate) accept(resp JoinResponse) (*Identity, []string, error) {
	if resp.Version != joinVersion {
		return nil, nil, fmt.Errorf("answer of version %d: this release speaks %d", resp.Version, joinVersion)
	}
	var chain []*x509.Certificate
	for i, der := range resp.Chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, fmt.Errorf("certificate %d of the answer: %w", i, err)
		}
		chain = append(chain, cert)
	}
	authority, err := c.trust(chain)
	if err != nil {
		return nil, nil, err
	}
	if name := chain[0].Subject.CommonName; name != c.settings.Host {
		return nil, nil, fmt.Errorf("the seed certified %q, not %q", name, c.settings.Host)
	}
	if !c.key.PublicKey.Equal(chain[0].PublicKey) {
		return nil, nil, errors.New("the seed certified another key than this host's")
	}
	if len(resp.GossipKeys) == 0 || len(resp.GossipKeys) > maxGossipKeys {
		return nil, nil, fmt.Errorf("the seed sent %d gossip keys, want 1 to %d", len(resp.GossipKeys), maxGossipKeys)
	}
	for _, k := range resp.GossipKeys {
		if err := checkGossipKey(k); err != nil {
			return nil, nil, fmt.Errorf("the seed's answer: %w", err)
		}
	}
	s := c.settings
	s.Cluster, s.ID = resp.Cluster, resp.ClusterID
	if s.Advertise == "" {
		s.Advertise = learned(resp.Observed, s.Bind)
	}
	if s, err = s.checked(); err != nil {
		return nil, nil, fmt.Errorf("the seed's answer: %w", err)
	}
	for _, m := range resp.Members {
		if err := checkAddr("member's", m); err != nil {
			return nil, nil, fmt.Errorf("the seed's answer: %w", err)
		}
	}
	id := &Identity{Settings: s, GossipKeys: resp.GossipKeys, key: c.key, chain: []*x509.Certificate{chain[0], authority}}
	return id, resp.Members, nil
}

// learned is what to advertise where a seed saw a request come from observed, an address of
// the socket of the request. The agent's socket will have the same one, but where bind leaves
// the port to the kernel it will be another one at each start.
func learned(observed, bind string) string {
	if b := addrPortOf(bind); !b.IsValid() || b.Port() != 0 {
		return observed
	}
	o := addrPortOf(observed)
	if !o.IsValid() {
		return observed
	}
	return netip.AddrPortFrom(o.Addr(), 0).String()
}
