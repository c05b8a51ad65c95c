package lane

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzPacket: a datagram reaches the handler of its first byte, without that byte, and no other.
func FuzzPacket(f *testing.F) {
	for _, seed := range []string{"", "\x01", "\x02probe", "\x00", "\x41", "\xff\x01", "\x01\x01\x02"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var got []byte
		calls := 0
		e := &Endpoint{packets: make(map[PacketKind]func([]byte, net.Addr, time.Time))}
		for _, k := range []PacketKind{PacketGossip, PacketProbe} {
			e.HandlePackets(k, func(b []byte, from net.Addr, _ time.Time) {
				calls++
				got = append([]byte{byte(k)}, b...)
			})
		}
		e.packet(p, udpAt(1), time.Time{})
		known := len(p) > 0 && (p[0] == 1 || p[0] == 2)
		if known && (calls != 1 || !bytes.Equal(got, p)) || !known && calls != 0 {
			t.Fatalf("%q: %d calls with %q", p, calls, got)
		}
	})
}

// A slowReader gives what it has byte by byte with empty reads between, which io.Reader allows.
type slowReader struct {
	data     []byte
	empty    bool
	deadline time.Time
}

func (r *slowReader) SetReadDeadline(t time.Time) error { r.deadline = t; return nil }

func (r *slowReader) Read(p []byte) (int, error) {
	if r.empty = !r.empty; r.empty {
		return 0, nil
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1], r.data)
	r.data = r.data[n:]
	return n, nil
}

// FuzzReadKind: the first byte is the kind, no more is taken, and no deadline stays.
func FuzzReadKind(f *testing.F) {
	f.Add([]byte("d123"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &slowReader{data: in}
		k, err := readKind(r)
		if len(in) == 0 {
			if !errors.Is(err, io.EOF) || r.deadline.IsZero() {
				t.Fatalf("nothing: %v, deadline %v", err, r.deadline)
			}
			return
		}
		if err != nil || byte(k) != in[0] || !bytes.Equal(r.data, in[1:]) || !r.deadline.IsZero() {
			t.Fatalf("%q: kind %q, %v, %q left, deadline %v", in, k, err, r.data, r.deadline)
		}
	})
}
