package exchange

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The bytes on a data stream. The host that sends data opens the stream, one per lane
// and exchange, and writes a header and then frames; the accepting host answers with
// frames in the other direction. Numbers are unsigned varints except where a length
// is given. The sender is who the lane's certificate says.
//
//	header    version (1 byte) · exchange id (16 bytes) · lane
//
// A stream may run by way of a third host (detour.go). Its first header then has lane 65 and
// behind it the name of the host that it is for (length · bytes); that third one opens the rest of the
// way with a header of lane 66 and the name of the host that it is from, which is answered
// with the byte 0x1a. What follows in both directions is as if there were two hosts only.
//
//	opener → acceptor
//	chunk     0x01 · block number · chunk index · length · bytes
//	sum       0x02 · block number · checksum (8 bytes, little-endian)
//	token     0x03 · transfer          transfer is complete at the opener
//	left      0x07 · transfer          the data of transfer have left the opener
//	ask       0x04                     tell me what you have: a stream broke
//	tell      0x06 · bytes             answer this, and the chunks of this stream, with got; if
//	                                   bytes is not 0, also after so many bytes in a chunk
//	offer     0x09 · host · block number · first · count     would you deliver these entries to
//	                                   host? It is answered with taken for those that are there
//	standing  0x08 · host              what have you left for host's site, and what do you get?
//	together  0x0a · host              likewise, all of your site
//
//	acceptor → opener
//	done      0x11 · transfer          all blocks have arrived and are verified
//	seen      0x12 · transfer          the token of transfer has arrived
//	leftSeen  0x17 · transfer          likewise for left
//	have      0x13 · block number · first · count    entries that need not be sent again
//	end       0x14                     of the answer to ask
//	got       0x16 · bytes · clock     of the stream's chunks that were read, in all:
//	                                   after each chunk or several that came together, and while one takes long; clock is
//	                                   the reader's, in µs modulo 2³¹, the same on all streams
//	                                   between two hosts
//	taken     0x19 · host · block number · first · count     the opener need not deliver these
//	stands    0x18 · bytes · rate · usual     left for the site, bytes; bytes a second now and before
//	complete  0x15                     the part that runs here is complete: all is done and seen
//
//	both
//	fail      0x05 · length · reason   the writer gives up; nothing follows
//
// The entries of a block are its chunks, numbered from 0, and then its checksum; an
// empty block has only the checksum. A block counts as arrived when all entries have.
const (
	wireVersion = 2

	frameChunk    = 0x01
	frameSum      = 0x02
	frameToken    = 0x03
	frameAsk      = 0x04
	frameFail     = 0x05
	frameTell     = 0x06
	frameLeft     = 0x07
	frameStanding = 0x08
	frameOffer    = 0x09
	frameTogether = 0x0a
	frameDone     = 0x11
	frameSeen     = 0x12
	frameHave     = 0x13
	frameEnd      = 0x14
	frameComplete = 0x15
	frameGot      = 0x16
	frameLeftSeen = 0x17
	frameStands   = 0x18
	frameTaken    = 0x19
)

const (
	maxNumber = 1 << 40 // largest varint that any field may hold, but for the bytes of got: of one stream, they may be all of a part
	maxReason = 512     // bytes
	maxLane   = 63
	newsLane  = maxLane + 1                 // in the header of a stream that carries no chunks: any number of them at a time
	byLane    = maxLane + 2                 // in the header of a stream that is for another host
	fromLane  = maxLane + 3                 // in the header of a stream that is from another host
	frameHere = 0x1a                        // answers fromLane
	maxFrame  = 1 + 4*binary.MaxVarintLen64 // any frame without bytes or reason
)

// errMalformed marks bytes that are no frame; other read errors are the stream's.
var errMalformed = errors.New("malformed frame")

// A frame is one frame without a chunk's bytes. Which fields hold depends on kind.
type frame struct {
	kind   byte
	number int    // block number, transfer (token, left, done, seen, leftSeen), or bytes for got, tell and stands
	index  int    // chunk, first entry of have, offer and taken, clock of got, or rate of stands
	n      int    // bytes of the chunk, entries of have, offer and taken, or usual rate of stands
	host   int    // of offer, taken, standing and together
	sum    uint64 // sum
	reason string // fail
}

func (f *frame) appendTo(dst []byte) []byte {
	dst = append(dst, f.kind)
	switch f.kind {
	case frameChunk, frameHave, frameStands:
		dst = binary.AppendUvarint(dst, uint64(f.number))
		dst = binary.AppendUvarint(dst, uint64(f.index))
		dst = binary.AppendUvarint(dst, uint64(f.n))
	case frameOffer, frameTaken:
		dst = binary.AppendUvarint(dst, uint64(f.host))
		dst = binary.AppendUvarint(dst, uint64(f.number))
		dst = binary.AppendUvarint(dst, uint64(f.index))
		dst = binary.AppendUvarint(dst, uint64(f.n))
	case frameStanding, frameTogether:
		dst = binary.AppendUvarint(dst, uint64(f.host))
	case frameSum:
		dst = binary.AppendUvarint(dst, uint64(f.number))
		dst = binary.LittleEndian.AppendUint64(dst, f.sum)
	case frameToken, frameLeft, frameDone, frameSeen, frameLeftSeen, frameTell:
		dst = binary.AppendUvarint(dst, uint64(f.number))
	case frameGot:
		dst = binary.AppendUvarint(dst, uint64(f.number))
		dst = binary.AppendUvarint(dst, uint64(f.index))
	case frameFail:
		reason := f.reason[:min(len(f.reason), maxReason)]
		dst = binary.AppendUvarint(dst, uint64(len(reason)))
		dst = append(dst, reason...)
	}
	return dst
}

// readAhead is how far a frameReader reads ahead. Only what lies in this buffer is
// copied on its way to the result, at most this many bytes per chunk; the rest of a
// chunk goes from the stream to its place.
const readAhead = 256

// A frameReader reads headers and frames from a stream.
type frameReader struct {
	br   *bufio.Reader
	part func(bytes int) error // called while the bytes of a chunk come; nil for nobody
	// stage takes a chunk before its place is claimed; nil: it goes there at once.
	stage *stage
}

func newFrameReader(r io.Reader) frameReader {
	return frameReader{br: bufio.NewReaderSize(r, readAhead)}
}

// uvarint reads a number of at most maxNumber.
func (r frameReader) uvarint() (int, error) { return r.upTo(maxNumber) }

// upTo reads a number of at most most, which is maxBytes at most.
func (r frameReader) upTo(most uint64) (int, error) {
	var v uint64
	for shift := 0; ; shift += 7 {
		b, err := r.br.ReadByte()
		if err != nil {
			return 0, noEOF(err)
		}
		v |= uint64(b&0x7f) << shift
		if v > most || shift > 49 && b >= 0x80 { // seven bits more fit v
			return 0, fmt.Errorf("%w: number over %d", errMalformed, most)
		}
		if b < 0x80 {
			return int(v), nil
		}
	}
}

// noEOF makes the end of the stream inside a frame an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// full reads exactly len(p) bytes.
func (r frameReader) full(p []byte) error {
	_, err := io.ReadFull(r.br, p)
	return noEOF(err)
}

// chunk reads exactly len(p) bytes of a chunk, of which done were read before.
func (r frameReader) chunk(p []byte, done int) error {
	if r.part == nil {
		return r.full(p)
	}
	for n := 0; n < len(p); {
		k, err := r.br.Read(p[n:])
		if n += k; n == len(p) {
			return nil // an error that came with the last byte will come again
		}
		if err != nil {
			return noEOF(err)
		}
		if err := r.part(done + n); err != nil {
			return err
		}
	}
	return nil
}

// skip drops a chunk of n bytes. They are answered like any others: a sender whose window holds less than a chunk
// writes the rest of it when it hears of the beginning.
func (r frameReader) skip(n int) error {
	for done := 0; done < n; {
		if _, err := r.br.Peek(1); err != nil {
			return noEOF(err)
		}
		k, err := r.br.Discard(min(n-done, r.br.Buffered()))
		if err != nil {
			return noEOF(err)
		}
		if done += k; r.part != nil && done < n {
			if err := r.part(done); err != nil {
				return err
			}
		}
	}
	return nil
}

// next reads a frame into f. It returns io.EOF, bare, at the end of the stream between
// two frames, and an error that is errMalformed for what is no frame. After a chunk
// the caller reads f.n bytes, having compared f.n with what it expects.
func (r frameReader) next(f *frame) error {
	kind, err := r.br.ReadByte()
	if err != nil {
		return err
	}
	*f = frame{kind: kind}
	switch kind {
	case frameChunk, frameHave, frameStands:
		if f.number, err = r.uvarint(); err != nil {
			return err
		}
		if f.index, err = r.uvarint(); err != nil {
			return err
		}
		f.n, err = r.uvarint()
		return err
	case frameOffer, frameTaken:
		for _, v := range []*int{&f.host, &f.number, &f.index, &f.n} {
			if *v, err = r.uvarint(); err != nil {
				return err
			}
		}
		return nil
	case frameStanding, frameTogether:
		f.host, err = r.uvarint()
		return err
	case frameSum:
		if f.number, err = r.uvarint(); err != nil {
			return err
		}
		var b []byte
		if b, err = r.br.Peek(8); err != nil {
			return noEOF(err)
		}
		f.sum = binary.LittleEndian.Uint64(b)
		_, err = r.br.Discard(8)
		return noEOF(err)
	case frameToken, frameLeft, frameDone, frameSeen, frameLeftSeen, frameTell:
		f.number, err = r.uvarint()
		return err
	case frameGot:
		if f.number, err = r.upTo(maxBytes); err != nil {
			return err
		}
		f.index, err = r.uvarint()
		return err
	case frameAsk, frameEnd, frameComplete:
		return nil
	case frameFail:
		n, err := r.uvarint()
		if err != nil {
			return err
		}
		if n > maxReason {
			return fmt.Errorf("%w: reason of %d bytes, want at most %d", errMalformed, n, maxReason)
		}
		b := make([]byte, n)
		if err := r.full(b); err != nil {
			return err
		}
		f.reason = strings.ToValidUTF8(string(b), "?")
		return nil
	}
	return fmt.Errorf("%w: kind %#02x", errMalformed, kind)
}
