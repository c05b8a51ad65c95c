package line

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// sockets returns both ends of a Unix socket, of which the first makes its calls itself.
func sockets(t testing.TB) (quick, plain net.Conn, r *bufio.Reader) {
	t.Helper()
	a, plain := pair(t)
	quick, r = fast(a, bufio.NewReader(a))
	if _, ok := quick.(*socket); !ok {
		t.Fatalf("a Unix socket is a %T", quick)
	}
	return quick, plain, r
}

// More than the socket holds is written while the other end reads, both ways at once, and an end that closes is the end.
func TestSocketCarries(t *testing.T) {
	quick, plain, r := sockets(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	sent := make(chan error, 2)
	go func() {
		n, err := quick.Write(data)
		if err == nil && n != len(data) {
			err = io.ErrShortWrite
		}
		sent <- err
	}()
	go func() {
		_, err := plain.Write(data)
		sent <- errors.Join(err, plain.(*net.UnixConn).CloseWrite())
	}()
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(plain, int64(len(data))))
		got <- b
	}()
	here, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(here, data) || !bytes.Equal(<-got, data) {
		t.Errorf("%d bytes came, %v", len(here), err)
	}
	for range 2 {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	if n, err := quick.Read(nil); n != 0 || err != nil {
		t.Errorf("no bytes were asked for: %d, %v", n, err)
	}
}

// What was read ahead of a connection before it became a line comes first.
func TestSocketReadAhead(t *testing.T) {
	quick, plain, _ := sockets(t)
	a := quick.(*socket).UnixConn
	if _, err := plain.Write([]byte("ahead of the line")); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(a)
	if b, err := r.ReadByte(); err != nil || b != 'a' {
		t.Fatal(b, err)
	}
	_, r = fast(a, r)
	if _, err := plain.Write([]byte(", and then")); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	if b, err := io.ReadAll(r); string(b) != "head of the line, and then" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Deadlines, an end that is closed here and one that is gone there are told as by package net.
func TestSocketErrors(t *testing.T) {
	quick, plain, _ := sockets(t)
	if err := quick.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := quick.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its time: %d, %v", n, err)
	}
	if err := quick.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	var op *net.OpError
	if _, err := quick.Write([]byte("nobody reads")); !errors.Is(err, syscall.EPIPE) || !errors.As(err, &op) || op.Op != "write" {
		t.Errorf("nobody reads: %v", err)
	}
	ended := make(chan error, 1)
	quick, _, _ = sockets(t)
	go func() {
		_, err := quick.Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	quick.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while it was read: %v", err)
	}
}

// What is no Unix socket stays what it is.
func TestOtherConns(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	r := bufio.NewReader(a)
	if c, same := fast(a, r); c != a || same != r {
		t.Errorf("a pipe is a %T", c)
	}
}

// BenchmarkSocket is a byte there and back, where the process does nothing else; what the monitor thread costs besides shows in the process's CPU time.
func BenchmarkSocket(b *testing.B) {
	for _, kind := range []string{"net", "line"} {
		b.Run(kind, func(b *testing.B) {
			near, far, _ := sockets(b)
			if kind == "net" {
				near = near.(*socket).UnixConn
			} else {
				far, _ = fast(far, bufio.NewReader(far))
			}
			go func() {
				p := make([]byte, 1)
				for {
					if _, err := far.Read(p); err != nil {
						return
					}
					if _, err := far.Write(p); err != nil {
						return
					}
				}
			}()
			p := make([]byte, 1)
			before := cpuTime(b)
			for b.Loop() {
				if _, err := near.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := near.Read(p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
