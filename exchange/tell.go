package exchange

import (
	"io"
	"time"
)

// tellEvery is how long a chunk may take before the part that has been read is answered. A
// chunk of 128 KiB over 1 Mbit/s takes a second, and whoever watches the rate of a lane wants
// to know sooner that it has fallen.
const tellEvery = 200 * time.Millisecond

// A teller answers the chunks of one stream with how many of their bytes were read.
type teller struct {
	w     io.Writer
	on    bool      // the opener has asked for it
	bytes int       // of the chunks that are complete
	told  time.Time // when the last answer was written
	buf   []byte    // reused
}

// part is called when part of the bytes of a chunk have been read.
func (t *teller) part(bytes int) error {
	if !t.on {
		return nil
	}
	now := time.Now()
	if now.Sub(t.told) < tellEvery {
		return nil
	}
	t.told = now
	t.buf = (&frame{kind: frameGot, number: t.bytes + bytes}).appendTo(t.buf[:0])
	_, err := t.w.Write(t.buf)
	return err
}

// chunk appends the answer to a whole chunk of n bytes to out.
func (t *teller) chunk(n int, out []byte) []byte {
	t.bytes += n
	if !t.on {
		return out
	}
	t.told = time.Now()
	return (&frame{kind: frameGot, number: t.bytes}).appendTo(out)
}
