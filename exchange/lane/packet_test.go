package lane_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A datagram is what a handler of packets was given.
type datagram struct {
	kind lane.PacketKind
	data []byte
	from string
	at   time.Time
}

// catch makes n report its packets.
func (n *node) catch() <-chan datagram {
	got := make(chan datagram, 1000)
	for _, k := range []lane.PacketKind{lane.PacketGossip, lane.PacketProbe} {
		n.HandlePackets(k, func(p []byte, from net.Addr, at time.Time) {
			got <- datagram{k, bytes.Clone(p), from.String(), at}
		})
	}
	return got
}

func TestPackets(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
		got := b.catch()
		b.run(t)
		time.Sleep(time.Second) // a packet to an endpoint that does not run yet is lost
		for _, size := range []int{0, 1, lane.MaxPacket} {
			for _, k := range []lane.PacketKind{lane.PacketGossip, lane.PacketProbe} {
				data := bytes.Repeat([]byte{0xc3}, size)
				sent := time.Now()
				if err := a.SendPacket(k, data, b.Addr()); err != nil {
					t.Fatal(err)
				}
				d := <-got
				if d.kind != k || !bytes.Equal(d.data, data) || d.from != a.Addr().String() {
					t.Errorf("sent %d bytes of kind %d, got %d of kind %d from %v", size, k, len(d.data), d.kind, d.from)
				}
				if delay := d.at.Sub(sent); delay < oneWay || delay > oneWay+time.Millisecond {
					t.Errorf("stamped %v after it was sent", delay)
				}
			}
		}
		if err := a.SendPacket(lane.PacketProbe, make([]byte, lane.MaxPacket+1), b.Addr()); err == nil {
			t.Error("sent a packet that does not fit")
		}
		for _, k := range []lane.PacketKind{0x40, 0x80, 0xc1} {
			if err := a.SendPacket(k, []byte("x"), b.Addr()); err == nil {
				t.Errorf("sent a packet of kind %#02x, which is QUIC's", byte(k))
			}
		}
		if err := a.SendPacket(0x3f, []byte("x"), b.Addr()); err != nil { // of a later release
			t.Error(err)
		}
		time.Sleep(time.Second)
		if len(got) > 0 {
			t.Errorf("handled %v", <-got)
		}
		a.stop()
		b.stop()
	})
}

// Whatever arrives from anywhere, an endpoint goes on, and hands over only what its kind says.
func TestJunk(t *testing.T) {
	for seed := range uint64(3) {
		inBubble(t, func(t *testing.T, c *cluster) {
			rng := rand.New(rand.NewPCG(seed, 0))
			a, b := c.start("a0"), c.prepare(c.listen("b0"), "b0")
			got := b.catch()
			b.run(t)
			time.Sleep(time.Second)
			a.mustTalk(t, "b0", 0)
			sock := c.listen("a1")
			want := 0
			for i := range 2000 {
				p := make([]byte, rng.IntN(1472))
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				if len(p) > 5 && rng.IntN(2) == 0 { // looks more like an Initial
					p[0] = 0xc0 | p[0]&0x0f
					copy(p[1:5], []byte{0, 0, 0, 1})
					p[5] = byte(rng.IntN(21))
				}
				if len(p) > 0 && (p[0] == byte(lane.PacketGossip) || p[0] == byte(lane.PacketProbe)) {
					want++
				}
				if _, err := sock.WriteTo(p, b.Addr()); err != nil {
					t.Fatal(err)
				}
				if i%20 == 0 {
					time.Sleep(4 * time.Millisecond) // the link must not lose any
				}
			}
			time.Sleep(30 * time.Second)
			if len(got) != want {
				t.Errorf("seed %d: %d packets handled, want %d", seed, len(got), want)
			}
			a.mustTalk(t, "b0", 0)
			a.mustTalk(t, "b0", 1)
			a.wantLinks(t, 2)
			if b.Waiting() != 0 {
				t.Errorf("seed %d: %d handshakes in progress", seed, b.Waiting())
			}
			if err := sock.Close(); err != nil {
				t.Error(err)
			}
			a.stop()
			b.stop()
		})
	}
}
