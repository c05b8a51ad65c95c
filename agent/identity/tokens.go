package identity

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultTokenTTL is how long a token is good if nothing else is said.
	DefaultTokenTTL = 24 * time.Hour
	maxTokenTTL     = 366 * 24 * time.Hour

	// tokenMemory is how long a dead token is kept, so that its holder is told that
	// it expired rather than that it is unknown.
	tokenMemory = 30 * 24 * time.Hour
	maxTokens   = 1000
	// maxGrants bounds the admissions remembered of one token.
	maxGrants = 256
)

// Why a seed refuses a token.
var (
	ErrTokenUnknown = errors.New("unknown join token")
	ErrTokenRevoked = errors.New("join token was revoked")
	ErrTokenUsedUp  = errors.New("join token is used up")
)

// ErrTokensBroken means that the file of the tokens is there and cannot be used: nobody is
// let in, no token is made, and the file is not touched.
var ErrTokensBroken = errors.New("put a good copy back, or remove the file, which ends all tokens")

// A TokenInfo is what tokens.json holds of a token: not its secret.
type TokenInfo struct {
	ID      string    `json:"id"`
	Hash    []byte    `json:"hash"` // SHA-256 of the secret, which has 128 random bits: no salt is needed
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	MaxUses int       `json:"max_uses,omitempty"` // 0 is no limit
	Uses    int       `json:"uses"`
	Revoked bool      `json:"revoked,omitempty"`
	Grants  []Grant   `json:"grants,omitempty"` // newest last
}

// A Grant says that a token let a host in.
type Grant struct {
	Host string    `json:"host"`
	Key  []byte    `json:"key"` // SHA-256 of the host's public key
	At   time.Time `json:"at"`
}

// State says in one word what a token is good for at now.
func (t TokenInfo) State(now time.Time) string {
	switch {
	case t.Revoked:
		return "revoked"
	case !now.Before(t.Expires):
		return "expired"
	case t.MaxUses > 0 && t.Uses >= t.MaxUses:
		return "used up"
	}
	return "valid"
}

// Tokens are the join tokens of a cluster, in the authority's directory. Its methods
// may be called concurrently, also from several processes: a lock file guards them.
type Tokens struct {
	dir       string
	authority Fingerprint
}

// Tokens returns the join tokens, or an error where the authority does not live.
func (id *Identity) Tokens() (*Tokens, error) {
	if id.Authority == nil {
		return nil, fmt.Errorf("tokens: %s does not hold the authority's key %s: ask the host that ran gridagent init", id.Dir, FileCAKey)
	}
	return &Tokens{dir: id.Dir, authority: id.Fingerprint()}, nil
}

// Create makes a token that lets uses hosts in (0: any number) within ttl (0 means
// [DefaultTokenTTL]) from now. Its secret is read from random and is nowhere but in
// the result.
func (ts *Tokens) Create(ttl time.Duration, uses int, now time.Time, random io.Reader) (Token, error) {
	if ttl == 0 {
		ttl = DefaultTokenTTL
	}
	if ttl < time.Second || ttl > maxTokenTTL {
		return Token{}, fmt.Errorf("create token: life of %v: want 1s to %v", ttl, maxTokenTTL)
	}
	if uses < 0 {
		return Token{}, fmt.Errorf("create token: %d uses: want 0 (any number) or more", uses)
	}
	t := Token{Expires: now.Add(ttl).UTC().Truncate(time.Second), Authority: ts.authority}
	for _, b := range [][]byte{t.ID[:], t.Secret[:]} {
		if _, err := io.ReadFull(random, b); err != nil {
			return Token{}, fmt.Errorf("create token: %w", err)
		}
	}
	err := ts.update(now, func(list []TokenInfo) ([]TokenInfo, error) {
		list = slices.DeleteFunc(list, func(o TokenInfo) bool { return now.Sub(o.Expires) > tokenMemory })
		if len(list) >= maxTokens {
			list = slices.DeleteFunc(list, func(o TokenInfo) bool { return o.Revoked })
		}
		if len(list) >= maxTokens {
			return nil, fmt.Errorf("there are %d tokens already: revoke some; expired ones are forgotten %v after their end", len(list), tokenMemory)
		}
		if find(list, t.ID.String()) >= 0 {
			return nil, errors.New("its random id is in use")
		}
		hash := sha256.Sum256(t.Secret[:])
		return append(list, TokenInfo{ID: t.ID.String(), Hash: hash[:], Created: now.UTC().Truncate(time.Second),
			Expires: t.Expires, MaxUses: uses}), nil
	})
	if err != nil {
		return Token{}, fmt.Errorf("create token: %w", err)
	}
	return t, nil
}

// List returns the tokens, oldest first.
func (ts *Tokens) List() ([]TokenInfo, error) {
	list, err := ts.load()
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return list, nil
}

// Revoke ends the token whose id is, or uniquely begins with, id. Hosts that it let
// in stay members. The error wraps [ErrTokenUnknown] if there is none.
func (ts *Tokens) Revoke(id string) error {
	err := ts.update(time.Now(), func(list []TokenInfo) ([]TokenInfo, error) {
		i := find(list, id)
		if i == -1 {
			for j, t := range list {
				if id != "" && strings.HasPrefix(t.ID, strings.ToLower(id)) {
					if i >= 0 {
						return nil, fmt.Errorf("%q begins the ids of several tokens", id)
					}
					i = j
				}
			}
		}
		if i == -1 {
			return nil, fmt.Errorf("%w %q", ErrTokenUnknown, id)
		}
		list[i].Revoked = true
		return list, nil
	})
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

// check returns nil if the token would let a host in. The secret is compared in
// constant time, and before anything about the token is told.
func (t TokenInfo) check(secret []byte, now time.Time) error {
	hash := sha256.Sum256(secret)
	if subtle.ConstantTimeCompare(hash[:], t.Hash) != 1 {
		return ErrTokenUnknown
	}
	switch t.State(now) {
	case "revoked":
		return ErrTokenRevoked
	case "expired":
		return &TokenExpiredError{ID: t.ID, Expires: t.Expires, Ago: now.Sub(t.Expires)}
	}
	return nil
}

// Check returns nil if the token would admit a host at now, else [ErrTokenUnknown],
// [ErrTokenRevoked] or a [*TokenExpiredError]. Whether it is used up is known only
// to [Tokens.Redeem]: the host may be one that it has admitted before.
func (ts *Tokens) Check(id string, secret []byte, now time.Time) error {
	list, err := ts.load()
	if err != nil {
		return err
	}
	i := find(list, id)
	if i == -1 {
		return ErrTokenUnknown
	}
	return list[i].check(secret, now)
}

// Redeem takes one use of the token for the host with the given key and records it.
// The same host with the same key is admitted again for free: its answer may have
// been lost. Errors are those of [Tokens.Check] and [ErrTokenUsedUp].
func (ts *Tokens) Redeem(id string, secret []byte, host string, key []byte, now time.Time) error {
	return ts.update(now, func(list []TokenInfo) ([]TokenInfo, error) {
		i := find(list, id)
		if i == -1 {
			return nil, ErrTokenUnknown
		}
		t := &list[i]
		if err := t.check(secret, now); err != nil {
			return nil, err
		}
		for _, g := range t.Grants {
			if g.Host == host && subtle.ConstantTimeCompare(g.Key, key) == 1 {
				return list, nil
			}
		}
		if t.MaxUses > 0 && t.Uses >= t.MaxUses {
			return nil, ErrTokenUsedUp
		}
		t.Uses++
		t.Grants = append(t.Grants, Grant{Host: host, Key: key, At: now.UTC().Truncate(time.Second)})
		if drop := len(t.Grants) - maxGrants; drop > 0 {
			t.Grants = slices.Delete(t.Grants, 0, drop)
		}
		return list, nil
	})
}

// admitted reports whether any token is known to have let host in with another key.
func (ts *Tokens) admitted(host string, key []byte) (otherKey bool, err error) {
	list, err := ts.load()
	for _, t := range list {
		for _, g := range t.Grants {
			otherKey = otherKey || g.Host == host && !bytes.Equal(g.Key, key)
		}
	}
	return otherKey, err
}

func find(list []TokenInfo, id string) int {
	return slices.IndexFunc(list, func(t TokenInfo) bool { return t.ID == id })
}

// update changes tokens.json under the lock; nothing is written if f fails.
func (ts *Tokens) update(now time.Time, f func([]TokenInfo) ([]TokenInfo, error)) error {
	// A lock file of its own: tokens.json is replaced by renaming, and a lock on the
	// replaced file would guard nothing.
	lock, err := os.OpenFile(filepath.Join(ts.dir, "."+FileTokens+".lock"), os.O_CREATE|os.O_RDWR, modeSecret)
	if err != nil {
		return err
	}
	defer lock.Close() // releases it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	list, err := ts.load()
	if err != nil {
		return err
	}
	if list, err = f(list); err != nil {
		return err
	}
	data, err := encodeTokens(list, now)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(ts.dir, FileTokens), data, modeSecret)
}

// encodeTokens returns what the file holds, no more than is read of it. Where that is little, whom revoked and expired tokens let in is forgotten: nobody is
// let in by them again.
func encodeTokens(list []TokenInfo, now time.Time) ([]byte, error) {
	for {
		data, err := json.MarshalIndent(tokensFile{Version: 1, Tokens: list}, "", "  ")
		if err != nil || len(data) < maxFile {
			return append(data, '\n'), err
		}
		forgot := false
		for i, t := range list {
			if len(t.Grants) > 0 && (t.Revoked || !now.Before(t.Expires)) {
				list[i].Grants, forgot = nil, true
			}
		}
		if !forgot {
			return nil, fmt.Errorf("%s would have %d bytes, at most %d are read: revoke tokens that have let in many hosts, and make new ones", FileTokens, len(data), maxFile)
		}
	}
}

type tokensFile struct {
	Version int         `json:"version"`
	Tokens  []TokenInfo `json:"tokens"`
}

func (ts *Tokens) load() ([]TokenInfo, error) {
	path := filepath.Join(ts.dir, FileTokens)
	data, err := readFile(path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f tokensFile
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Version != 1 {
		err = fmt.Errorf("version %d: this release reads 1", f.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("join tokens in %s cannot be read (%w): %w", path, err, ErrTokensBroken)
	}
	return f.Tokens, nil
}
