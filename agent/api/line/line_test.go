package line

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// pair returns both ends of a Unix socket.
func pair(t testing.TB) (near, far net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "line") // short, as the names of sockets have to be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// ends returns both ends of a connection over a Unix socket.
func ends(t *testing.T, limit int) (near, far *Conn) {
	t.Helper()
	a, b := pair(t)
	return New(a, bufio.NewReader(a), limit), New(b, bufio.NewReader(b), limit)
}

// Payloads of all sizes arrive as they were, whoever sends at the same time, in frames that are not mixed.
func TestFrames(t *testing.T) {
	near, far := ends(t, MaxResult)
	seed := rand.Uint64()
	t.Log("seed", seed)
	sizes := []int{0, 1, small, small + 1, atOnce, atOnce + 1, MaxInput, 4*atOnce + 3}
	payload := func(id uint64, size int) []byte {
		r := rand.New(rand.NewPCG(seed, id))
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	var senders sync.WaitGroup
	for id := range uint64(64) {
		senders.Go(func() {
			size := sizes[id%uint64(len(sizes))]
			if err := near.Send(&apiv1.LineAnswer{Id: id, Sizes: []uint64{uint64(size)}, Spool: strings.Repeat("x", int(id))}, payload(id, size)); err != nil {
				t.Error(err)
			}
		})
	}
	seen := make(map[uint64]bool)
	for range 64 {
		var m apiv1.LineAnswer
		got, err := far.Receive(&m)
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.Id] || len(m.Spool) != int(m.Id) || !bytes.Equal(got, payload(m.Id, int(m.Sizes[0]))) {
			t.Errorf("frame %d with %d bytes is another one, or comes twice", m.Id, len(got))
		}
		seen[m.Id] = true
	}
	senders.Wait()
	near.Close()
	if _, err := far.Receive(new(apiv1.LineAnswer)); err != io.EOF {
		t.Errorf("after the end: %v, want EOF", err)
	}
}

func TestBadFrames(t *testing.T) {
	near, _ := ends(t, MaxResult)
	if err := near.Send(new(apiv1.LineAnswer), make([]byte, MaxResult+1)); err == nil {
		t.Error("a payload over the limit was sent")
	}
	frame := func(n, size uint32, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, n)
		return append(binary.BigEndian.AppendUint32(b, size), rest...)
	}
	for _, c := range []struct {
		what  string
		bytes []byte
		says  string
	}{
		{"message over the limit", frame(maxMessage+1, 0), "at most"},
		{"payload over the limit", frame(0, 101), "at most"},
		{"no message", frame(3, 0, 0xff, 0xff, 0xff), "message of a frame"},
		{"a head cut off", frame(3, 0)[:5], io.ErrUnexpectedEOF.Error()},
		{"a message cut off", frame(3, 0, 1), io.ErrUnexpectedEOF.Error()},
		{"a message that is not there", frame(maxMessage, 0), io.ErrUnexpectedEOF.Error()},
		{"a payload cut off", frame(0, 3, 1, 2), io.ErrUnexpectedEOF.Error()},
	} {
		_, err := New(nil, bufio.NewReader(bytes.NewReader(c.bytes)), 100).Receive(new(apiv1.LineRequest))
		if err == nil || err == io.EOF || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
}

// FuzzReceive reads what a client may send. What is read can be sent, and is then the same.
func FuzzReceive(f *testing.F) {
	near, far := net.Pipe()
	for _, m := range []*apiv1.LineRequest{
		{Id: 1, Call: &apiv1.LineRequest_Allgather{Allgather: &apiv1.AllgatherRequest{Job: "j", Turn: &apiv1.Turn{Number: 1}}}},
		{Id: 1, Call: &apiv1.LineRequest_Cancel{Cancel: &apiv1.LineCancel{Deadline: true}}},
	} {
		go New(near, nil, 0).Send(m, []byte("data"))
		b := make([]byte, 1<<10)
		n, err := far.Read(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:n])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := New(nil, bufio.NewReader(bytes.NewReader(b)), 1<<10)
		for {
			var m, again apiv1.LineRequest
			payload, err := c.Receive(&m)
			if err != nil {
				return
			}
			var w written
			if err := New(&w, nil, 0).Send(&m, payload); err != nil {
				t.Fatal(err)
			}
			same, err := New(nil, bufio.NewReader(&w.Buffer), 1<<10).Receive(&again)
			if err != nil || !bytes.Equal(same, payload) || !proto.Equal(&m, &again) {
				t.Fatalf("%v with %q came back as %v with %q: %v", &m, payload, &again, same, err)
			}
		}
	})
}

// written is a connection that keeps what is written.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Write(b []byte) (int, error) { return w.Buffer.Write(b) }
func (w *written) Read([]byte) (int, error)    { return 0, errors.ErrUnsupported }
