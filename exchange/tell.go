package exchange

import (
	"io"
	"time"
)

// tellEvery is how long a chunk may take before the part that has been read is answered. A
// chunk of 128 KiB over 1 Mbit/s takes a second, and whoever watches the rate of a lane wants
// to know sooner that it has fallen.
const tellEvery = 200 * time.Millisecond

// soon is the size of a chunk, in bytes, the whole of which follows its first bytes so soon that nobody is told of these, unless a window waits for it.
const soon = 64 << 10

// A teller answers the frames of one stream, and its chunks with how many of their bytes were read.
type teller struct {
	out   []byte // answers that were not written yet
	w     io.Writer
	start time.Time // of the clock in the answers
	on    bool      // the opener has asked for it
	step  int       // bytes after which it wants to know, beside the ends of chunks; 0: none
	said  int       // bytes in the last answer
	bytes int       // of the chunks that are complete
	size  int       // of the chunk that comes
	told  time.Time // when the last answer was written
	got   int       // where out ends if it ends with got, and fresh where that begins
	fresh int
}

// begin answers the opener's wish to be told after each step bytes: nothing was read, and so
// late is it here. Its first packet meets the shortest queue. Where no window waits for it nobody needs that, and an answer is a packet that wakes somebody.
func (t *teller) begin(step int) {
	t.on, t.step = true, step
	if step > 0 {
		t.answer(time.Now(), 0)
	}
}

// flush writes the answers.
func (t *teller) flush() error {
	if len(t.out) == 0 {
		return nil
	}
	_, err := t.w.Write(t.out)
	t.out, t.got = t.out[:0], 0
	return err
}

// farAhead is how far a stream over a far way is read ahead, in bytes: what has come of several small chunks is answered at once.
const farAhead = 4 << 10

// asking is what a stream brings, before more of which is waited for answers go out: the opener may wait for them.
type asking struct {
	tell *teller
	r    io.Reader
}

func (a *asking) Read(p []byte) (int, error) {
	if err := a.tell.flush(); err != nil {
		return 0, err
	}
	return a.r.Read(p)
}

// part is called when part of the bytes of a chunk have been read.
func (t *teller) part(bytes int) error {
	if !t.on {
		return nil
	}
	now := time.Now()
	if t.told.IsZero() && t.step <= 0 && t.size <= soon {
		return nil
	}
	if now.Sub(t.told) < tellEvery && (t.step <= 0 || t.bytes+bytes-t.said < t.step) {
		return nil
	}
	t.told, t.said = now, t.bytes+bytes
	t.answer(now, t.bytes+bytes)
	return t.flush()
}

// chunk answers a whole chunk of n bytes.
func (t *teller) chunk(n int) {
	t.bytes += n
	if !t.on {
		return
	}
	t.told, t.said = time.Now(), t.bytes
	t.answer(t.told, t.bytes)
}

// answer says that bytes were read, in place of what was to be said of fewer.
func (t *teller) answer(now time.Time, bytes int) {
	if t.got == len(t.out) && t.got > 0 {
		t.out = t.out[:t.fresh]
	}
	defer func(from int) { t.fresh, t.got = from, len(t.out) }(len(t.out))
	t.out = (&frame{kind: frameGot, number: bytes, index: int(now.Sub(t.start).Microseconds() % clockWrap)}).appendTo(t.out)
}
