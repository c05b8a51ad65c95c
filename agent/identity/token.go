package identity

import (
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// A Token lets a host join. Its text form is the prefix ga1_ and 80 characters of
// Crockford's base32 (no punctuation, so a double click selects all of it; no
// letters that look like digits) of 50 bytes:
//
//	id          5 bytes   names it in tokens.json and in lists; not secret
//	secret     16 bytes   what the seed checks
//	expires     5 bytes   Unix seconds, big endian
//	authority  20 bytes   the fingerprint that the seed's certificate must lead to
//	checksum    4 bytes   CRC-32 of the above: a slip in copying is told from a wrong token
type Token struct {
	ID        TokenID
	Secret    [16]byte
	Expires   time.Time // whole seconds
	Authority Fingerprint
}

// A TokenID names a token; its text form is 10 hexadecimal digits.
type TokenID [5]byte

func (id TokenID) String() string { return hex.EncodeToString(id[:]) }

const (
	tokenPrefix = "ga1_"
	tokenBytes  = 5 + 16 + 5 + 20 + 4
)

var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// likeDigits undoes what eyes and hands do to base32 (Crockford: "decode symbol").
var likeDigits = strings.NewReplacer("o", "0", "i", "1", "l", "1")

// ErrMalformedToken means that a text is not a token; the wrapping error says why.
var ErrMalformedToken = errors.New("malformed join token")

// ErrTokenExpired is what every [*TokenExpiredError] is.
var ErrTokenExpired = errors.New("join token expired")

// A TokenExpiredError says when a token ended.
type TokenExpiredError struct {
	ID      string
	Expires time.Time
	Ago     time.Duration // how long before the check, by the checker's clock
}

func (e *TokenExpiredError) Error() string {
	return fmt.Sprintf("join token %s expired %v ago, at %s: make a new one with gridagent token create",
		e.ID, e.Ago.Round(time.Second), e.Expires.UTC().Format(time.RFC3339))
}

// Is matches [ErrTokenExpired].
func (e *TokenExpiredError) Is(target error) bool { return target == ErrTokenExpired }

// String returns the text form, which contains the secret.
func (t Token) String() string {
	b := make([]byte, 0, tokenBytes)
	b = append(b, t.ID[:]...)
	b = append(b, t.Secret[:]...)
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(t.Expires.Unix()))
	b = append(b, at[3:]...)
	b = append(b, t.Authority[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return tokenPrefix + crockford.EncodeToString(b)
}

// ParseToken reads a token's text form; white space within it, as line breaks in a
// terminal leave, does not matter. Its errors wrap [ErrMalformedToken] and do not
// quote the text, which may hold a secret. It does not look at the clock: see [Token.Check].
func ParseToken(text string) (Token, error) {
	text = strings.ToLower(strings.Join(strings.Fields(text), ""))
	malformed := func(format string, args ...any) (Token, error) {
		return Token{}, fmt.Errorf("%w: %s", ErrMalformedToken, fmt.Sprintf(format, args...))
	}
	if text == "" {
		return malformed("it is empty")
	}
	version, body, ok := strings.Cut(text, "_")
	if !ok || !strings.HasPrefix(version, "ga") {
		return malformed("it does not begin with %s", tokenPrefix)
	}
	if version != tokenPrefix[:len(tokenPrefix)-1] {
		return malformed("its version is not %q, which is all that this release reads", tokenPrefix)
	}
	if want := crockford.EncodedLen(tokenBytes); len(body) != want {
		return malformed("it has %d characters after the prefix, want %d: was it cut in copying?", len(body), want)
	}
	b, err := crockford.DecodeString(likeDigits.Replace(body))
	if err != nil {
		return malformed("it contains a character that no token has")
	}
	sum := len(b) - 4
	if crc32.ChecksumIEEE(b[:sum]) != binary.BigEndian.Uint32(b[sum:]) {
		return malformed("its checksum is wrong: was it mistyped?")
	}
	var t Token
	b = b[copy(t.ID[:], b):]
	b = b[copy(t.Secret[:], b):]
	var at [8]byte
	b = b[copy(at[3:], b):]
	t.Expires = time.Unix(int64(binary.BigEndian.Uint64(at[:])), 0).UTC()
	copy(t.Authority[:], b)
	return t, nil
}

// Check returns a [*TokenExpiredError] if t has ended at now.
func (t Token) Check(now time.Time) error {
	if now.Before(t.Expires) {
		return nil
	}
	return &TokenExpiredError{ID: t.ID.String(), Expires: t.Expires, Ago: now.Sub(t.Expires)}
}
