package client

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAlltoall(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	opts := AlltoallOptions{
		Options: Options{Algorithm: "aapc", Timeout: 2 * time.Second, Plan: []byte("{}")},
		Sizes:   []int64{2, 0}, Sync: "barrier", SyncBlock: 3, Within: "sender", SyncStrict: true, Fanout: 4,
	}
	res, err := r.Alltoall(t.Context(), []byte("abcde"), opts)
	if err != nil || string(res.Data) != "edcba" || !slices.Equal(res.Sizes, []int64{2, 3}) || !res.Report.GetPlanGiven() {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := res.Close(); err != nil {
		t.Error(err)
	}
	m := f.asked
	o := m.Options
	if m.Algorithm != "aapc" || m.TimeoutSeconds != 2 || string(m.PlanJson) != "{}" || !slices.Equal(m.Sizes, []uint64{2, 0}) ||
		o.Sync != "barrier" || o.SyncBlock != 3 || o.Within != "sender" || !o.SyncStrict || o.Fanout != 4 {
		t.Errorf("asked for %v", m)
	}
	dir := t.TempDir()
	in, out := write(t, filepath.Join(dir, "in"), "abcd"), filepath.Join(dir, "out")
	if _, err := r.AlltoallFile(t.Context(), in, out, AlltoallOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "dcba" {
		t.Errorf("wrote %q, %v", b, err)
	}
	for _, tc := range []struct {
		opts AlltoallOptions
		says string
	}{
		{AlltoallOptions{Sizes: []int64{1, -2}}, "-2 bytes for rank 1"},
		{AlltoallOptions{Fanout: -1}, "fanout -1"},
		{AlltoallOptions{Options: Options{Plan: []byte{}}}, "no bytes"},
		{AlltoallOptions{Options: Options{Plan: make([]byte, maxPlan+1)}}, "16777217 bytes"},
	} {
		if _, err := r.Alltoall(t.Context(), nil, tc.opts); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want %q", err, tc.says)
		}
		if _, err := r.AlltoallFile(t.Context(), in, out+"2", tc.opts); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%v, want %q", err, tc.says)
		}
	}
}
