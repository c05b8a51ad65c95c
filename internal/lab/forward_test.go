package lab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// fakeTap returns a file that is like a TAP's, and the kernel's end of it: two UDP sockets that are connected.
func fakeTap(t *testing.T) (tap, kernel *os.File) {
	t.Helper()
	var fds [2]int
	var addrs [2]unix.Sockaddr
	for i := range fds {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds[i] = fd
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		if addrs[i], err = unix.Getsockname(fd); err != nil {
			t.Fatal(err)
		}
	}
	for i, fd := range fds {
		if err := unix.Connect(fd, addrs[1-i]); err != nil {
			t.Fatal(err)
		}
	}
	tap, err := unwatched(os.NewFile(uintptr(fds[0]), "tap"))
	if err != nil {
		t.Fatal(err)
	}
	kernel = os.NewFile(uintptr(fds[1]), "kernel")
	t.Cleanup(func() { tap.Close(); kernel.Close() })
	return tap, kernel
}

// packetFrame is a frame from host a0 to b0 that carries a number.
func packetFrame(number int) []byte {
	b := make([]byte, frameHeader+60)
	copy(b, mac(gateway(0)))
	copy(b[6:], mac(netip.MustParseAddr("10.1.0.1")))
	b[12] = 0x08
	ip := b[frameHeader:]
	ip[0], ip[3], ip[9] = 4<<4|5, 60, 17
	copy(ip[12:], []byte{10, 1, 0, 1})
	copy(ip[16:], []byte{10, 2, 0, 1})
	binary.BigEndian.PutUint32(ip[28:], uint32(number))
	return b
}

// One goroutine carries all packets, in their order, whether they come singly or as a flood, after pauses and when a link changes.
func TestForward(t *testing.T) {
	cfg := gridnet.Config{
		Sites: []gridnet.Site{{Name: "a", Hosts: []string{"a0"}}, {Name: "b", Hosts: []string{"b0"}}},
		Links: []gridnet.Link{{From: "a", To: "b", Latency: time.Millisecond, Queue: 1000}},
	}
	tapA, a := fakeTap(t)
	tapB, b := fakeTap(t)
	f, err := forward(cfg, []*os.File{tapA, tapB}, t.Errorf)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	send := func(n int) {
		t.Helper()
		for range n {
			if _, err := a.Write(packetFrame(next)); err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	come := 0
	expect := func(n int) {
		t.Helper()
		buf := make([]byte, 2048)
		for range n {
			if err := b.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			k, err := b.Read(buf)
			if err != nil {
				t.Fatalf("packet %d: %v", come, err)
			}
			want := packetFrame(come)
			copy(want, mac(netip.MustParseAddr("10.2.0.1")))
			copy(want[6:], mac(gateway(1)))
			if !bytes.Equal(buf[:k], want) {
				t.Fatalf("packet %d came as\n%x, want\n%x", come, buf[:k], want)
			}
			come++
		}
	}
	for range 3 {
		send(1)
		expect(1)
	}
	// Of no host's concern, or no IPv4 inside.
	arp := packetFrame(0)
	arp[13] = 0x06
	group := packetFrame(0)
	group[0] |= 1
	odd := packetFrame(0)
	odd[frameHeader] = 0x60
	for _, frame := range [][]byte{arp, group, odd, arp[:5]} {
		if _, err := a.Write(frame); err != nil {
			t.Fatal(err)
		}
	}
	const flood = turnPackets + 20
	for range 4 {
		send(flood)
		expect(flood)
	}
	// It sleeps for a minute over this one, unless a change of the link wakes it.
	if err := f.net.SetLink("a", "b", func(l *gridnet.Link) { l.Rate = 1 }); err != nil {
		t.Fatal(err)
	}
	send(1)
	if err := b.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 2048)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want nothing yet", n, err)
	}
	if err := f.net.SetLink("a", "b", func(l *gridnet.Link) { l.Rate = gridnet.Mbps }); err != nil {
		t.Fatal(err)
	}
	expect(1)
	if l := f.net.Stats().Late; l.Packets != uint64(come) {
		t.Errorf("%d packets were handed over, %d came", l.Packets, come)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
	send(1) // the TAPs are still open
	if n, err := tapA.Read(make([]byte, 2048)); n != frameHeader+60 || err != nil {
		t.Errorf("read %d bytes from a TAP afterwards, %v", n, err)
	}
}
