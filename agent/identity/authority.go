package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

const (
	// authorityLife is how long a cluster's authority, and with it every host
	// certificate, is valid. There is no renewal protocol yet, so it is long.
	authorityLife = 10 * 365 * 24 * time.Hour
	// clockSlack is how far behind another host's clock may be for a certificate
	// made now to be valid there.
	clockSlack = time.Hour
)

// A Fingerprint names an authority: SHA-256 of its public key (the certificate's
// SubjectPublicKeyInfo, as in RFC 7469 §2.4), so it survives a renewed certificate.
// It is cut to 160 bits to keep tokens short; finding a second key for one still
// takes 2^160 tries.
type Fingerprint [20]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// FingerprintOf returns the fingerprint of c's public key.
func FingerprintOf(c *x509.Certificate) Fingerprint {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return Fingerprint(sum[:len(Fingerprint{})])
}

// An Authority issues the certificates of one cluster.
type Authority struct {
	Cert *x509.Certificate
	key  *ecdsa.PrivateKey
	rand io.Reader
}

// NewAuthority makes the authority of a cluster, valid for ten years from an hour
// before now. random is read for serial numbers and, where Go still asks for it,
// keys (from Go 1.26 on, package ecdsa draws keys from the system's source alone).
func NewAuthority(cluster string, now time.Time, random io.Reader) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("make authority's key: %w", err)
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: cluster + " cluster authority"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true, // it signs hosts, never another authority
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(random, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make authority's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make authority's certificate: %w", err)
	}
	return &Authority{Cert: cert, key: key, rand: random}, nil
}

// Fingerprint names the authority.
func (a *Authority) Fingerprint() Fingerprint { return FingerprintOf(a.Cert) }

// Issue returns the certificate, DER, of the host called name with the given public
// key: CommonName is the name, good as client and as server, valid from an hour
// before now for as long as the authority is.
func (a *Authority) Issue(name string, public any, now time.Time) ([]byte, error) {
	name, err := HostName(name)
	if err != nil {
		return nil, err
	}
	if now.After(a.Cert.NotAfter) {
		return nil, fmt.Errorf("issue certificate for %s: the cluster's authority expired on %s",
			name, a.Cert.NotAfter.Format(time.DateOnly))
	}
	serial, err := newSerial(a.rand)
	if err != nil {
		return nil, err
	}
	notBefore := now.Add(-clockSlack)
	if notBefore.Before(a.Cert.NotBefore) {
		notBefore = a.Cert.NotBefore
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             notBefore,
		NotAfter:              a.Cert.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(a.rand, t, a.Cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", name, err)
	}
	return der, nil
}

// newSerial returns a positive serial number of at most 127 bits (RFC 5280 §4.1.2.2).
func newSerial(random io.Reader) (*big.Int, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	b[0] &= 0x7f
	b[15] |= 1 // never zero
	return new(big.Int).SetBytes(b[:]), nil
}

// checkChain verifies that chain, leaf first and authority last, is that of a host
// of the cluster and returns the leaf. now decides about validity.
func checkChain(chain []*x509.Certificate, authority *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("no certificate")
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		if err != nil {
			return nil, fmt.Errorf("certificate of %q: %w", chain[0].Subject.CommonName, err)
		}
	}
	if _, err := HostName(chain[0].Subject.CommonName); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return chain[0], nil
}
