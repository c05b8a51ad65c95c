package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/shell"
)

// An Identity is what a cluster directory holds: who this host is and of which
// cluster. It may be read concurrently; nothing here changes it once it is made.
type Identity struct {
	Dir      string
	Settings Settings
	// GossipKeys holds at least one key of 32 bytes; the first one encrypts.
	GossipKeys [][]byte
	// Authority is nil unless the authority's key is in Dir.
	Authority *Authority
	// Warnings tell the operator what is not as it should be, but works.
	Warnings []string

	chain []*x509.Certificate // leaf first, authority last
	key   *ecdsa.PrivateKey
}

// Options are what the operator says of a new host.
type Options struct {
	Cluster   string // name of the cluster; empty means "grid"; ignored by [Request]
	Host      string // required
	Site      string // may be empty
	Bind      string // IP:PORT, may be empty
	Advertise string // IP:PORT, may be empty

	// DialTCP is how [Request] connects to seeds that do not answer over UDP, as in [lane.Config]; nil: it does not.
	DialTCP func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error)
}

// Init makes a cluster in dir: its authority, its gossip key, and the certificate of
// this host, the first. It returns an error that wraps [ErrExists] if dir holds a
// cluster. random is read for keys and numbers; nothing but dir is touched.
func Init(dir string, opts Options, now time.Time, random io.Reader) (*Identity, error) {
	if opts.Cluster == "" {
		opts.Cluster = "grid"
	}
	s, err := newSettings(opts, now)
	if err != nil {
		return nil, err
	}
	lock, err := makeDir(dir)
	if err != nil {
		return nil, err
	}
	defer unlock(lock)
	authority, err := NewAuthority(s.Cluster, now, random)
	if err != nil {
		return nil, err
	}
	fp := authority.Fingerprint()
	s.ID = hex.EncodeToString(fp[:8])
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return nil, fmt.Errorf("make host key: %w", err)
	}
	der, err := authority.Issue(s.Host, &key.PublicKey, now)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("host certificate: %w", err)
	}
	gossip, err := NewGossipKey(random)
	if err != nil {
		return nil, err
	}
	id := &Identity{
		Dir:        dir,
		Settings:   s,
		GossipKeys: [][]byte{gossip},
		Authority:  authority,
		chain:      []*x509.Certificate{leaf, authority.Cert},
		key:        key,
	}
	if err := id.write(); err != nil {
		return nil, err
	}
	return id, nil
}

// write stores everything, cluster.json last: until then the directory holds no cluster.
func (id *Identity) write() error {
	hostKey, err := encodeKey(id.key)
	if err != nil {
		return err
	}
	settings, err := id.Settings.encode()
	if err != nil {
		return err
	}
	files := []struct {
		name string
		data []byte
		mode fs.FileMode
	}{
		{FileAuthority, encodeCerts(id.chain[len(id.chain)-1:]), modePublic},
		{FileHostCert, encodeCerts(id.chain), modePublic},
		{FileHostKey, hostKey, modeSecret},
		{FileGossip, FormatGossipKeys(id.GossipKeys), modeSecret},
	}
	if id.Authority != nil {
		caKey, err := encodeKey(id.Authority.key)
		if err != nil {
			return err
		}
		files = append(files, struct {
			name string
			data []byte
			mode fs.FileMode
		}{FileCAKey, caKey, modeSecret})
	}
	for _, f := range files {
		if err := WriteFile(filepath.Join(id.Dir, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(id.Dir, FileSettings), settings, modePublic)
}

// Load reads the cluster in dir and checks that its parts belong together. An error
// wraps [ErrNoCluster] if there is none, and is a [*PermissionError] if a key can be
// read by other users, an [*OwnerError] if dir is another user's.
func Load(dir string) (*Identity, error) {
	return load(dir, os.Geteuid())
}

func load(dir string, uid int) (*Identity, error) {
	raw, err := readFile(filepath.Join(dir, FileSettings), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: run gridagent init --dir %s to make one, or gridagent join SEED --token T --dir %s to join one",
			ErrNoCluster, dir, shell.Quote(dir), shell.Quote(dir))
	}
	if owner := checkOwner(dir, uid); owner != nil {
		err = owner // rather than that its file cannot be read
	}
	if err != nil {
		return nil, fmt.Errorf("load cluster: %w", err)
	}
	id := &Identity{Dir: dir}
	if id.Settings, err = ParseSettings(raw); err != nil {
		return nil, fmt.Errorf("load cluster: %s: %w", filepath.Join(dir, FileSettings), err)
	}
	if err := id.read(rand.Reader); err != nil {
		return nil, fmt.Errorf("load cluster: %w", err)
	}
	return id, nil
}

// read loads everything but the settings.
func (id *Identity) read(random io.Reader) error {
	if info, err := os.Stat(id.Dir); err == nil && info.Mode().Perm()&^modeDir != 0 {
		id.Warnings = append(id.Warnings, fmt.Sprintf("%s has mode %04o: other users can list it; run chmod 0700 %s",
			id.Dir, info.Mode().Perm(), id.Dir))
	}
	path := func(name string) string { return filepath.Join(id.Dir, name) }
	ca, err := readCerts(path(FileAuthority))
	if err != nil {
		return err
	}
	if id.chain, err = readCerts(path(FileHostCert)); err != nil {
		return err
	}
	leaf, err := checkChain(id.chain, ca[0], time.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", path(FileHostCert), err)
	}
	if leaf.Subject.CommonName != id.Settings.Host {
		return fmt.Errorf("%s is for host %q, %s says %q: do not copy a directory to another host, join from there with a token",
			path(FileHostCert), leaf.Subject.CommonName, FileSettings, id.Settings.Host)
	}
	id.chain = []*x509.Certificate{leaf, ca[0]}
	if id.key, err = readKey(path(FileHostKey)); err != nil {
		return err
	}
	if !id.key.PublicKey.Equal(leaf.PublicKey) {
		return fmt.Errorf("%s is not the key of %s", path(FileHostKey), path(FileHostCert))
	}
	raw, err := readFile(path(FileGossip), true)
	if err != nil {
		return err
	}
	if id.GossipKeys, err = ParseGossipKeys(raw); err != nil {
		return fmt.Errorf("%s: %w", path(FileGossip), err)
	}
	caKey, err := readKey(path(FileCAKey))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the authority lives on another host
	}
	if err != nil {
		return err
	}
	if !caKey.PublicKey.Equal(ca[0].PublicKey) {
		return fmt.Errorf("%s is not the key of %s", path(FileCAKey), path(FileAuthority))
	}
	id.Authority = &Authority{Cert: ca[0], key: caKey, rand: random}
	return nil
}

// Credentials are what the host proves its identity with on lanes. The chain ends in
// the authority, so that a joining host can compare its fingerprint.
func (id *Identity) Credentials() lane.Credentials {
	roots := x509.NewCertPool()
	roots.AddCert(id.chain[len(id.chain)-1])
	c := tls.Certificate{PrivateKey: id.key, Leaf: id.chain[0]}
	for _, cert := range id.chain {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return lane.Credentials{Certificate: c, Roots: roots}
}

// Fingerprint names the cluster's authority.
func (id *Identity) Fingerprint() Fingerprint { return FingerprintOf(id.chain[len(id.chain)-1]) }

// StatelessReset returns the key of QUIC's stateless resets, derived from the host's
// key: the same after every restart and unknown to others (RFC 9000 §10.3.2).
func (id *Identity) StatelessReset() ([32]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(id.key)
	if err != nil {
		return [32]byte{}, fmt.Errorf("stateless reset key: %w", err)
	}
	key, err := hkdf.Key(sha256.New, der, nil, "gridagent stateless reset 1", 32)
	if err != nil {
		return [32]byte{}, fmt.Errorf("stateless reset key: %w", err)
	}
	return [32]byte(key), nil
}

// PeersPath is where package membership remembers the members.
func (id *Identity) PeersPath() string { return filepath.Join(id.Dir, FilePeers) }

func encodeCerts(certs []*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func readCerts(path string) ([]*x509.Certificate, error) {
	data, err := readFile(path, false)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s holds no PEM certificate", path)
	}
	return certs, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	data, err := readFile(path, true)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a key of type %T, want ECDSA", path, parsed)
	}
	return key, nil
}
