package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSetUpFails: a lab that this run has begun to make is taken down where it fails, and another's of the name is left alone.
func TestSetUpFails(t *testing.T) {
	for _, tt := range []struct {
		name, up, down string
		there          bool // before
		want           string
		left           bool
		calls          string
	}{
		{"refused", "exit 1", "", false, "status 1", false, "up "},
		{"half made", `mkdir -p "$GRIDAGENT_LAB_FOLDER/x"; exec sleep 60`, `rmdir "$GRIDAGENT_LAB_FOLDER/x"`, false, "canceled", false, "up down "},
		{"half made, and it stays", `mkdir -p "$GRIDAGENT_LAB_FOLDER/x"; exec sleep 60`, "echo stuck >&2; exit 1", false, "stuck", true, "up down "},
		{"another's", "exec sleep 60", "", true, "canceled", false, "up "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			labs, calls, binary := filepath.Join(dir, "labs"), filepath.Join(dir, "calls"), filepath.Join(dir, "gridagent")
			t.Setenv("GRIDAGENT_LAB_FOLDER", labs)
			if err := os.Mkdir(labs, 0o700); err != nil {
				t.Fatal(err)
			}
			if tt.there {
				if err := os.Mkdir(filepath.Join(labs, "x"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			script := "#!/bin/sh\nprintf '%s ' $2 >>" + calls + "\ncase $2 in up) " + tt.up + ";; down) :; " + tt.down + ";; esac\n"
			if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(500*time.Millisecond, cancel)
			_, err := setUp(ctx, &config{Binary: binary, Lab: "x"}, &network{}, "", dir, "")
			if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, errLeft) != tt.left {
				t.Errorf("%v; want %q, and left: %v", err, tt.want, tt.left)
			}
			if got, err := os.ReadFile(calls); err != nil || string(got) != tt.calls {
				t.Errorf("called %q, %v; want %q", got, err, tt.calls)
			}
		})
	}
}

// An interrupted run says that a lab is left, and else that none is.
func TestInterrupted(t *testing.T) {
	if got := interrupted(context.Canceled).Error(); got != "interrupted; the lab is taken down" {
		t.Error(got)
	}
	left := errors.Join(context.Canceled, errors.Join(errLeft, errors.New("stuck")))
	if got := interrupted(left).Error(); !strings.Contains(got, "interrupted") || !strings.Contains(got, "stuck") || strings.Contains(got, "is taken down") {
		t.Error(got)
	}
}
