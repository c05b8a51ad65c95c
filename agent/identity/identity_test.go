package identity

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// makeCluster makes a cluster whose first host is name.
func makeCluster(t testing.TB, name string) *Identity {
	t.Helper()
	id, err := Init(filepath.Join(t.TempDir(), "c"), Options{Host: name, Site: "UT", Advertise: "10.0.0.1:7946"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestInitThenLoad(t *testing.T) {
	made := makeCluster(t, "UT0")
	got, err := Load(made.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Settings != made.Settings {
		t.Errorf("settings: loaded %+v, made %+v", got.Settings, made.Settings)
	}
	if got.Settings.Host != "ut0" || got.Settings.Cluster != "grid" {
		t.Errorf("host %q of cluster %q, want ut0 of grid", got.Settings.Host, got.Settings.Cluster)
	}
	if got.Fingerprint() != made.Fingerprint() || got.Authority == nil {
		t.Errorf("authority %v (key %v), want %v", got.Fingerprint(), got.Authority != nil, made.Fingerprint())
	}
	if string(got.GossipKeys[0]) != string(made.GossipKeys[0]) || len(got.GossipKeys) != 1 {
		t.Errorf("gossip keys differ")
	}
	if len(got.Warnings) > 0 {
		t.Errorf("warnings: %q", got.Warnings)
	}
	a, err := made.StatelessReset()
	if err != nil {
		t.Fatal(err)
	}
	b, err := got.StatelessReset()
	if err != nil {
		t.Fatal(err)
	}
	if a != b || a == [32]byte{} {
		t.Errorf("stateless reset key %x, then %x", a, b)
	}
	want := map[string]fs.FileMode{".": 0o700, FileCAKey: 0o600, FileHostKey: 0o600, FileGossip: 0o600}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(made.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %04o, want %04o", name, info.Mode().Perm(), mode)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	made := makeCluster(t, "ut0")
	before, err := os.ReadFile(filepath.Join(made.Dir, FileCAKey))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(made.Dir, Options{Host: "ut0"}, time.Now(), rand.Reader); !errors.Is(err, ErrExists) {
		t.Errorf("init over a cluster: %v, want ErrExists", err)
	}
	if err := os.Remove(filepath.Join(made.Dir, FileSettings)); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(made.Dir, Options{Host: "ut0"}, time.Now(), rand.Reader); err == nil {
		t.Errorf("init over a lone authority's key succeeded")
	}
	if after, err := os.ReadFile(filepath.Join(made.Dir, FileCAKey)); err != nil || string(after) != string(before) {
		t.Errorf("the authority's key was touched: %v", err)
	}
	wide := t.TempDir()
	if err := os.Chmod(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wide, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var pe *PermissionError
	if _, err := Init(wide, Options{Host: "ut0"}, time.Now(), rand.Reader); !errors.As(err, &pe) {
		t.Errorf("init in somebody's folder: %v, want a PermissionError", err)
	}
	for _, o := range []Options{{Host: ""}, {Host: "a b"}, {Host: "ut0", Advertise: "0.0.0.0:1"}, {Host: "ut0", Bind: "7946"}} {
		dir := filepath.Join(t.TempDir(), "c")
		if _, err := Init(dir, o, time.Now(), rand.Reader); err == nil {
			t.Errorf("init with %+v succeeded", o)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("init with %+v left %s: %v", o, dir, err)
		}
	}
}

func TestLoadSaysWhatToDo(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"nothing there", os.RemoveAll, "gridagent init"},
		{"readable key", func(d string) error { return os.Chmod(filepath.Join(d, FileHostKey), 0o644) }, "chmod 0600"},
		{"readable gossip key", func(d string) error { return os.Chmod(filepath.Join(d, FileGossip), 0o640) }, "chmod 0600"},
		{"another host's key", func(d string) error {
			other, err := os.ReadFile(filepath.Join(makeCluster(t, "ut0").Dir, FileHostKey))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, FileHostKey), other, 0o600)
		}, "is not the key of"},
		{"another cluster's authority", func(d string) error {
			other, err := os.ReadFile(filepath.Join(makeCluster(t, "ut0").Dir, FileAuthority))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, FileAuthority), other, 0o644)
		}, "certificate of \"ut0\""},
		{"renamed", func(d string) error {
			p := filepath.Join(d, FileSettings)
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return os.WriteFile(p, []byte(strings.Replace(string(b), `"ut0"`, `"ut1"`, 1)), 0o644)
		}, "do not copy a directory"},
		{"newer release", func(d string) error {
			return os.WriteFile(filepath.Join(d, FileSettings), []byte(`{"version":9}`), 0o644)
		}, "newer release"},
		{"short gossip key", func(d string) error {
			return os.WriteFile(filepath.Join(d, FileGossip), []byte("AAAA\n"), 0o600)
		}, "gossip key has 3 bytes"},
		{"empty key", func(d string) error { return os.Truncate(filepath.Join(d, FileHostKey), 0) }, "holds no PEM key"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			id := makeCluster(t, "ut0")
			if err := tc.spoil(id.Dir); err != nil {
				t.Fatal(err)
			}
			_, err := Load(id.Dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("load: %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestLoadWarnsOfWideDirectory(t *testing.T) {
	id := makeCluster(t, "ut0")
	if err := os.Chmod(id.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := Load(id.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "0755") {
		t.Errorf("warnings %q, want one with 0755", got.Warnings)
	}
}

func TestHostName(t *testing.T) {
	tests := []struct{ in, want string }{
		{"ut0", "ut0"}, {" UT0\n", "ut0"}, {"a", "a"}, {"n-1.site.example", "n-1.site.example"},
		{strings.Repeat("x", 63), strings.Repeat("x", 63)},
		{strings.Repeat("x", 64), ""}, {"", ""}, {"-a", ""}, {"a.", ""}, {"a/b", ""}, {"ä", ""}, {"a_b", ""}, {"@10.0.0.1:7", ""},
	}
	for _, tc := range tests {
		got, err := HostName(tc.in)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("HostName(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
		var ne *NameError
		if err != nil && !errors.As(err, &ne) {
			t.Errorf("HostName(%q): %T, want *NameError", tc.in, err)
		}
	}
}

// A crash between writing aside and renaming must leave the old file.
func TestWriteFileKeepsTheOldOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "d") // a folder that is not empty cannot be renamed over
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(blocked, []byte("new"), 0o600); err == nil {
		t.Error("replaced a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d entries, %v: files were left aside", len(entries), err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("read %q, %v", got, err)
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add([]byte(`{"version":1,"cluster":"grid","host":"ut0","advertise":"10.0.0.1:7946"}`))
	f.Add([]byte(`{"version":1,"cluster":"grid","host":"UT0","site":"-"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ParseSettings(in)
		if err != nil {
			return
		}
		if again, err := s.checked(); err != nil || again != s {
			t.Errorf("%+v is not normal: %+v, %v", s, again, err)
		}
	})
}

func FuzzParseGossipKeys(f *testing.F) {
	f.Add([]byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"))
	f.Add([]byte("# old\n\nAAAA\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		keys, err := ParseGossipKeys(in)
		if err != nil {
			return
		}
		again, err := ParseGossipKeys(FormatGossipKeys(keys))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("round trip: %d keys became %d, %v", len(keys), len(again), err)
		}
		for i := range keys {
			if len(keys[i]) != 32 || string(keys[i]) != string(again[i]) {
				t.Errorf("key %d: %x became %x", i, keys[i], again[i])
			}
		}
	})
}
