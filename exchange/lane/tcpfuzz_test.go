package lane

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// FuzzTCPUnits reads bytes as what follows a TCP lane's handshake, and compares with the plain way to
// take them apart.
func FuzzTCPUnits(f *testing.F) {
	unit := func(b ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	f.Add(append(unit(1, 2, 3), 0, 0, 0, 0), 2)
	f.Add(append(append(unit('d'), unit(9, 9)...), 0xff, 0xff, 0xff, 0xff), 1)
	f.Add([]byte{0x80, 0, 0, 0, 1}, 5)
	f.Add([]byte{0, 0, 0, 9, 1, 2}, 100)
	f.Add([]byte{0, 0}, 3)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		if step < 1 || step > 1<<16 {
			return
		}
		want, wantErr := plainUnits(in)
		c := &tcpConn{rw: struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(in), io.Discard}}
		var got []byte
		var err error
		for buf := make([]byte, step); err == nil; {
			var n int
			n, err = c.read(buf)
			got = append(got, buf[:n]...)
		}
		if !bytes.Equal(got, want) || !errors.Is(err, wantErr) {
			t.Fatalf("%x: read %x, %v; want %x, %v", in, got, err, want, wantErr)
		}
	})
}

// plainUnits returns the bytes of the first stream in b, and how it ends.
func plainUnits(b []byte) (out []byte, err error) {
	for {
		if len(b) < 4 {
			return out, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(b)
		b = b[4:]
		switch {
		case n == 0:
			return out, io.EOF
		case n == 0xffffffff:
			return out, errReset
		case n >= 1<<31:
			return out, errUnit
		case uint64(n) > uint64(len(b)):
			return append(out, b...), io.ErrUnexpectedEOF
		}
		out, b = append(out, b[:n]...), b[n:]
	}
}
