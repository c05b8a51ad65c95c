package identity

import (
	"bytes"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A statement is believed from the host that signed it, for its purpose, in its cluster,
// as it was signed, and from nobody else.
func TestSignAndVerify(t *testing.T) {
	now := time.Now()
	make := func(cluster, host string) *Identity {
		id, err := Init(filepath.Join(t.TempDir(), host), Options{Cluster: cluster, Host: host}, now, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := make("one", "a")
	second, err := Admit(first, filepath.Join(t.TempDir(), "b"), Options{Host: "b"}, now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a, b, stranger := first.Signer(), second.Signer(), make("two", "a").Signer()
	message := []byte("a→b: 5 Mbit/s")
	sig, err := a.Sign("map", message)
	if err != nil {
		t.Fatal(err)
	}
	again, err := a.Sign("map", message)
	if err != nil || !bytes.Equal(sig, again) {
		t.Errorf("signing twice gives %x and %x, %v", sig, again, err)
	}
	theirs, err := stranger.Sign("map", message)
	if err != nil {
		t.Fatal(err)
	}
	bent := bytes.Clone(sig)
	bent[len(bent)-1] ^= 1
	for _, tt := range []struct {
		name, purpose, host      string
		credential, message, sig []byte
		want                     string // in the error; empty: it is good
	}{
		{"good", "map", "a", a.Credential(), message, sig, ""},
		{"once more", "map", "a", a.Credential(), message, sig, ""},
		{"other purpose", "plan", "a", a.Credential(), message, sig, "not the signature of host a"},
		{"other message", "map", "a", a.Credential(), []byte("a→b: 9 Mbit/s"), sig, "not the signature"},
		{"bent signature", "map", "a", a.Credential(), message, bent, "not the signature"},
		{"no signature", "map", "a", a.Credential(), message, nil, "not the signature"},
		{"b's certificate for a", "map", "a", b.Credential(), message, sig, `for host "b"`},
		{"a's signature for b", "map", "b", b.Credential(), message, sig, "not the signature of host b"},
		{"other cluster's a", "map", "a", stranger.Credential(), message, theirs, "certificate"},
		{"no certificate", "map", "a", nil, message, sig, "certificate"},
	} {
		err := b.Verify(tt.purpose, tt.host, tt.credential, tt.message, tt.sig)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if n := len(b.seen); n != 2 {
		t.Errorf("%d certificates remembered, want those of a and b", n)
	}
}

func BenchmarkVerify(b *testing.B) {
	id, err := Init(filepath.Join(b.TempDir(), "a"), Options{Host: "a"}, time.Now(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	s := id.Signer()
	message := make([]byte, 500)
	sig, err := s.Sign("map", message)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Verify("map", "a", s.Credential(), message, sig); err != nil {
			b.Fatal(err)
		}
	}
}
