package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBroadcastOnAgents runs broadcast and barrier at three ranks with real agents between them.
func TestBroadcastOnAgents(t *testing.T) {
	t.Parallel() // the agents take 3 s to leave
	sockets := sockets(t)
	dir := t.TempDir()
	data := bytes.Repeat([]byte("content "), 50_000)
	file := func(rank int) string { return filepath.Join(dir, fmt.Sprint("file", rank)) }
	if err := os.WriteFile(file(1), data, 0o600); err != nil {
		t.Fatal(err)
	}
	own := map[int]string{0: file(0), 1: file(1), 2: file(2)}
	for rank, e := range benchRanks(t, sockets, "broadcast --job b --root 1 -o json", own, nil) {
		var report map[string]any
		if err := json.Unmarshal([]byte(e.out), &report); e.status != exitOK || err != nil || report["ranks"] != 3.0 {
			t.Errorf("rank %d: status %d: %s%s", rank, e.status, e.out, e.errs)
		}
		if got, err := os.ReadFile(file(rank)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("rank %d: %d bytes, %v", rank, len(got), err)
		}
	}
	own[0], own[2] = own[0]+" --force", own[2]+"-explained"
	for rank, e := range benchRanks(t, sockets, "broadcast --job b --root 1 --explain", own, nil) {
		if e.status != exitOK || !strings.Contains(e.out, "broadcast of 3 ranks on 3 hosts in ") || strings.Count(e.out, "\n") != 2 {
			t.Errorf("rank %d: status %d: %s%s", rank, e.status, e.out, e.errs)
		}
	}
	for rank, e := range benchRanks(t, sockets, "barrier --job w", nil, nil) {
		if e.status != exitOK || !strings.HasPrefix(e.out, "barrier of 3 ranks on 3 hosts in ") {
			t.Errorf("rank %d: status %d: %s%s", rank, e.status, e.out, e.errs)
		}
	}
	for _, tt := range []struct {
		status int
		says   string
		args   string
	}{
		{exitFailure, "no such file", "broadcast --job x --rank 1 --root 1 " + file(9)},
		{exitFailure, "give --force", "broadcast --job x --rank 0 --root 1 " + file(1)},
		{exitUsage, "--root 3: want a rank from 0 to 2", "broadcast --job x --rank 0 --root 3 " + file(9)},
		{exitUsage, "shift", "broadcast --job x --rank 0 --algorithm shift " + file(1)},
		{exitUsage, "1 arg", "broadcast --job x --rank 0"},
		{exitUsage, "--in", "barrier --job x --rank 0 --in f"},
	} {
		status, out, errs := gridagent(t, strings.Fields(tt.args+" --ranks 3 --socket "+sockets[0])...)
		if status != tt.status || out != "" || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: status %d, %q, %q; want %d, %q", tt.args, status, out, errs, tt.status, tt.says)
		}
	}
}
