package lane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
)

// ALPN protocol names. Member and lane connections are mutually authenticated: a
// member connection is lane 0 of its pair, for either end to open streams on; further
// lanes belong to the end that dialed them. On a join connection the client has no
// certificate yet and may only open join streams.
const (
	protoMember = "gridagent/1"
	protoLane   = "gridagent-lane/1"
	protoJoin   = "gridagent-join/1"
)

// Credentials are what an agent proves its identity with.
type Credentials struct {
	// Certificate is the agent's own, leaf first, followed by the cluster's
	// authority, so that a joining host can compare the authority's fingerprint.
	Certificate tls.Certificate
	// Roots holds the cluster's certificate authorities.
	Roots *x509.CertPool
}

// ErrWrongCluster means that the peer's certificate was not issued by this cluster's authority.
var ErrWrongCluster = errors.New("certificate of another cluster")

// An IdentityError means that the peer is a member, but not the one that was called.
type IdentityError struct{ Want, Got string }

func (e *IdentityError) Error() string {
	return fmt.Sprintf("host at this address is %q, not %q", e.Got, e.Want)
}

// verifyMember checks that the peer's chain leads to the cluster's authority and
// returns the host name that the certificate carries. Host names are the cluster's
// own, not the DNS's, so the usual host name verification does not apply.
func verifyMember(cs tls.ConnectionState, roots *x509.CertPool, usage x509.ExtKeyUsage) (string, error) {
	if len(cs.PeerCertificates) == 0 {
		return "", fmt.Errorf("no certificate: %w", ErrWrongCluster)
	}
	leaf := cs.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return "", fmt.Errorf("%q: %w", leaf.Subject.CommonName, ErrWrongCluster)
	}
	if err != nil {
		return "", fmt.Errorf("certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return "", errors.New("certificate names no host")
	}
	return leaf.Subject.CommonName, nil
}

// serverTLS returns the configuration for incoming connections. refused is told of
// every member connection whose certificate does not verify, with its source.
func serverTLS(c Credentials, refused func(net.Addr, error)) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.Certificate}}
	join := base.Clone()
	join.NextProtos = []string{protoJoin}
	top := base.Clone()
	top.NextProtos = []string{protoMember, protoLane, protoJoin}
	top.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		for _, p := range hello.SupportedProtos {
			if p == protoJoin {
				return join, nil
			}
		}
		from := hello.Conn.RemoteAddr()
		member := base.Clone()
		member.NextProtos = []string{protoMember, protoLane}
		member.ClientAuth = tls.RequireAnyClientCert // verified below, against the cluster's authority only
		member.VerifyConnection = func(cs tls.ConnectionState) error {
			_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageClientAuth)
			if err != nil {
				refused(from, err)
			}
			return err
		}
		return member, nil
	}
	return top
}

// memberTLS returns the configuration for dialing a member's lane. want is the host
// name that must answer, or "" where only the address is known.
func memberTLS(c Credentials, want string, lane int) *tls.Config {
	proto := protoMember
	if lane > 0 {
		proto = protoLane
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{c.Certificate},
		NextProtos:         []string{proto},
		InsecureSkipVerify: true, // replaced by VerifyConnection: names are the cluster's, not the DNS's
		VerifyConnection: func(cs tls.ConnectionState) error {
			got, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			if want != "" && got != want {
				return &IdentityError{Want: want, Got: got}
			}
			return nil
		},
	}
}

// JoinTLS returns the configuration with which a host that has no certificate yet
// asks a seed for one. check sees the seed's chain, leaf first, and must accept it:
// it is all that stands between the join token and an impostor.
func JoinTLS(check func(chain []*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{protoJoin},
		InsecureSkipVerify: true, // replaced by VerifyConnection: trust comes from the token's fingerprint
		VerifyConnection: func(cs tls.ConnectionState) error {
			return check(cs.PeerCertificates)
		},
	}
}
