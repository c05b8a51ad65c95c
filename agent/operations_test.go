package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/agent/group"
)

// eachRank joins a rank at each host and runs do at all of them at once.
func eachRank(t *testing.T, job string, at []*testHost, do func(ctx context.Context, r *client.Rank, rank int) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for rank, h := range at {
		wg.Go(func() {
			c := client.New(h.socket)
			defer c.Close()
			r, err := c.Join(ctx, job, rank, len(at))
			if err == nil {
				err = errors.Join(do(ctx, r, rank), r.Close())
			}
			if err != nil {
				t.Errorf("%s: rank %d: %v", job, rank, err)
			}
		})
	}
	wg.Wait()
}

// TestOperations runs what a client can ask for over real agents: several operations of each
// rank under way at once, of all kinds, small and large; files; and the end of one by Cancel.
func TestOperations(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	at := []*testHost{a, b, b}
	large := bytes.Repeat([]byte("0123456789abcdef"), 8<<10) // over what travels inside a call
	t.Run("under way together", func(t *testing.T) {
		eachRank(t, "together", at, func(ctx context.Context, r *client.Rank, rank int) error {
			type started struct {
				o    *client.Operation
				want string
			}
			var all []started
			for i := range 24 { // more than are under way at once
				data := fmt.Appendf(nil, "%d from %d.", i, rank)
				root := i % len(at)
				switch i % 6 {
				case 0:
					all = append(all, started{r.StartAllgather(ctx, data, client.Options{}), fmt.Sprintf("%d from 0.%d from 1.%d from 2.", i, i, i)})
				case 1:
					all = append(all, started{r.StartBroadcast(ctx, root, data, client.Options{}), fmt.Sprintf("%d from %d.", i, root)})
				case 2:
					all = append(all, started{r.StartBarrier(ctx, client.Options{}), ""})
				case 3:
					all = append(all, started{r.StartBroadcast(ctx, root, large, client.Options{}), string(large)})
				case 4:
					one := string(rune('0' + rank))
					all = append(all, started{r.StartAlltoall(ctx, []byte(one+one+one), client.AlltoallOptions{}), "012"})
				case 5:
					all = append(all, started{r.StartAllgather(ctx, large[:rank*len(large)/2], client.Options{}), string(large[:len(large)/2]) + string(large)})
				}
			}
			for i, s := range all {
				res, err := s.o.Wait(ctx)
				if err != nil {
					return fmt.Errorf("operation %d: %w", i, err)
				}
				if string(res.Data) != s.want {
					return fmt.Errorf("operation %d: %d bytes, want %d", i, len(res.Data), len(s.want))
				}
				if err := res.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		in := filepath.Join(dir, "in")
		if err := os.WriteFile(in, large, 0o600); err != nil {
			t.Fatal(err)
		}
		eachRank(t, "files", at, func(ctx context.Context, r *client.Rank, rank int) error {
			file := filepath.Join(dir, fmt.Sprint("out", rank))
			if rank == 1 {
				file = in
			}
			rep, err := r.BroadcastFile(ctx, 1, file, client.Options{})
			if err != nil {
				return err
			}
			got, err := os.ReadFile(file)
			if err == nil && (!bytes.Equal(got, large) || rep.GetRanks() != 3 || rep.GetHosts() != 2) {
				err = fmt.Errorf("%d bytes, report %v", len(got), rep)
			}
			return err
		})
	})
	t.Run("cancel", func(t *testing.T) {
		ranks := joinAll(t, "cancel", at...)
		var ops []*client.Operation
		for _, r := range ranks[:2] {
			ops = append(ops, r.StartBarrier(t.Context(), client.Options{}), r.StartAllgather(t.Context(), large, client.Options{}))
		}
		ops[0].Cancel()
		var errs []error
		for _, o := range ops {
			_, err := o.Wait(t.Context())
			errs = append(errs, err)
		}
		_, err := ranks[2].Barrier(t.Context(), client.Options{})
		sameFailure(t, append(errs, err), "cancelled", 0, "a", "its client cancelled an operation")
	})
	t.Run("turns", func(t *testing.T) {
		c := a.client(t)
		if _, err := c.Join(t.Context(), "turns", 0, 1); err != nil {
			t.Fatal(err)
		}
		ask := func(turn *apiv1.Turn, root uint32, data []byte) (*apiv1.BroadcastResponse, error) {
			r, err := c.API().Broadcast(t.Context(), connect.NewRequest(&apiv1.BroadcastRequest{
				Job: "turns", Turn: turn, Root: root, Input: &apiv1.BroadcastRequest_Data{Data: data},
			}))
			if err != nil {
				return nil, err
			}
			return r.Msg, nil
		}
		// The second arrives first, and a third is refused in its turn.
		second := make(chan error, 1)
		go func() {
			r, err := ask(&apiv1.Turn{Number: 2}, 0, []byte("two"))
			if err == nil {
				_, err = os.Stat(r.Spool)
			}
			second <- err
		}()
		one, err := ask(&apiv1.Turn{Number: 1, InlineLimit: 3}, 0, []byte("one"))
		if err != nil || string(one.Data) != "one" || one.Spool != "" {
			t.Fatalf("inline: %v, %v", one, err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		_, err = ask(&apiv1.Turn{Number: 2}, 0, nil)
		wantCode(t, err, connect.CodeInvalidArgument)
		_, err = ask(&apiv1.Turn{Number: 3}, 0, make([]byte, maxInlineInput+1))
		wantCode(t, err, connect.CodeInvalidArgument)
		kept, err := ask(&apiv1.Turn{Number: 4, Taken: 4, InlineLimit: 1}, 0, []byte("four"))
		if err != nil || len(kept.Data) != 0 {
			t.Fatalf("%v, %v", kept, err)
		}
		if _, err := os.Stat(kept.Spool); err != nil {
			t.Error(err)
		}
		if _, err := ask(&apiv1.Turn{Number: 5, Taken: 5}, 0, nil); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(kept.Spool); err == nil {
			t.Error("a result that was taken is still there")
		}
		// The fifth may be long in coming: what is behind it goes all the same, once it has been taken.
		behind, err := ask(&apiv1.Turn{Number: 6, Taken: 5}, 0, []byte("six"))
		if err != nil {
			t.Fatal(err)
		}
		after, err := ask(&apiv1.Turn{Number: 7, Taken: 5, AlsoTaken: []uint64{6, 99}}, 0, []byte("seven"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(behind.Spool); err == nil {
			t.Error("a result that was taken, behind one that was not, is still there")
		}
		if _, err := os.Stat(after.Spool); err != nil {
			t.Error(err)
		}
	})
	t.Run("inline results are not kept", func(t *testing.T) {
		s := &service{a: a.Agent, ctx: t.Context(), ranks: make(map[rankKey]*session)}
		ss, err := s.join(t.Context(), "inline", 0, 1, group.JoinOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.end("inline", 0, ss)
		for n := range uint64(3) {
			_, err := s.operate(t.Context(), broadcastCall(&apiv1.BroadcastRequest{
				Job: "inline", Input: &apiv1.BroadcastRequest_Data{Data: make([]byte, n+1)}, Turn: &apiv1.Turn{Number: n + 1, InlineLimit: 2},
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(ss.turns.results) != 1 || ss.turns.results[3] == nil {
			t.Errorf("results %v are kept, want that of 3 bytes", ss.turns.results)
		}
	})
}
