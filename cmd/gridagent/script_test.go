package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gridagent": main})
}

// TestScripts runs the command line as a shell session would: testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			// What the caller's shell holds must not leak into the tests.
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=10") // else the race detector lets each command sleep a second at its end
			for _, name := range []string{"GRIDAGENT_CONFIG", "GRIDAGENT_DIR", "GRIDAGENT_SOCKET"} {
				env.Setenv(name, "")
			}
			return nil
		},
	})
}
