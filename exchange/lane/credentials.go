package lane

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
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

// ErrWrongCluster means that the peer's certificate was not issued by this cluster's
// authority, or that it has none.
var ErrWrongCluster = errors.New("certificate of another cluster")

// ErrSelf means that the host that answers has this host's own name: the address is
// this host's, or its folder was copied to another machine.
var ErrSelf = errors.New("the host at this address has this host's own name")

// Why a listener refuses a connection, beside what its own check of the certificate finds.
var errDialerRefused = errors.New("the host that dialed does not accept this cluster's certificate")

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
	name := leaf.Subject.CommonName
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
	var unknown x509.UnknownAuthorityError
	// A stranger chooses the name: quoted, and no more of it than a host name may have.
	if errors.As(err, &unknown) {
		return "", fmt.Errorf("%.64q: %w", name, ErrWrongCluster)
	}
	if err != nil {
		return "", fmt.Errorf("certificate of %.64q: %w", name, err)
	}
	if name == "" {
		return "", errors.New("certificate names no host")
	}
	return name, nil
}

// memberName is the name in the certificate of a connection that verifyMember has passed.
func memberName(cs tls.ConnectionState) string {
	if len(cs.PeerCertificates) == 0 {
		return ""
	}
	return cs.PeerCertificates[0].Subject.CommonName
}

// ownName returns the host name that c carries.
func ownName(c Credentials) (string, error) {
	leaf := c.Certificate.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(c.Certificate.Certificate[0]); err != nil {
			return "", fmt.Errorf("this host's certificate: %w", err)
		}
	}
	if leaf.Subject.CommonName == "" {
		return "", errors.New("this host's certificate names no host")
	}
	return leaf.Subject.CommonName, nil
}

// baseTLS is common to both ends. There are no session tickets: a resumed session
// would skip the look at a certificate that may have expired since.
func baseTLS(c Credentials) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.Certificate},
		SessionTicketsDisabled: true,
	}
}

// serverTLS returns the configuration for incoming connections. refused is told of
// every member connection whose certificate does not verify, with its source.
func serverTLS(c Credentials, refused func(net.Addr, error)) *tls.Config {
	join := baseTLS(c)
	join.NextProtos = []string{protoJoin}
	top := baseTLS(c)
	top.NextProtos = []string{protoMember, protoLane, protoJoin}
	top.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, protoJoin) {
			return join, nil
		}
		from := hello.Conn.RemoteAddr()
		member := baseTLS(c)
		member.NextProtos = []string{protoMember, protoLane}
		// Requested, not required, although none will not do: a host without one is
		// refused below, where the source is known.
		member.ClientAuth = tls.RequestClientCert
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

// memberTLS returns the configuration for dialing a member's lane. It accepts every
// member; which one has answered is for the caller to look at.
func memberTLS(c Credentials, lane int) *tls.Config {
	conf := baseTLS(c)
	conf.NextProtos = []string{protoMember}
	if lane > 0 {
		conf.NextProtos = []string{protoLane}
	}
	conf.InsecureSkipVerify = true // replaced by VerifyConnection: names are the cluster's, not the DNS's
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := verifyMember(cs, c.Roots, x509.ExtKeyUsageServerAuth)
		return err
	}
	return conf
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
