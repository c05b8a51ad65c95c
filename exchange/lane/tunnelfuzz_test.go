package lane

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzTunnelFrames reads bytes as what comes through a tunnel, and writes what it has read again: the same bytes, up to where they are malformed.
func FuzzTunnelFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3, 1, 2, 3, 0, 0})
	f.Add([]byte{0, 2, 31, 10, 0, 1, 9})
	f.Add(append([]byte{maxFrame >> 8, maxFrame & 255}, make([]byte, maxFrame)...))
	f.Add([]byte{(maxFrame + 1) >> 8, (maxFrame + 1) & 255, 0, 0})
	f.Add([]byte{0, 9, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		r, buf := bytes.NewReader(in), make([]byte, maxFrame)
		var again bytes.Buffer
		w := bufio.NewWriter(&again)
		var err error
		for err == nil {
			var n int
			if n, err = readFrame(r, buf); err == nil {
				writeFrame(w, buf[:n])
			}
		}
		w.Flush()
		if !bytes.HasPrefix(in, again.Bytes()) {
			t.Fatalf("%x: wrote %x again", in, again.Bytes())
		}
		rest := in[again.Len():]
		switch long := len(rest) >= 2 && int(rest[0])<<8+int(rest[1]) > maxFrame; {
		case long && !errors.Is(err, errFrame):
			t.Fatalf("%x: a frame that is too long ends in %v", in, err)
		case !long && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatalf("%x: ends in %v", in, err)
		case !long && len(rest) >= 2 && len(rest)-2 >= int(rest[0])<<8+int(rest[1]):
			t.Fatalf("%x: a whole frame is left", in)
		}
	})
}
