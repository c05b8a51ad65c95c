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
	start time.Time // of the clock in the answers
	on    bool      // the opener has asked for it
	step  int       // bytes after which it wants to know, beside the ends of chunks; 0: none
	said  int       // bytes in the last answer
	bytes int       // of the chunks that are complete
	told  time.Time // when the last answer was written
	buf   []byte    // reused
}

// begin appends the answer to the opener's wish to be told after each step bytes: nothing was read, and so
// late is it here. Its first packet meets the shortest queue.
func (t *teller) begin(step int, out []byte) []byte {
	t.on, t.step = true, step
	return t.answer(time.Now(), 0, out)
}

// part is called when part of the bytes of a chunk have been read.
func (t *teller) part(bytes int) error {
	if !t.on {
		return nil
	}
	now := time.Now()
	if now.Sub(t.told) < tellEvery && (t.step <= 0 || t.bytes+bytes-t.said < t.step) {
		return nil
	}
	t.told, t.said = now, t.bytes+bytes
	t.buf = t.answer(now, t.bytes+bytes, t.buf[:0])
	_, err := t.w.Write(t.buf)
	return err
}

// chunk appends the answer to a whole chunk of n bytes to out.
func (t *teller) chunk(n int, out []byte) []byte {
	t.bytes += n
	if !t.on {
		return out
	}
	t.told, t.said = time.Now(), t.bytes
	return t.answer(t.told, t.bytes, out)
}

// answer appends the answer that bytes were read to out.
func (t *teller) answer(now time.Time, bytes int, out []byte) []byte {
	return (&frame{kind: frameGot, number: bytes, index: int(now.Sub(t.start).Microseconds() % clockWrap)}).appendTo(out)
}
