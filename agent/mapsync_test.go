package agent

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

func discardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	frames := [][]byte{{}, {1}, bytes.Repeat([]byte{7}, 300), bytes.Repeat([]byte{9}, 1<<20)}
	for _, f := range frames {
		if err := writeFrame(&buf, f); err != nil {
			t.Fatal(err)
		}
	}
	whole := bytes.Clone(buf.Bytes())
	r := bufio.NewReader(&buf)
	for i, want := range frames {
		if got, err := readFrame(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("frame %d: %d bytes, %v, want %d", i, len(got), err, len(want))
		}
	}
	if _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(whole[:len(whole)-1]))); err != nil {
		t.Errorf("first frame of a stream that is cut later: %v", err)
	}
	cut := binary.AppendUvarint(nil, 10)
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(append(cut, 1, 2, 3)))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("3 of 10 bytes: %v", err)
	}
	if _, err := readFrame(bufio.NewReader(bytes.NewReader(binary.AppendUvarint(nil, maxMapBytes+1)))); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that is too long: %v", err)
	}
}

// TestStrangersRows: rows of hosts that are no members are neither taken nor kept.
func TestStrangersRows(t *testing.T) {
	now := time.Now()
	estimate := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps}
	theirs, err := netmap.NewMap(netmap.MapConfig{Self: "b"})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := netmap.NewMap(netmap.MapConfig{Self: "x"})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := netmap.NewMap(netmap.MapConfig{Self: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(theirs.Set("b", "a", estimate, now), stranger.Set("x", "a", estimate, now)); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Merge(stranger.Delta(nil, 0, now), now); err != nil {
		t.Fatal(err)
	}
	members := map[string]bool{"a": true, "b": true}
	s := &mapSync{m: mine, known: func(n string) bool { return members[n] }, log: discardLog()}
	delta, err := netmap.AppendDelta(nil, theirs.Delta(mine.Digest(), 0, now))
	if err != nil {
		t.Fatal(err)
	}
	var wire bytes.Buffer
	if err := writeFrame(&wire, delta); err != nil {
		t.Fatal(err)
	}
	if err := s.merge(bufio.NewReader(&wire), "b"); err != nil {
		t.Fatal(err)
	}
	if d := mine.Digest(); d["b"] == 0 || d["x"] != 0 {
		t.Errorf("after the merge: %v, want b's rows and not x's", d)
	}
	delete(members, "b")
	s.forgetStrangers()
	if d := mine.Delta(nil, 0, now); d.Entries() != 0 {
		t.Errorf("b is no member any more, and still there: %v", d)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 1, 2, 3})
	f.Add(bytes.Repeat([]byte{0xff}, 11))
	f.Add(binary.AppendUvarint(nil, maxMapBytes))
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := readFrame(bufio.NewReader(bytes.NewReader(in)))
		if err != nil {
			return
		}
		if len(b) > len(in) {
			t.Fatalf("%d bytes out of %d", len(b), len(in))
		}
		var again bytes.Buffer
		if err := writeFrame(&again, b); err != nil {
			t.Fatal(err)
		}
		if c, err := readFrame(bufio.NewReader(&again)); err != nil || !bytes.Equal(b, c) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
