package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// TestStart: operations are numbered as they are started, whichever is answered first, and say
// which results are no longer needed.
func TestStart(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	const n = 6
	gates := make(map[string]chan struct{})
	for i := range n {
		gates[fmt.Sprint("block", i)] = make(chan struct{})
	}
	f.allgather = func(ctx context.Context, in []byte) (*apiv1.AllgatherResponse, error) {
		select {
		case <-gates[string(in)]:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &apiv1.AllgatherResponse{Data: in, Sizes: []uint64{uint64(len(in))}}, nil
	}
	var ops []*Operation
	for i := range n {
		ops = append(ops, r.StartAllgather(t.Context(), fmt.Append(nil, "block", i), Options{}))
	}
	impatient, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if res, err := ops[0].Wait(impatient); res != nil || !errors.Is(err, context.DeadlineExceeded) || ops[0].Test() {
		t.Errorf("an operation under way: %v, %v", res, err)
	}
	for i := n - 1; i >= 0; i-- {
		if ops[i].Test() {
			t.Errorf("operation %d is over", i)
		}
		close(gates[fmt.Sprint("block", i)])
		res, err := ops[i].Wait(t.Context())
		if err != nil || string(res.Data) != fmt.Sprint("block", i) || !ops[i].Test() {
			t.Fatalf("operation %d: %v, %v", i, res, err)
		}
		if again, err := ops[i].Wait(impatient); again != res || err != nil {
			t.Errorf("a second Wait: %v, %v", again, err)
		}
		ops[i].Cancel() // too late
	}
	res, err := r.Broadcast(t.Context(), 0, []byte("x"), Options{})
	if err != nil || string(res.Data) != "x" || !slices.Equal(res.Sizes, []int64{1}) {
		t.Errorf("broadcast: %v, %v", res, err)
	}
	gates["last"] = make(chan struct{})
	close(gates["last"])
	if _, err := r.Allgather(t.Context(), []byte("last"), Options{}); err != nil {
		t.Error(err)
	}
	slices.SortFunc(f.turns, func(a, b *apiv1.Turn) int { return int(a.Number) - int(b.Number) })
	for i, turn := range f.turns[:n] {
		if turn.Number != uint64(i+1) || turn.Taken > turn.Number || turn.InlineLimit == 0 {
			t.Errorf("operation %d: %v", i, turn)
		}
	}
	if last := f.turns[n]; last.Number != n+2 || last.Taken != n+2 {
		t.Errorf("the last operation: %v", last)
	}
}

func TestCancel(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	f.gate = make(chan struct{})
	ops := []*Operation{r.StartBarrier(t.Context(), Options{}), r.StartBarrier(t.Context(), Options{})}
	ops[0].Cancel()
	_, err := ops[0].Wait(t.Context())
	var ge *GroupError
	if !errors.As(err, &ge) || ge.Kind != "cancelled" {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := r.Barrier(t.Context(), Options{}); !errors.As(err, &ge) || ge.Kind != "cancelled" {
		t.Errorf("after the end: %v", err)
	}
	r.Close()
	if _, err := ops[1].Wait(t.Context()); err == nil {
		t.Error("an operation of a group that is over")
	}
}

// TestCloseEndsOperations: goleak sees to the rest.
func TestCloseEndsOperations(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	f.gate = make(chan struct{})
	o := r.StartBarrier(t.Context(), Options{})
	r.Close()
	if !o.Test() {
		t.Error("an operation is under way after Close")
	}
	if _, err := o.Wait(t.Context()); err == nil {
		t.Error("a barrier of a rank that has gone")
	}
	if _, err := r.Barrier(t.Context(), Options{}); err == nil {
		t.Error("a barrier after Close")
	}
}

// What has been taken behind an operation that still runs is told as well, once, so that the agent need not keep it.
func TestTakenBehind(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	f.gate = make(chan struct{})
	long := r.StartBarrier(t.Context(), Options{})
	for range 3 {
		if _, err := r.Allgather(t.Context(), []byte("x"), Options{}); err != nil {
			t.Fatal(err)
		}
	}
	close(f.gate)
	if _, err := long.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Allgather(t.Context(), []byte("x"), Options{}); err != nil {
		t.Fatal(err)
	}
	want := []*apiv1.Turn{
		{Number: 2, Taken: 1}, {Number: 3, Taken: 1, AlsoTaken: []uint64{2}}, {Number: 4, Taken: 1, AlsoTaken: []uint64{3}}, {Number: 5, Taken: 5},
	}
	for i, got := range f.turns {
		if got.Number != want[i].Number || got.Taken != want[i].Taken || !slices.Equal(got.AlsoTaken, want[i].AlsoTaken) {
			t.Errorf("turn %v, want %v", got, want[i])
		}
	}
}

// The number of an operation that never began goes to another goroutine's at once, and stays that one's.
func TestNumberGoesOn(t *testing.T) {
	r := &Rank{numbers: newNumbers()}
	r.numbers.next, r.numbers.open[1] = 2, true
	r.missed(1, errors.New("disk full"))
	if r.numbers.next != 1 || len(r.numbers.open) != 0 {
		t.Fatalf("next %d, open %v", r.numbers.next, r.numbers.open)
	}
	r.numbers.next, r.numbers.open[1] = 2, true // somebody starts
	if turn := r.turn(1); turn.Taken != 1 {
		t.Errorf("%v, and the first is open", turn)
	}
}

// TestNumberOfAnOperationThatNeverBegan goes to the next one.
func TestNumberOfAnOperationThatNeverBegan(t *testing.T) {
	f, c, _ := newFake(t)
	r := join(t, c)
	f.spool = func() error { return errors.New("disk full") }
	large := make([]byte, maxInlineInput+1)
	if _, err := r.Allgather(t.Context(), large, Options{}); err == nil {
		t.Fatal("no room, and no error")
	}
	if _, err := r.Allgather(t.Context(), nil, Options{Plan: []byte{}}); err == nil {
		t.Fatal("an empty plan, and no error")
	}
	f.spool = nil
	if _, err := r.Allgather(t.Context(), []byte("x"), Options{}); err != nil {
		t.Fatal(err)
	}
	if len(f.turns) != 1 || f.turns[0].Number != 1 {
		t.Errorf("turns %v", f.turns)
	}
}

func TestBroadcast(t *testing.T) {
	_, c, _ := newFake(t)
	r, err := c.Join(t.Context(), "job", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	res, err := r.Broadcast(t.Context(), 0, []byte("not looked at"), Options{})
	if err != nil || string(res.Data) != "from the root" || !slices.Equal(res.Sizes, []int64{13, 0}) {
		t.Errorf("%v, %v", res, err)
	}
	for _, root := range []int{-1, 2} {
		if _, err := r.Broadcast(t.Context(), root, nil, Options{}); err == nil {
			t.Errorf("root %d of 2 ranks", root)
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	if _, err := r.BroadcastFile(t.Context(), 0, out, Options{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "from the root" {
		t.Errorf("wrote %q, %v", b, err)
	}
	if _, err := r.BroadcastFile(t.Context(), 0, out, Options{}); err == nil {
		t.Error("an output that exists was replaced")
	}
	rep, err := r.BroadcastFile(t.Context(), 1, out, Options{})
	if err != nil || rep.GetAlgorithm() != "fake" {
		t.Errorf("at the root: %v, %v", rep, err)
	}
	if _, err := r.BroadcastFile(t.Context(), 1, filepath.Join(dir, "none"), Options{}); err == nil {
		t.Error("an input that does not exist")
	}
}
