package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"
)

// Admit makes the directory of another host of by's cluster without a network: for
// whoever holds the authority and prepares several hosts at once, as the demo does.
// It returns an error that wraps [ErrExists] if dir holds a cluster.
func Admit(by *Identity, dir string, opts Options, now time.Time, random io.Reader) (*Identity, error) {
	if by.Authority == nil {
		return nil, errors.New("admit: the directory does not hold the authority")
	}
	opts.Cluster = by.Settings.Cluster
	s, err := newSettings(opts, now)
	if err != nil {
		return nil, err
	}
	s.ID = by.Settings.ID
	lock, err := makeDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock(lock)
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	der, err := by.Authority.Issue(s.Host, &key.PublicKey, now)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("host certificate: %w", err)
	}
	id := &Identity{
		Dir: dir, Settings: s, GossipKeys: by.GossipKeys,
		chain: []*x509.Certificate{leaf, by.Authority.Cert}, key: key,
	}
	return id, id.write()
}
