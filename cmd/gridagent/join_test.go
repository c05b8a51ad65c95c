package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/agent/identity"
)

// TestUnanswered checks which failures of a join get the hint about ports and firewalls.
func TestUnanswered(t *testing.T) {
	silent := fmt.Errorf("join by way of 192.0.2.1:7946: %w", &quic.IdleTimeoutError{})
	refused := fmt.Errorf("join by way of 192.0.2.2:7946: %w", &identity.Refusal{})
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{silent, true},
		{errors.Join(silent, fmt.Errorf("b: %w", &quic.HandshakeTimeoutError{})), true},
		{errors.Join(silent, refused), false}, // one of them spoke: its word is what counts
		{identity.ErrMalformedToken, false},
		{nil, false},
	} {
		if got := unanswered(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

// TestWarnOfTokens checks that an agent says at its start what no joining host could be told.
func TestWarnOfTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	id, err := identity.Init(dir, identity.Options{Host: "a"}, time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, identity.FileTokens)
	for _, tt := range []struct {
		name, content string
		mode          os.FileMode
		want          string
	}{
		{"none yet", "", 0, ""},
		{"good", `{"version":1,"tokens":[]}`, 0o600, ""},
		{"cut", `{"version":1,"tok`, 0o600, "tokens.json"},
		{"of a newer release", `{"version":2}`, 0o600, "version 2"},
		{"readable by others", `{"version":1}`, 0o644, "chmod 0600"},
	} {
		if tt.mode != 0 {
			if err := errors.Join(os.WriteFile(file, []byte(tt.content), 0o600), os.Chmod(file, tt.mode)); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		warnOfTokens(slog.New(slog.NewTextHandler(&log, nil)), id)
		if (log.Len() > 0) != (tt.want != "") || !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: logged %q, want %q", tt.name, log.String(), tt.want)
		}
	}
	id.Authority = nil
	var log bytes.Buffer
	if warnOfTokens(slog.New(slog.NewTextHandler(&log, nil)), id); log.Len() > 0 {
		t.Errorf("a host without the authority keeps no tokens, but logged %q", log.String())
	}
}

// TestOverride checks what a later join takes from its flags and what from the folder.
func TestOverride(t *testing.T) {
	remembered := identity.Settings{Site: "x", Bind: "192.0.2.1:7001", Advertise: "192.0.2.1:7001"}
	forwarded := identity.Settings{Bind: "10.0.0.1:7001", Advertise: "192.0.2.1:30001"}
	forwardedTo := identity.Settings{Bind: "10.0.0.1:7002", Advertise: "192.0.2.1:30001"}
	tests := []struct {
		name string
		args []string
		from identity.Settings
		want identity.Settings
	}{
		{"nothing given", nil, remembered, remembered},
		{"a bind", []string{"--bind", "192.0.2.1:7002"}, remembered, identity.Settings{Site: "x", Bind: "192.0.2.1:7002", Advertise: "192.0.2.1:7002"}},
		{"another address", []string{"--bind", "192.0.2.3:7001"}, remembered, identity.Settings{Site: "x", Bind: "192.0.2.3:7001", Advertise: "192.0.2.3:7001"}},
		{"the default, said aloud", []string{"--bind", "0.0.0.0:7946"}, remembered, identity.Settings{Site: "x", Bind: "0.0.0.0:7946", Advertise: "192.0.2.1:7946"}},
		{"a port of the kernel's choice", []string{"--bind", "192.0.2.1:0"}, remembered, identity.Settings{Site: "x", Bind: "192.0.2.1:0", Advertise: "192.0.2.1:0"}},
		{"a forwarded port", []string{"--bind", "10.0.0.1:7002"}, forwarded, forwardedTo},
		{"an empty site", []string{"--site", "", "--advertise", "192.0.2.2:1"}, remembered, identity.Settings{Bind: "192.0.2.1:7001", Advertise: "192.0.2.2:1"}},
		{"a folder without a bind", nil, identity.Settings{}, identity.Settings{Bind: "0.0.0.0:7946"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := parent("join", "", "")
			host := addHostFlags(cmd)
			if err := cmd.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			got := tt.from
			host.override(cmd.Flags(), &got)
			if got != tt.want {
				t.Errorf("settings %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestJoinReadsSwitchesFirst: a switch-tree file with which the agent would not start costs no token.
func TestJoinReadsSwitchesFirst(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const tree = `{"switches":["s0"],"hosts":{"b":"s0"}`
	for path, want := range map[string]string{
		filepath.Join(dir, "nosuch.json"): "nosuch.json: no such file",
		file("bad.json", "{"):             "bad.json:1: ",
		file("others.json", tree+"}"):     "lacks this host, a; it holds b",
		file("large.json", strings.Replace(tree, `"b"`, `"a"`, 1)+strings.Repeat(" ", 256<<10)+"}"): "at most 262144 fit",
		file("good.json", `{"switches":["s0"],"hosts":{"a":"s0"}}`):                                 "token",
	} {
		for _, name := range []string{"a", "A"} { // the cluster has one name for both
			status, _, errs := gridagent(t, "join", "127.0.0.1:1", "--token", "not one", "--dir", filepath.Join(dir, "a"), "--name", name, "--bind", "127.0.0.1:0", "--switches", path)
			if status != exitFailure || !strings.Contains(errs, want) {
				t.Errorf("%s, --name %s: status %d, %q, want %q", filepath.Base(path), name, status, errs, want)
			}
		}
	}
}
