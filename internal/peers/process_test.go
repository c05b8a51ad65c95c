package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func testMark(t *testing.T) mark {
	m := mark(fmt.Sprintf("test-%d-%s", os.Getpid(), t.Name()))
	t.Cleanup(m.sweep)
	return m
}

// TestRunLeavesNothing: what leaves the session and closes its pipes ends with the command all the same.
func TestRunLeavesNothing(t *testing.T) {
	m := testMark(t)
	out, err := command{mark: m, argv: []string{"sh", "-c", "setsid sleep 60 >/dev/null 2>&1 </dev/null & echo said"}}.run(context.Background())
	if err != nil || out != "said\n" {
		t.Errorf("%q, %v", out, err)
	}
	if left := m.processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestRunTimeLimit(t *testing.T) {
	m := testMark(t)
	begun := time.Now()
	_, err := command{mark: m, limit: 200 * time.Millisecond, argv: []string{"sh", "-c", "setsid sleep 60 & sleep 60"}}.run(context.Background())
	if !errors.Is(err, errTimeLimit) || time.Since(begun) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	if left := m.processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := (command{mark: testMark(t), argv: []string{"sleep", "60"}}).run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRunErrors(t *testing.T) {
	if _, err := (command{argv: []string{"sh", "-c", "echo why >&2; exit 3"}}).run(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "status 3") || !strings.Contains(err.Error(), "why") {
		t.Error(err)
	}
	// Who listens to lines waits for a last word.
	told := 0
	line := func(string) bool { told++; return false }
	if _, err := (command{argv: []string{"echo", "word"}, line: line}).run(context.Background()); err == nil || told != 1 {
		t.Errorf("%v, %d lines", err, told)
	}
	if _, err := (command{argv: []string{"echo", "word"}, line: func(s string) bool { return s == "word" }}).run(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestMarkIn(t *testing.T) {
	m := mark("peers-1")
	for environ, want := range map[string]bool{
		"A=1\x00GRIDAGENT_PEERS=peers-1\x00":   true,
		"GRIDAGENT_PEERS=peers-1.agents.2\x00": true,
		"GRIDAGENT_PEERS=peers-10\x00":         false,
		"XGRIDAGENT_PEERS=peers-1\x00":         false,
		"A=GRIDAGENT_PEERS=peers-1\x00":        false,
		"GRIDAGENT_PEERS=\x00":                 false,
		"":                                     false,
	} {
		if m.in(environ) != want {
			t.Errorf("%q: %v", environ, !want)
		}
	}
	if mark("").processes() != nil {
		t.Error("processes without a mark are found")
	}
}

func TestTail(t *testing.T) {
	var w tail
	for range 1000 {
		fmt.Fprint(&w, "0123456789")
	}
	fmt.Fprint(&w, "end\n")
	if s := w.String(); len(s) > tailBytes+10 || !strings.HasSuffix(s, "789end") {
		t.Errorf("%d bytes, end %q", len(s), s[len(s)-10:])
	}
}
