package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// A laneStatus is what status and map say of the data lanes to one host.
type laneStatus struct {
	Host string `json:"host"`
	Kind string `json:"kind"`
	Why  string `json:"why"`
	Sent uint64 `json:"tcp_sent_bytes"`
}

// TestLanes: data go over TCP to hosts near by that take it, and over QUIC to one that was told not to.
func TestLanes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents and waits until they have measured each other; not with -short")
	}
	a, token := newCluster(t, "a")
	waitMembers(t, 1, a)
	b := a.join(t, "b", token)
	c := &node{name: "c", dir: t.TempDir(), addr: freeAddr(t)}
	c.Process = start(t, "join", a.addr, "--token", token, "--dir", c.dir, "--name", "c", "--site", "Y", "--bind", c.addr, "--lane", "quic")
	waitMembers(t, 3, a, b, c)
	lanes := func() map[string]laneStatus {
		out, _ := run(t, 0, "status", "--dir", a.dir, "-o", "json")
		var s struct {
			Lanes []laneStatus `json:"lanes"`
		}
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		of := make(map[string]laneStatus)
		for _, l := range s.Lanes {
			of[l.Host] = l
		}
		return of
	}
	e2etest.Eventually(t, time.Minute, func() error {
		if of := lanes(); of["b"].Kind != "tcp" || of["c"].Kind != "quic" {
			return fmt.Errorf("lanes of a: %+v", of)
		}
		return nil
	})
	in := e2etest.Random(t, 31, 1<<20, 2<<20, 3_000_001)
	out := e2etest.Files(t, 3)
	for r, p := range ranks(t, "lanes", []*node{a, b, c}, in, out, "--algorithm", "simple") {
		if got := p.Wait(t, time.Minute); got != 0 {
			t.Fatalf("rank %d: status %d: %s", r, got, p.Stderr.String())
		}
		e2etest.SameBytes(t, out[r], in)
	}
	of := lanes()
	if l := of["b"]; l.Sent < 1<<20 {
		t.Errorf("to b over TCP: %+v, want 1 MiB or more", l)
	}
	if l := of["c"]; l.Sent != 0 || !strings.Contains(l.Why, "takes no TCP") {
		t.Errorf("to c, which runs with --lane quic: %+v", l)
	}
	if text, _ := run(t, 0, "map", "--dir", a.dir); !strings.Contains(text, "quic  to c: the host takes no TCP lanes") {
		t.Errorf("map does not say so:\n%s", text)
	}
	refuse(t, 2, []string{"--lane", "auto", "udp"}, "join", "--dir", a.dir, "--lane", "udp")
}
