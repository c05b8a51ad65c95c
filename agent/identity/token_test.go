package identity

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func randomToken(rng *mrand.Rand) Token {
	var t Token
	for _, b := range [][]byte{t.ID[:], t.Secret[:], t.Authority[:]} {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	t.Expires = time.Unix(rng.Int64N(1<<40), 0).UTC()
	return t
}

func TestTokenTextRoundTrip(t *testing.T) {
	for seed := range uint64(500) {
		want := randomToken(mrand.New(mrand.NewPCG(seed, 1)))
		text := want.String()
		if len(text) != 84 {
			t.Fatalf("seed %d: %d characters, want 84: %s", seed, len(text), text)
		}
		for _, form := range []string{text, strings.ToUpper(text), " " + text[:40] + "\n  " + text[40:] + "\n"} {
			got, err := ParseToken(form)
			if err != nil || got != want {
				t.Fatalf("seed %d: %q read as %+v, %v, want %+v", seed, form, got, err, want)
			}
		}
	}
}

// Every single wrong character, and every cut, must be told from a token that is
// merely unknown: CRC-32 finds all bursts of up to 32 bits.
func TestTokenSlipIsNoticed(t *testing.T) {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	for seed := range uint64(20) {
		text := randomToken(mrand.New(mrand.NewPCG(seed, 2))).String()
		for i := len(tokenPrefix); i < len(text); i++ {
			for _, c := range alphabet {
				if byte(c) == text[i] {
					continue
				}
				if _, err := ParseToken(text[:i] + string(c) + text[i+1:]); !errors.Is(err, ErrMalformedToken) {
					t.Fatalf("seed %d: %q in place %d of %s: %v", seed, c, i, text, err)
				}
			}
			if _, err := ParseToken(text[:i]); !errors.Is(err, ErrMalformedToken) {
				t.Fatalf("seed %d: cut to %d of %s: %v", seed, i, text, err)
			}
		}
	}
}

func TestParseTokenSaysWhatIsWrong(t *testing.T) {
	good := randomToken(mrand.New(mrand.NewPCG(1, 1))).String()
	tests := []struct{ in, want string }{
		{"", "empty"}, {"hello", "does not begin"}, {"ga2_" + good[4:], "version"},
		{good + "0", "81 characters"}, {good[:len(good)-1] + "u", "character"},
	}
	for _, tc := range tests {
		_, err := ParseToken(tc.in)
		if !errors.Is(err, ErrMalformedToken) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.in, err, tc.want)
		}
		if err != nil && len(tc.in) > 20 && strings.Contains(err.Error(), tc.in[10:20]) {
			t.Errorf("%q: the error quotes what may be a secret: %v", tc.in, err)
		}
	}
}

func TestTokenBook(t *testing.T) {
	ts, err := makeCluster(t, "ut0").Tokens()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	tok, err := ts.Create(0, 2, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Expires.Sub(now); got != DefaultTokenTTL {
		t.Errorf("life %v, want %v", got, DefaultTokenTTL)
	}
	id, secret := tok.ID.String(), tok.Secret[:]
	redeem := func(host, key string, at time.Time) error { return ts.Redeem(id, secret, host, []byte(key), at) }
	if err := ts.Redeem(id, make([]byte, 16), "a", []byte("ka"), now); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("wrong secret: %v", err)
	}
	if err := ts.Redeem("0000000000", secret, "a", []byte("ka"), now); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("wrong id: %v", err)
	}
	for _, host := range []string{"a", "a", "b", "a"} { // the same host and key again are free
		if err := redeem(host, "k"+host, now); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := redeem("c", "kc", now); !errors.Is(err, ErrTokenUsedUp) {
		t.Errorf("third host: %v", err)
	}
	if err := redeem("a", "other", now); !errors.Is(err, ErrTokenUsedUp) {
		t.Errorf("first host with another key: %v", err)
	}
	var exp *TokenExpiredError
	if err := ts.Check(id, secret, now.Add(25*time.Hour)); !errors.As(err, &exp) || exp.Ago != time.Hour {
		t.Errorf("a day later: %v, want expired 1h ago", err)
	}
	if err := ts.Check(id, secret, tok.Expires); !errors.Is(err, ErrTokenExpired) {
		t.Errorf("at its end: %v", err)
	}
	if err := ts.Check(id, secret, tok.Expires.Add(-1)); err != nil {
		t.Errorf("just before its end: %v", err)
	}
	if err := ts.Revoke(id[:4]); err != nil {
		t.Fatal(err)
	}
	if err := ts.Check(id, secret, now); !errors.Is(err, ErrTokenRevoked) {
		t.Errorf("revoked: %v", err)
	}
	if err := ts.Check(id, make([]byte, 16), now); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("revoked and wrong secret: %v: the state was told to a stranger", err)
	}
	list, err := ts.List()
	if err != nil || len(list) != 1 || list[0].Uses != 2 || len(list[0].Grants) != 2 || list[0].State(now) != "revoked" {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := ts.Revoke("ffff"); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("revoke of nothing: %v", err)
	}
	if _, err := ts.Create(-time.Hour, 0, now, rand.Reader); err == nil {
		t.Error("made a token with a negative life")
	}
	if _, err := ts.Create(time.Hour, 0, now.Add(60*24*time.Hour), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if list, err := ts.List(); err != nil || len(list) != 1 || list[0].ID == id {
		t.Errorf("two months later: %+v, %v: the old one was not forgotten", list, err)
	}
}

// Tokens of one use must admit one of many that come at once, also through several
// books over one directory, as several processes have.
// A file that cannot be read is named by every operation, and stays as it is.
func TestBrokenTokenFile(t *testing.T) {
	id, err := Init(filepath.Join(t.TempDir(), "a"), Options{Cluster: "c", Host: "a"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ts, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(id.Dir, FileTokens)
	for _, content := range []string{"{", "", `{"version":2}`, "[]"} {
		if err := os.WriteFile(path, []byte(content), modeSecret); err != nil {
			t.Fatal(err)
		}
		_, created := ts.Create(0, 0, time.Now(), rand.Reader)
		_, listed := ts.List()
		for what, err := range map[string]error{
			"create": created, "list": listed, "revoke": ts.Revoke("x"), "check": ts.Check("x", nil, time.Now()),
			"redeem": ts.Redeem("x", nil, "h", nil, time.Now()),
		} {
			if !errors.Is(err, ErrTokensBroken) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %s: %v, want an error that names the file", content, what, err)
			}
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Errorf("%q became %q, %v", content, b, err)
		}
		if r := asRefusal(JoinRequest{}, listed); strings.Contains(r.Error(), path) || !strings.Contains(r.Error(), "cannot read its join tokens") {
			t.Errorf("a stranger is told: %v", r)
		}
	}
}

// fullBook returns the tokens of a cluster whose file has no room for a further admission, as a token like dead has let in many hosts, and one that is good.
func fullBook(t *testing.T, dead TokenInfo, now time.Time) (*Tokens, Token) {
	t.Helper()
	id := makeCluster(t, "ut0")
	ts, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	good, err := ts.Create(time.Hour, 0, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	list, err := ts.List()
	if err != nil {
		t.Fatal(err)
	}
	size := func() int {
		data, err := json.MarshalIndent(tokensFile{Version: 1, Tokens: list}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return len(data) + 1
	}
	grant := Grant{Host: "host", Key: make([]byte, 32), At: now}
	before := size()
	dead.ID, dead.Hash = "0000000000", make([]byte, 32)
	dead.Grants = []Grant{grant, grant}
	list = append(list, dead)
	two := size()
	list[1].Grants = append(list[1].Grants, grant)
	each := size() - two
	list[1].Grants = slices.Repeat([]Grant{grant}, (maxFile-before-1000)/each)
	list[1].Grants[0].Host += strings.Repeat("x", maxFile-size())
	data, err := json.MarshalIndent(tokensFile{Version: 1, Tokens: list}, "", "  ")
	if err == nil {
		err = WriteFile(filepath.Join(id.Dir, FileTokens), append(data, '\n'), modeSecret)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ts, good
}

// The file of the tokens is never written larger than it is read: nobody could be let in any more. What tokens that are revoked or
// expired have let in is forgotten before that; if that is not enough the admission is refused.
func TestTokenFileStaysReadable(t *testing.T) {
	now := time.Now()
	for name, dead := range map[string]TokenInfo{
		"revoked": {Expires: now.Add(time.Hour), Revoked: true},
		"expired": {Expires: now.Add(-time.Second)},
		"valid":   {Expires: now.Add(time.Hour)},
	} {
		ts, good := fullBook(t, dead, now)
		err := ts.Redeem(good.ID.String(), good.Secret[:], "new", []byte("key"), now)
		list, lerr := ts.List()
		if lerr != nil {
			t.Fatalf("%s: %v", name, lerr)
		}
		if full := name == "valid"; full != (err != nil) || full != (len(list[0].Grants) == 0) || full && !strings.Contains(err.Error(), "revoke") {
			t.Errorf("%s: %v, %d grants", name, err, len(list[0].Grants))
		}
	}
}

// Where there are as many tokens as may be, those that were revoked give way, also long before they would have expired.
func TestRevokedTokensGiveWay(t *testing.T) {
	now := time.Now()
	ts, err := makeCluster(t, "ut0").Tokens()
	if err != nil {
		t.Fatal(err)
	}
	list := make([]TokenInfo, maxTokens)
	for i := range list {
		list[i] = TokenInfo{ID: fmt.Sprintf("%010x", i), Hash: make([]byte, 32), Expires: now.Add(300 * 24 * time.Hour)}
	}
	if err := ts.update(now, func([]TokenInfo) ([]TokenInfo, error) { return list, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Create(time.Hour, 0, now, rand.Reader); err == nil {
		t.Errorf("made one more than %d", maxTokens)
	}
	if err := ts.Revoke(list[7].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := ts.Create(time.Hour, 0, now, rand.Reader); err != nil {
		t.Errorf("one was revoked: %v", err)
	}
}

func TestTokenUsesAreCountedOnce(t *testing.T) {
	id := makeCluster(t, "ut0")
	ts, err := id.Tokens()
	if err != nil {
		t.Fatal(err)
	}
	const uses = 3
	tok, err := ts.Create(time.Hour, uses, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for i := range 12 {
		wg.Go(func() {
			book, err := id.Tokens()
			if err != nil {
				t.Error(err)
				return
			}
			switch err := book.Redeem(tok.ID.String(), tok.Secret[:], "h", []byte{byte(i)}, time.Now()); {
			case err == nil:
				mu.Lock()
				admitted++
				mu.Unlock()
			case !errors.Is(err, ErrTokenUsedUp):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted != uses {
		t.Errorf("%d admitted, want %d", admitted, uses)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(randomToken(mrand.New(mrand.NewPCG(1, 1))).String())
	f.Add("ga1_")
	f.Fuzz(func(t *testing.T, in string) {
		tok, err := ParseToken(in)
		if err != nil {
			return
		}
		if again, err := ParseToken(tok.String()); err != nil || again != tok {
			t.Errorf("%+v became %+v, %v", tok, again, err)
		}
	})
}
