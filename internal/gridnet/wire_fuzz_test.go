package gridnet

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"
)

// FuzzWire writes arbitrary bytes to a wire, as they are and with the addresses of two hosts.
// An error has no effect; what is taken is counted once, and arrives whole where its header says.
func FuzzWire(f *testing.F) {
	a, b := netip.MustParseAddrPort("10.1.0.1:9"), netip.MustParseAddrPort("10.2.0.1:10")
	for _, size := range []int{20, 23, 24, 28, 1500} {
		f.Add(IPv4(a, b, size))
		f.Add(append(IPv4(b, a, size), "padding"...))
	}
	for _, spoil := range []func(p []byte){
		func(p []byte) { p[0] = 6 << 4 },                                  // IPv6
		func(p []byte) { p[0] = 4<<4 | 4 },                                // header too short
		func(p []byte) { p[0] = 4<<4 | 15 },                               // options up to the end
		func(p []byte) { binary.BigEndian.PutUint16(p[2:], 0) },           // no length
		func(p []byte) { binary.BigEndian.PutUint16(p[2:], 61) },          // cut off
		func(p []byte) { binary.BigEndian.PutUint16(p[6:], 1<<13) },       // first fragment
		func(p []byte) { binary.BigEndian.PutUint16(p[6:], 7) },           // later fragment
		func(p []byte) { binary.BigEndian.PutUint16(p[6:], 1<<14|1<<15) }, // not to be fragmented
		func(p []byte) { p[9] = 1 },                                       // ICMP
		func(p []byte) { copy(p[16:], p[12:16]) },                         // to itself
	} {
		p := IPv4(a, b, 60)
		spoil(p)
		f.Add(p)
	}
	f.Add([]byte{})
	f.Add(IPv4(a, b, MTU+1))
	f.Fuzz(func(t *testing.T, in []byte) {
		put(t, in)
		if len(in) >= minIPv4 {
			in = bytes.Clone(in)
			copy(in[12:], []byte{10, 1, 0, 1, 10, 2, 0, 1})
			put(t, in)
		}
	})
}

// put writes in to a wire of a small network and compares with what its bytes say.
func put(t *testing.T, in []byte) {
	cfg := Config{
		Sites: []Site{{Name: "a", Hosts: []string{"a0", "a1"}}, {Name: "b", Hosts: []string{"b0"}}},
		Links: []Link{{From: "a", To: "b"}},
	}
	n := &Network{start: time.Now().Add(-time.Hour), until: math.MinInt64, world: newWorld(&cfg)} // without a loop
	from, err := n.Attach("a")
	if err != nil {
		t.Fatal(err)
	}
	to, err := n.Attach("b")
	if err != nil {
		t.Fatal(err)
	}
	err = from.Write(in)
	n.world.advance(2 * time.Hour)

	valid := len(in) >= 20 && in[0]>>4 == 4 && in[0]&15 >= 5
	size := 0
	if valid {
		size = int(in[2])<<8 | int(in[3])
		valid = size <= len(in) && size >= int(in[0]&15)*4
	}
	var offered, delivered, dropped uint64
	for _, h := range n.world.hosts {
		offered += h.out.Offered.Packets
		delivered += h.in.Delivered.Packets
		lost := h.out.Lost()
		dropped += lost.Packets
	}
	if (err == nil) != valid || offered+n.world.stray.Packets != delivered+dropped+n.world.stray.Packets {
		t.Fatalf("%x: error %v, %d offered, %d delivered, %d dropped", in, err, offered, delivered, dropped)
	}
	if taken := offered + n.world.stray.Packets; valid != (taken == 1) {
		t.Fatalf("%x: counted %d times, error %v", in, taken, err)
	}
	known := valid && in[12] == 10 && in[13] == 1 && in[14] == 0 && (in[15] == 1 || in[15] == 2)
	routed := known && size <= MTU && bytes.Equal(in[16:20], []byte{10, 2, 0, 1})
	if routed != (to.received.len == 1) || known != (offered == 1) {
		t.Fatalf("%x: %d packets arrived, %d offered by a host", in, to.received.len, offered)
	}
	if routed {
		buf := make([]byte, 2*MTU)
		if k, err := to.Read(buf); err != nil || !bytes.Equal(buf[:k], in[:size]) {
			t.Fatalf("%x arrived as %x, %v", in, buf[:k], err)
		}
	}
}

// A flow is addresses and the ports of TCP and UDP; what does not say its ports has none.
func TestWireFlows(t *testing.T) {
	src, dst := netip.MustParseAddrPort("10.1.0.1:1000"), netip.MustParseAddrPort("10.2.0.1:2000")
	for _, tc := range []struct {
		name  string
		edit  func(p []byte)
		ports bool
	}{
		{"udp", func([]byte) {}, true},
		{"tcp", func(p []byte) { p[9] = protoTCP }, true},
		{"icmp", func(p []byte) { p[9] = 1 }, false},
		{"not to be fragmented", func(p []byte) { p[6] = 0x40 }, true},
		{"first fragment", func(p []byte) { p[6] = 0x20 }, false},
		{"later fragment", func(p []byte) { p[7] = 1 }, false},
		{"last fragment", func(p []byte) { p[6], p[7] = 0x1f, 0xff }, false},
		{"options", func(p []byte) { p[0]++; copy(p[24:], p[20:24]); clear(p[20:24]) }, true},
		{"header only", func(p []byte) { p[3] = 20 }, false},
		{"half the ports", func(p []byte) { p[3] = 23 }, false},
	} {
		p := IPv4(src, dst, 60)
		tc.edit(p)
		from, to, size, err := parseIPv4(p)
		want := [2]netip.AddrPort{netip.AddrPortFrom(src.Addr(), 0), netip.AddrPortFrom(dst.Addr(), 0)}
		if tc.ports {
			want = [2]netip.AddrPort{src, dst}
		}
		if got := [2]netip.AddrPort{from.addrPort(), to.addrPort()}; err != nil || got != want || size != int(p[3]) {
			t.Errorf("%s: %v of %d bytes, %v; want %v of %d", tc.name, got, size, err, want, p[3])
		}
	}
}
