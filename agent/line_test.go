package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/line"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// A testLine is a line of a client in another language: the frames are made by hand.
type testLine struct {
	t    *testing.T
	raw  net.Conn
	conn *line.Conn
}

func dialLine(t *testing.T, h *testHost) *testLine {
	t.Helper()
	c, err := net.Dial("unix", h.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", line.Path, line.Protocol)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Upgrade") != line.Protocol {
		t.Fatalf("upgrade: %v %v", resp.Status, resp.Header)
	}
	return &testLine{t, c, line.New(c, r, line.MaxResult)}
}

func (l *testLine) send(m *apiv1.LineRequest, payload string) {
	l.t.Helper()
	if err := l.conn.Send(m, []byte(payload)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *testLine) receive() (*apiv1.LineAnswer, string) {
	l.t.Helper()
	m := new(apiv1.LineAnswer)
	b, err := l.conn.Receive(m)
	if err != nil {
		l.t.Fatal(err)
	}
	return m, string(b)
}

// allgatherOf asks for the allgather that is number of rank's operations.
func allgatherOf(id uint64, job string, rank uint32, number uint64) *apiv1.LineRequest {
	return &apiv1.LineRequest{Id: id, Call: &apiv1.LineRequest_Allgather{Allgather: &apiv1.AllgatherRequest{
		Job: job, Rank: rank, Turn: &apiv1.Turn{Number: number, InlineLimit: 1 << 10},
	}}}
}

func TestLine(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	joinAll(t, "job", h, h)
	l := dialLine(t, h)

	// Two ranks of one line, the later operation first; answers have the numbers of their questions.
	l.send(allgatherOf(7, "job", 0, 2), "C")
	l.send(allgatherOf(8, "job", 0, 1), "A")
	l.send(allgatherOf(9, "job", 1, 1), "B")
	l.send(allgatherOf(10, "job", 1, 2), "D")
	want := map[uint64]string{7: "CD", 8: "AB", 9: "AB", 10: "CD"}
	for range 4 {
		m, data := l.receive()
		if m.Error != nil || data != want[m.Id] || len(m.Sizes) != 2 || m.Report.GetRanks() != 2 {
			t.Errorf("answer %d: %q, %v, error %v, want %q", m.Id, data, m.Sizes, m.Error, want[m.Id])
		}
		delete(want, m.Id)
	}

	for _, c := range []struct {
		what string
		req  *apiv1.LineRequest
		code connect.Code
		says string
	}{
		{"a rank that has not joined", allgatherOf(1, "other", 0, 1), connect.CodeFailedPrecondition, `has not joined job "other"`},
		{"nothing", &apiv1.LineRequest{Id: 1}, connect.CodeUnimplemented, "no such operation"},
		{"a time below zero", &apiv1.LineRequest{Id: 1, Call: &apiv1.LineRequest_Barrier{Barrier: &apiv1.BarrierRequest{Job: "job", TimeoutSeconds: -1}}},
			connect.CodeInvalidArgument, "want 0 or more"},
	} {
		l.send(c.req, "")
		m, _ := l.receive()
		if m.Id != 1 || connect.Code(m.Error.GetCode()) != c.code || !strings.Contains(m.Error.GetMessage(), c.says) {
			t.Errorf("%s: %v, want code %v and %q", c.what, m, c.code, c.says)
		}
	}
	// The end of what is over already, or never was, is none of anything else.
	l.send(&apiv1.LineRequest{Id: 7, Call: &apiv1.LineRequest_Cancel{Cancel: &apiv1.LineCancel{}}}, "")
	// Result and input are large: as files they would be asked for by Spool, beside the line.
	l.send(&apiv1.LineRequest{Id: 2, Call: &apiv1.LineRequest_Broadcast{Broadcast: &apiv1.BroadcastRequest{
		Job: "job", Root: 1, Turn: &apiv1.Turn{Number: 3, Taken: 3, InlineLimit: line.MaxInput},
	}}}, "")
	big := strings.Repeat("x", line.MaxInput)
	l.send(&apiv1.LineRequest{Id: 3, Call: &apiv1.LineRequest_Broadcast{Broadcast: &apiv1.BroadcastRequest{
		Job: "job", Rank: 1, Root: 1, Turn: &apiv1.Turn{Number: 3, Taken: 3, InlineLimit: line.MaxInput},
	}}}, big)
	for range 2 {
		if m, data := l.receive(); m.Error != nil || data != big || m.Sizes[0] != 0 || m.Sizes[1] != line.MaxInput {
			t.Errorf("broadcast of %d bytes: %d, sizes %v, error %v", len(big), len(data), m.Sizes, m.Error)
		}
	}
}

// Who gives an operation up ends the group with it, and its words say why. It is answered like all others.
func TestLineGivesUp(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	for _, c := range []struct {
		job  string
		end  func(l *testLine)
		says string
	}{
		{"cancelled", func(l *testLine) {
			l.send(&apiv1.LineRequest{Id: 1, Call: &apiv1.LineRequest_Cancel{Cancel: &apiv1.LineCancel{}}}, "")
		}, errHungUp.Error()},
		{"late", func(l *testLine) {
			l.send(&apiv1.LineRequest{Id: 1, Call: &apiv1.LineRequest_Cancel{Cancel: &apiv1.LineCancel{Deadline: true}}}, "")
		}, errDeadline.Error()},
		{"gone", func(l *testLine) { l.raw.Close() }, errHungUp.Error()},
		{"gone in a frame", func(l *testLine) { l.raw.Write([]byte{0, 0}); l.raw.Close() }, errHungUp.Error()},
		{"two at once", func(l *testLine) { l.send(allgatherOf(1, "two at once", 1, 1), "") }, "two operations 1 at once"},
		{"too much", func(l *testLine) { l.raw.Write(binary.BigEndian.AppendUint64(nil, line.MaxInput+1)) }, "frame of 0 and 1048577 bytes: at most"},
		{"too many", func(l *testLine) {
			for n := range uint64(line.MaxAsked) {
				l.send(allgatherOf(n+2, "too many", 0, n+2), "")
			}
		}, "more than 4096 operations at once"},
	} {
		ranks := joinAll(t, c.job, h, h)
		l := dialLine(t, h)
		l.send(allgatherOf(1, c.job, 0, 1), "")
		c.end(l)
		for i, r := range ranks {
			<-r.Ended()
			var ge *client.GroupError
			if err := r.Err(); !errors.As(err, &ge) || ge.Kind != "cancelled" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: rank %d: %v, want %q", c.job, i, err, c.says)
			}
		}
		if c.job == "cancelled" || c.job == "late" {
			if m, _ := l.receive(); m.Id != 1 || m.Error.GetFailure() == nil || !strings.Contains(m.Error.Message, c.says) {
				t.Errorf("%s: answer %v, want the group's failure", c.job, m)
			}
		}
	}
	for _, says := range []string{"two operations 1 at once", "at most", "unexpected EOF"} {
		if !strings.Contains(h.log.String(), says) {
			t.Errorf("the log does not say %q", says)
		}
	}
}

func TestLineNeedsAnUpgrade(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	for _, c := range []struct {
		h2c    bool
		ask    string
		status int
	}{{false, "", http.StatusUpgradeRequired}, {false, "websocket", http.StatusUpgradeRequired}, {true, "", http.StatusUpgradeRequired}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://agent"+line.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.ask != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", c.ask)
		}
		resp, err := httpClient(t, h, c.h2c).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.status || !strings.Contains(string(b), line.Protocol) {
			t.Errorf("h2c %v, %q: %v %q, want %d", c.h2c, c.ask, resp.Status, b, c.status)
		}
	}
}

// Far more operations than may be under way, started in any order by a client that waits for none, end well.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	ranks := joinAll(t, "job", h, h)
	const n = line.MaxAsked + 100
	ops := make([][]*client.Operation, len(ranks))
	for r, rank := range ranks {
		for i := range n {
			ops[r] = append(ops[r], rank.StartAllgather(t.Context(), []byte{byte(r), byte(i), byte(i >> 8)}, client.Options{}))
		}
		select { // until the agent has heard of all that it is to hear of
		case <-rank.Ended():
			t.Fatalf("rank %d: %v", r, rank.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r := range ops {
		for i, o := range ops[r] {
			res, err := o.Wait(ctx)
			if err != nil {
				t.Fatalf("operation %d of rank %d: %v", i, r, err)
			}
			if want := string([]byte{0, byte(i), byte(i >> 8), 1, byte(i), byte(i >> 8)}); string(res.Data) != want {
				t.Errorf("operation %d of rank %d: %v, want %v", i, r, res.Data, []byte(want))
			}
		}
	}
}

// As many with inputs that are handed over as files: the agent keeps only some of these.
func TestManyLargeAtOnce(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	ranks := joinAll(t, "job", h, h)
	const n = 4 * maxInputs
	block := func(r, i int) []byte { return bytes.Repeat([]byte{byte(r), byte(i)}, 150<<10) }
	ops := make([][]*client.Operation, len(ranks))
	for r, rank := range ranks {
		for i := range n {
			ops[r] = append(ops[r], rank.StartBroadcast(t.Context(), i%2, block(r, i), client.Options{}))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for r := range ops {
		for i, o := range ops[r] {
			res, err := o.Wait(ctx)
			if err != nil {
				t.Fatalf("operation %d of rank %d: %v", i, r, err)
			}
			if !bytes.Equal(res.Data, block(i%2, i)) {
				t.Errorf("operation %d of rank %d: not what its root gave", i, r)
			}
			res.Close()
		}
	}
}
