package lane

import (
	"context"
	"io"
)

// spliceBytes is the buffer of each direction of a splice.
const spliceBytes = 32 << 10

// A Spliced is a stream that [Splice] joins to another one.
type Spliced interface {
	io.ReadWriter
	// Close ends the writing side in order, CloseRead the reading side, and Abort both at once.
	Close() error
	CloseRead()
	Abort()
}

// Splice copies what r reads of a to b, and what comes from b to a, until both directions have ended or ctx has. A direction
// that ends in order is closed in order; one that breaks at its source ends both streams. Where nobody reads any more, the source is
// told, and the other direction goes on. Both streams have ended when it returns.
func Splice(ctx context.Context, a Spliced, r io.Reader, b Spliced) {
	abort := func() { a.Abort(); b.Abort() }
	stop := context.AfterFunc(ctx, abort)
	defer stop()
	back := make(chan struct{})
	go func() { // ends with either stream; waited for below
		defer close(back)
		pour(a, b, b, abort)
	}()
	pour(b, r, a, abort)
	<-back
}

// pour copies from r, which reads source, to w.
func pour(w Spliced, r io.Reader, source Spliced, abort func()) {
	switch read, write := pump(w, r); {
	case write != nil:
		source.CloseRead()
	case read != nil:
		abort()
	default:
		w.Close()
	}
}

// pump copies from r to w until r ends, and tells reading's errors and writing's apart.
func pump(w io.Writer, r io.Reader) (read, write error) {
	buf := make([]byte, spliceBytes)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return nil, werr
			}
		}
		if err == io.EOF {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}
