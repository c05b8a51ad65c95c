package agent

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/lane"
)

// A member that sends nonsense on any kind of stream is cut off, and that is all.
func TestHostileMember(t *testing.T) {
	t.Parallel()
	first := newCluster(t, "a")
	a := startHost(t, first, nil)
	b := startHost(t, admit(t, first, "b"), nil, a)
	waitMembers(t, a, b)
	huge := binary.AppendUvarint(nil, 1<<60)
	for _, tt := range []struct {
		name string
		kind lane.StreamKind
		to   *testHost
		send []byte
	}{
		{"map: huge frame", lane.StreamMap, a, huge},
		{"map: noise", lane.StreamMap, a, append([]byte{200, 1}, bytes.Repeat([]byte{0xff}, 200)...)},
		{"map: cut short", lane.StreamMap, a, []byte{10, 1}},
		{"sign: no JSON", lane.StreamSign, a, []byte("{")},
		{"sign: empty", lane.StreamSign, a, nil},
		{"sign: wrong types", lane.StreamSign, a, []byte(`{"version":"x","csr":7}`)},
		{"sign: too long", lane.StreamSign, a, []byte(`{"name":"` + strings.Repeat("x", maxSign) + `"}`)},
		{"group: huge header", lane.StreamGroup, a, huge},
		{"group: noise", lane.StreamGroup, a, []byte{3, 'x', 'y', 'z', 0}},
		{"data: noise", lane.StreamData, a, bytes.Repeat([]byte{0xff}, 100)},
		{"probe: noise", lane.StreamProbe, a, bytes.Repeat([]byte{0xff}, 100)},
		{"gossip: noise", lane.StreamGossip, a, bytes.Repeat([]byte{0xff}, 100)},
		{"unknown kind", lane.StreamKind('?'), a, []byte("hello")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := b.endpoint.Open(t.Context(), tt.to.Name(), 0, tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Abort()
			s.SetDeadline(time.Now().Add(15 * time.Second))
			s.Write(tt.send) // the other end may have had enough before the last byte
			s.Close()
			if n, err := io.Copy(io.Discard, s); n > 4096 || isTimeout(err) {
				t.Errorf("%d bytes came back, then %v", n, err)
			}
		})
	}
	// A well-formed join request with no token that is known, straight to the authority.
	s, err := b.endpoint.Open(t.Context(), "a", 0, lane.StreamSign)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abort()
	io.WriteString(s, `{"version":1,"token_id":"00","name":"evil"}`)
	s.Close()
	if answer, err := io.ReadAll(s); err != nil || !bytes.Contains(answer, []byte("token")) || bytes.Contains(answer, []byte("BEGIN")) {
		t.Errorf("answer %q, %v", answer, err)
	}

	blocks := randomBlocks(4, 10, 20)
	for r, g := range gather(t, "after", []*testHost{a, b}, blocks, client.Options{}) {
		if g.err != nil || !bytes.Equal(g.data, bytes.Join(blocks, nil)) {
			t.Errorf("afterwards, rank %d: %v", r, g.err)
		}
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
