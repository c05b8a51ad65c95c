package lane

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/quic-go/quic-go"
)

// PacketKind is the first byte of a datagram that is not QUIC. Its two highest
// bits are 0: that is what quic-go tells them by.
type PacketKind byte

// The kinds of datagrams.
const (
	PacketGossip PacketKind = 0x01
	PacketProbe  PacketKind = 0x02
	PacketTry    PacketKind = 0x03 // whether UDP gets through
)

// MaxPacket is the most bytes that a datagram carries beside its kind: what memberlist
// sends at most, and what fits the buffers that quic-go reads into (1,452 bytes).
const MaxPacket = 1400

// quicBits are set, one or both, in the first byte of every QUIC packet.
const quicBits PacketKind = 0xc0

// HandlePackets registers h for datagrams of one kind. p excludes the kind byte and
// is valid only during the call; h must not block: it runs on the reading goroutine,
// and only 32 packets wait behind it. from is as the packet claims.
func (e *Endpoint) HandlePackets(k PacketKind, h func(p []byte, from net.Addr, at time.Time)) {
	e.packets[k] = h
}

// SendPacket sends one datagram of kind k; b excludes the kind byte and is at most
// [MaxPacket] bytes. It may be lost. The error says that it was not sent at all. To a host that UDP does not reach it
// goes through the tunnel.
func (e *Endpoint) SendPacket(k PacketKind, b []byte, to net.Addr) error {
	if k&quicBits != 0 {
		return fmt.Errorf("packet of kind %#02x to %v: its two highest bits must be 0", byte(k), to)
	}
	if len(b) > MaxPacket {
		return fmt.Errorf("packet of %d bytes to %v: want at most %d", len(b), to, MaxPacket)
	}
	if t := e.instead(to); t != nil {
		t.send(slices.Concat([]byte{byte(k)}, b))
		return nil
	}
	return e.writeUDP(k, b, to)
}

func (e *Endpoint) writeUDP(k PacketKind, b []byte, to net.Addr) error {
	_, err := e.transport.WriteTo(slices.Concat([]byte{byte(k)}, b), to)
	return err
}

// readPackets serves datagrams that come over t until the endpoint ends or its socket does.
func (e *Endpoint) readPackets(t *quic.Transport) {
	buf := make([]byte, 2048) // more than quic-go reads of one datagram
	for {
		n, from, err := t.ReadNonQUICPacket(e.ctx, buf)
		if err != nil {
			return
		}
		if t == e.tunnelTransport && n > 0 && PacketKind(buf[0]) == PacketTry {
			continue // says nothing of UDP
		}
		e.packet(buf[:n], from, time.Now())
	}
}

// packet hands one datagram to who handles its kind. One that nobody handles is dropped
// without a word: anybody can send them, and its source can be forged.
func (e *Endpoint) packet(p []byte, from net.Addr, at time.Time) {
	if len(p) == 0 {
		return
	}
	if h := e.packets[PacketKind(p[0])]; h != nil {
		h(p[1:], from, at)
	}
}
