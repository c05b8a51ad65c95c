package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// An operation whose time is over ends, also where the agent does not answer to its request for a line.
func TestLineThatIsNotMade(t *testing.T) {
	f, c, _ := newFake(t)
	f.hangs = true
	r := join(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := r.Allgather(ctx, []byte("x"), Options{})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

// A slowAgent makes lines of connections as slowly, or as badly, as a test wants.
type slowAgent struct {
	make func(dial int) (after time.Duration, err error) // by the number of the connection, from 0
	n    int
}

// rank is a rank of a client of a.
func (a *slowAgent) rank() *Rank {
	return &Rank{c: NewDialer(a.dial), cancel: func() {}, ended: closed(), numbers: newNumbers()}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (a *slowAgent) dial(context.Context) (net.Conn, error) {
	after, err := a.make(a.n)
	if a.n++; err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if _, err := http.ReadRequest(bufio.NewReader(far)); err != nil {
			return
		}
		time.Sleep(after)
		if _, err := io.WriteString(far, "HTTP/1.1 101 Switching Protocols\r\n\r\n"); err == nil {
			_, _ = io.Copy(io.Discard, far)
		}
	}()
	return near, nil
}

// TestLineIsNobodysOwn: each operation waits for the rank's line as long as it has time, whichever of them it is opened for.
func TestLineIsNobodysOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowAgent{make: func(int) (time.Duration, error) { return time.Second, nil }}
		r := a.rank()
		begun := time.Now()
		type got struct {
			l     *caller
			after time.Duration
		}
		wait := func(limit time.Duration) <-chan got {
			c := make(chan got, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				l := r.line(ctx)
				c <- got{l, time.Since(begun)}
			}()
			synctest.Wait()
			return c
		}
		first, second, third := wait(300*time.Millisecond), wait(time.Minute), wait(100*time.Millisecond)
		if g := <-third; g.l != nil || g.after != 100*time.Millisecond {
			t.Errorf("with the least time: %v after %v", g.l, g.after)
		}
		if g := <-first; g.l != nil || g.after != 300*time.Millisecond {
			t.Errorf("the first: %v after %v", g.l, g.after)
		}
		if g := <-second; g.l == nil || g.after != time.Second {
			t.Errorf("with time enough: %v after %v", g.l, g.after)
		}
		if g := <-wait(time.Minute); g.l == nil || g.after != time.Second || a.n != 1 {
			t.Errorf("a later one: %v after %v, %d connections", g.l, g.after, a.n)
		}
		r.Close()
	})
}

// TestLineIsOpenedAgain where that has failed. Nobody waits for it then: there is Connect.
func TestLineIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowAgent{make: func(n int) (time.Duration, error) {
			switch n {
			case 0:
				return 0, errors.New("no file descriptor is free")
			case 1:
				return time.Hour, nil
			}
			return time.Second, nil
		}}
		r := a.rank()
		defer r.Close()
		line := func(want bool, after time.Duration) {
			t.Helper()
			begun := time.Now()
			if l := r.line(t.Context()); (l != nil) != want || time.Since(begun) != after {
				t.Errorf("after %d connections: a line %t, in %v; want %t, in %v", a.n, l != nil, time.Since(begun), want, after)
			}
			synctest.Wait()
		}
		line(false, 0) // it fails at once
		line(false, 0) // the next is begun
		line(false, 0)
		if a.n != 2 {
			t.Errorf("%d connections, want one at a time", a.n)
		}
		time.Sleep(lineLimit + time.Millisecond)
		line(false, 0) // and the next
		time.Sleep(time.Second + time.Millisecond)
		line(true, 0)
		if a.n != 3 {
			t.Errorf("%d connections", a.n)
		}
		time.Sleep(time.Hour) // the agent's side of the second has ended
	})
}

// TestLineOfAClosedRank: Close ends what is being opened, and nothing is opened after it.
func TestLineOfAClosedRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowAgent{make: func(int) (time.Duration, error) { return 3 * time.Second, nil }}
		r := a.rank()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if l := r.line(ctx); l != nil {
			t.Error("a line that is not open")
		}
		synctest.Wait()
		begun := time.Now()
		r.Close()
		if took := time.Since(begun); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if l := r.line(t.Context()); l != nil || a.n != 1 {
			t.Errorf("%v, %d connections", l, a.n)
		}
		time.Sleep(3 * time.Second) // the agent's side ends
	})
}
