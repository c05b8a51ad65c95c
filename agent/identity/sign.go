package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// signDomain keeps a signature from being taken for one of another purpose, or of another
// cluster: it, a zero byte and the authority's fingerprint precede what is signed.
const signDomain = "gridagent signed statement 1"

// A Signer makes statements that other hosts can check without a connection to this one,
// because others have passed them on, and checks theirs. It may be used concurrently.
type Signer struct {
	key       *ecdsa.PrivateKey
	leaf      []byte
	authority *x509.Certificate
	prefix    []byte

	mu   sync.Mutex // guards seen
	seen map[[sha256.Size]byte]certified
}

// certified is a host certificate that was checked.
type certified struct {
	host  string
	key   *ecdsa.PublicKey
	until time.Time // it is valid
}

// maxCertified bounds how many certificates are remembered (some 200 bytes each): as many
// as a cluster has hosts, or so. Checking one anew takes 0.2 ms.
const maxCertified = 8192

// Signer returns what signs in the name of this host.
func (id *Identity) Signer() *Signer {
	fp := id.Fingerprint()
	return &Signer{
		key:       id.key,
		leaf:      id.chain[0].Raw,
		authority: id.chain[len(id.chain)-1],
		prefix:    append(append([]byte(signDomain), 0), fp[:]...),
		seen:      map[[sha256.Size]byte]certified{},
	}
}

// Credential is what others need in order to check a signature: the host's certificate, DER.
func (s *Signer) Credential() []byte { return s.leaf }

func (s *Signer) digest(purpose string, message []byte) []byte {
	h := sha256.New()
	h.Write(s.prefix)
	h.Write([]byte(purpose))
	h.Write([]byte{0})
	h.Write(message)
	return h.Sum(nil)
}

// Sign returns the signature of message for purpose, a short constant: ECDSA over P-256 and
// SHA-256, ASN.1 (FIPS 186-5). It is deterministic (RFC 6979).
func (s *Signer) Sign(purpose string, message []byte) ([]byte, error) {
	sig, err := s.key.Sign(nil, s.digest(purpose, message), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", purpose, err)
	}
	return sig, nil
}

// Verify checks that host, a member of this cluster with the certificate credential, signed
// message for purpose.
func (s *Signer) Verify(purpose, host string, credential, message, signature []byte) error {
	c, err := s.check(credential, time.Now())
	if err != nil {
		return err
	}
	if c.host != host {
		return fmt.Errorf("the certificate is for host %.80q, not for %.80q", c.host, host)
	}
	if !ecdsa.VerifyASN1(c.key, s.digest(purpose, message), signature) {
		return fmt.Errorf("not the signature of host %s", host)
	}
	return nil
}

// check returns what credential certifies at now.
func (s *Signer) check(credential []byte, now time.Time) (certified, error) {
	id := sha256.Sum256(credential)
	s.mu.Lock()
	c, ok := s.seen[id]
	s.mu.Unlock()
	if ok && now.Before(c.until) {
		return c, nil
	}
	leaf, err := x509.ParseCertificate(credential)
	if err != nil {
		return certified{}, fmt.Errorf("certificate: %w", err)
	}
	if _, err := checkChain([]*x509.Certificate{leaf}, s.authority, now); err != nil {
		return certified{}, err
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return certified{}, errors.New("certificate: its key is not ECDSA")
	}
	c = certified{host: leaf.Subject.CommonName, key: key, until: leaf.NotAfter}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) >= maxCertified {
		clear(s.seen)
	}
	s.seen[id] = c
	return c, nil
}
