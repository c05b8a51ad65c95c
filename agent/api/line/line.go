// Package line has the frames in which a client and its agent speak of a rank's operations, over one connection of the local API.
//
// A call over Connect is an HTTP request, which costs both ends more than a small operation does: six goroutines take turns at
// it, and what is sent is copied four times. A line begins as a request too, for [Path], and is switched to [Protocol] (RFC 9110, section 7.8). From then on
// each end sends frames:
//
//	uint32  length of the message, big endian
//	uint32  length of the payload
//	message apiv1.LineRequest from the client, apiv1.LineAnswer from the agent (protobuf)
//	payload what a rank contributes, or what it gets
//
// The bytes of a payload are read to where they stay, and written from where they are. Both ends use this package: agent/client, and agent.
package line

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/protobuf/proto"
)

const (
	// Path is where a client asks for a line, with GET, and Protocol what it asks for in the field Upgrade.
	Path, Protocol = "/gridagent.v1.Line", "gridagent-line"

	// maxMessage bounds a message: a plan of 16 MiB, and the rest of its request.
	maxMessage = 17 << 20
	// MaxInput bounds the payload of a request, and MaxResult that of an answer, in bytes.
	MaxInput, MaxResult = 1 << 20, 16 << 20
	// MaxAsked bounds the operations of one line that are under way or wait for their turn. An agent ends a line that asks for more.
	MaxAsked = 4096
	// MaxInputs bounds the spool files of a rank that wait for their operations. An agent removes the oldest of more.
	MaxInputs = 17

	headSize = 8
	// small is up to where a payload is copied behind its message rather than handed to the kernel by itself.
	small = 8 << 10
	// atOnce is up to where memory is taken for what a length says before it is there.
	atOnce = 256 << 10
)

// A Conn sends and receives frames. One goroutine at a time receives; any may send.
type Conn struct {
	c     net.Conn
	quick net.Conn // c, for what is small
	r     *bufio.Reader
	limit uint32 // of a payload that comes
	last  []byte // the message received last

	wmu sync.Mutex // held while a frame is written, and for buf
	buf []byte
}

// New returns a Conn over c, of which r has read ahead. Payloads of more than limit bytes are refused.
func New(c net.Conn, r *bufio.Reader, limit int) *Conn {
	quick, r := fast(c, r)
	return &Conn{c: c, quick: quick, r: r, limit: uint32(limit)}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Send writes one frame. It is an error of the connection, after which nothing can be sent, or of the message, which was not.
func (c *Conn) Send(m proto.Message, payload []byte) error {
	if len(payload) > MaxResult {
		return fmt.Errorf("payload of %d bytes: at most %d", len(payload), MaxResult)
	}
	c.wmu.Lock()
	defer c.wmu.Unlock()
	b, err := proto.MarshalOptions{}.MarshalAppend(append(c.buf[:0], make([]byte, headSize)...), m)
	if err != nil {
		return err
	}
	n := len(b) - headSize
	if n > maxMessage {
		return fmt.Errorf("message of %d bytes: at most %d", n, maxMessage)
	}
	binary.BigEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint32(b[4:], uint32(len(payload)))
	together := len(payload) <= small
	if together {
		b = append(b, payload...)
	}
	if cap(b) <= 4*small {
		c.buf = b
	}
	if together {
		_, err = c.quick.Write(b)
		return err
	}
	both := net.Buffers{b, payload}
	_, err = both.WriteTo(c.c)
	return err
}

// Receive reads the next frame into m, and returns its payload, nil for none. The error is io.EOF where the other end has ended between two frames.
func (c *Conn) Receive(m proto.Message) (payload []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	n, size := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
	if n > maxMessage || size > c.limit {
		return nil, fmt.Errorf("frame of %d and %d bytes: at most %d and %d", n, size, maxMessage, c.limit)
	}
	b, err := c.read(c.last, int(n))
	if err != nil {
		return nil, err
	}
	if len(b) <= small {
		c.last = b
	}
	if err := proto.Unmarshal(b, m); err != nil { // which copies what it takes
		return nil, fmt.Errorf("message of a frame: %w", err)
	}
	if size == 0 {
		return nil, nil
	}
	return c.read(nil, int(size))
}

// read reads n bytes, into old if it has room. Of many it takes memory as they arrive.
func (c *Conn) read(old []byte, n int) ([]byte, error) {
	b := old[:min(n, cap(old))]
	if len(b) < n {
		b = make([]byte, min(n, atOnce))
	}
	for at := 0; ; {
		read, err := io.ReadFull(c.r, b[at:])
		if at += read; err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if at == n {
			return b, nil
		}
		grown := make([]byte, min(n, 4*len(b)))
		copy(grown, b)
		b = grown
	}
}
