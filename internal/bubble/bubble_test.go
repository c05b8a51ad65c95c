package bubble

import (
	"context"
	"strings"
	"testing"
)

// TestJobs is the far end of TestRun.
func TestJobs(t *testing.T) {
	Serve(t, func(n int) string {
		if n < 0 {
			t.Fatalf("job %d", n)
		}
		return strings.Repeat("x", n)
	})
}

// TestRun: results come in order; a test that fails and jobs that are missing are errors that say why.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a test binary")
	}
	t.Chdir("../..")
	run := func(test string, jobs ...int) (got []string, err error) {
		err = Run(context.Background(), "internal/bubble", test, jobs, func(s string) { got = append(got, s) })
		return got, err
	}
	if got, err := run("TestJobs", 1, 3, 0); err != nil || strings.Join(got, ",") != "x,xxx," {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := run("TestJobs", 2, -1, 1); err == nil || !strings.Contains(err.Error(), "job -1") || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
	if err := Run(context.Background(), "internal/nowhere", "TestJobs", []int{1}, func(string) {}); err == nil || !strings.Contains(err.Error(), "build") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
