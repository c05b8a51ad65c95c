package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/probe/netmap"
)

// The sizes that a rate is made of. A packet of a train is as large as the packets
// that quic-go starts with (1,280 bytes of UDP payload), so a path that carries lanes
// carries trains, and on any link the two take the same time, whatever headers lie
// under UDP. So packets a second from the one are packets a second of the other, and
//
//	bandwidth in the map (user bytes of QUIC streams) = packets a second × 1,248
//	UDP payload bytes a second                        = packets a second × 1,280
//	IPv4 bytes a second, what a link's rate counts     = packets a second × 1,308
//
// A 1.25 Mbit/s link thus reads 1.19 Mbit/s, which is what a lane delivers over it.
// Where path MTU discovery lets QUIC use 1,452 bytes, a lane gets 0.6 % more.
const (
	trainPayload = 1280
	// quicOverhead is what a full 1-RTT packet spends: 1 byte flags, 4 connection ID,
	// 2 packet number, 16 authentication tag, 9 stream frame header with offset and length.
	quicOverhead = 32
	userPayload  = trainPayload - quicOverhead

	trainHeader = len(trainID{}) + 2 // after the endpoint's kind byte: id, number
)

// trainChunk is after how many packets the sender yields its processor: quic-go holds
// 32 packets that are not QUIC at the receiver and drops more, and over loopback the
// receiver may need the same processor. There is no pause: Go's timers can wake a
// millisecond late, which is a third of a whole train on a 1 Gbit/s link.
const trainChunk = 32

// bandwidth converts packets a second to the map's unit.
func bandwidth(packetsPerSec float64) netmap.BytesPerSec {
	return netmap.BytesPerSec(packetsPerSec * userPayload)
}

// A trainID marks the packets of one train. The receiver draws it and tells only the
// sender, over the authenticated stream: nobody else can add packets to the train.
type trainID [16]byte

// newTrainID returns an id that cannot be guessed.
func newTrainID() (id trainID) {
	rand.Read(id[:]) // never fails since Go 1.24
	return id
}

// sendTrain sends count packets marked id to the address, and returns how long that took.
func sendTrain(ctx context.Context, e Endpoint, to net.Addr, id trainID, count int) (time.Duration, error) {
	p := make([]byte, trainPayload-1) // the endpoint adds the kind byte
	rand.Read(p)                      // a path that compresses must not gain
	copy(p, id[:])
	start := time.Now()
	for seq := range count {
		if seq > 0 && seq%trainChunk == 0 {
			runtime.Gosched()
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
		}
		binary.BigEndian.PutUint16(p[len(id):], uint16(seq))
		if err := e.SendPacket(lane.PacketProbe, p, to); err != nil {
			return 0, fmt.Errorf("packet %d of %d to %v: %w", seq, count, to, err)
		}
	}
	return time.Since(start), nil
}

// A catcher notes the arrivals of the train that the host has granted, of which there
// is at most one: the host's slot is held while it lasts.
type catcher struct {
	mu       sync.Mutex // guards all below; never held over I/O
	id       trainID
	count    int // 0: nothing granted
	arrivals []arrival
	seen     [maxTrain]bool
	start    time.Time     // of the first packet
	full     chan struct{} // closed once count packets are in
	unknown  uint64        // packets of no granted train
}

// expect begins a new train of count packets and returns its id. full is closed once
// all of it has arrived.
func (c *catcher) expect(count int) (id trainID, full <-chan struct{}) {
	id = newTrainID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id, c.count, c.full = id, count, make(chan struct{})
	c.arrivals = make([]arrival, 0, count)
	c.seen = [maxTrain]bool{}
	return id, c.full
}

// packet notes one datagram; it is called on the goroutine that reads the socket.
func (c *catcher) packet(p []byte, _ net.Addr, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 || len(p) != trainPayload-1 || trainID(p[:len(trainID{})]) != c.id {
		c.unknown++
		return
	}
	seq := int(binary.BigEndian.Uint16(p[len(trainID{}):trainHeader]))
	if seq >= c.count || c.seen[seq] {
		return
	}
	c.seen[seq] = true
	if len(c.arrivals) == 0 {
		c.start = at
	}
	c.arrivals = append(c.arrivals, arrival{seq, at.Sub(c.start)})
	if len(c.arrivals) == c.count {
		close(c.full)
	}
}

// patience returns how much longer to wait for the rest of a train of which the sender
// said at sent that it had left. Train and stream share one path, so what has not
// arrived soon after that message is lost; a little reordering is allowed for.
func (c *catcher) patience(sent, now time.Time) time.Duration {
	const (
		floor   = 20 * time.Millisecond
		nothing = 250 * time.Millisecond // before the first packet
		ceiling = 2 * time.Second
	)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.arrivals)
	if n < 2 {
		return nothing - now.Sub(sent)
	}
	last := c.arrivals[n-1].At
	latest := c.start.Add(last)
	if sent.After(latest) {
		latest = sent
	}
	return min(max(4*last/time.Duration(n-1), floor), ceiling) - now.Sub(latest)
}

// take ends the train and returns what arrived.
func (c *catcher) take() []arrival {
	c.mu.Lock()
	defer c.mu.Unlock()
	as := c.arrivals
	c.id, c.count, c.arrivals = trainID{}, 0, nil
	return as
}

// strays returns how many packets belonged to no granted train.
func (c *catcher) strays() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unknown
}

// sleep waits d or until ctx ends, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
