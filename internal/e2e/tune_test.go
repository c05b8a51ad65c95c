package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// tuning measures two algorithms over the live cluster from the command line, and sees in the plan cache
// what was learnt. The map must be complete.
func tuning(t *testing.T, n *node) {
	var report struct {
		Hosts    int
		Complete bool
		Rows     []struct {
			Algorithm string
			Measured  float64 `json:"measured_seconds"`
			Winner    bool
		}
	}
	p := start(t, "tune", "--dir", n.dir, "--collectives", "allgather", "--sizes", "4KiB", "--algorithms", "ring,bruck", "--iterations", "1", "-o", "json")
	if p.Wait(t, 60*time.Second) != 0 {
		t.Fatalf("tune: %s", p.Stderr.String())
	}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &report); err != nil {
		t.Fatalf("%v\n%s", err, p.Stdout.String())
	}
	if !report.Complete || report.Hosts != 3 || len(report.Rows) != 2 || !report.Rows[0].Winner || report.Rows[0].Measured <= 0 {
		t.Errorf("tune: %s", p.Stdout.String())
	}
	out, _ := run(t, 0, "plan", "cache", "--dir", n.dir)
	if !strings.Contains(out, "learnt:") || !strings.Contains(out, "(asked for)") {
		t.Errorf("plan cache: %s", out)
	}
	if status := start(t, "tune", "--dir", n.dir, "--hosts", "nosuch").Wait(t, 20*time.Second); status == 0 {
		t.Error("tuned over a host that does not exist")
	}
}
