package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NoSegmentation is quic-go's switch for generic segmentation offload (GSO), a variable of the environment.
const NoSegmentation = "QUIC_GO_DISABLE_GSO"

// CheckSegmentation sends three packets in one call over loopback, as quic-go does on Linux, and
// returns why they do not arrive as three. A kernel that says it can and cannot is known from
// the field: then QUIC hangs, so the caller sets QUIC_GO_DISABLE_GSO before the agent is made.
func CheckSegmentation() error {
	if off, err := strconv.ParseBool(os.Getenv(NoSegmentation)); err == nil && off {
		return errors.New("switched off by " + NoSegmentation)
	}
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer c.Close()
	const size, packets = 1200, 3
	want := make([]byte, size*packets)
	for i := range want {
		want[i] = byte(i / size)
	}
	if _, _, err := c.WriteMsgUDP(want, segmentSize(size), c.LocalAddr().(*net.UDPAddr)); err != nil {
		return fmt.Errorf("send with UDP_SEGMENT: %w", err)
	}
	buf := make([]byte, len(want)+1)
	c.SetReadDeadline(time.Now().Add(time.Second)) // loopback takes microseconds
	for i := range packets {
		n, err := c.Read(buf)
		if err != nil {
			return fmt.Errorf("packet %d of %d sent with UDP_SEGMENT: %w", i+1, packets, err)
		}
		if n != size || !bytes.Equal(buf[:n], want[i*size:(i+1)*size]) {
			return fmt.Errorf("packet %d of %d sent with UDP_SEGMENT has %d bytes or others than were sent, want %d", i+1, packets, n, size)
		}
	}
	return nil
}

// segmentSize is the control message that cuts what is sent into packets of n bytes.
func segmentSize(n uint16) []byte {
	b := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], n)
	return b
}
