package gridnet

import (
	"encoding/binary"
	"net/netip"
)

// IPv4 makes a packet of size bytes, all headers included, for tests in this folder.
func IPv4(src, dst netip.AddrPort, size int) []byte {
	b := make([]byte, size)
	from, to := src.Addr().As4(), dst.Addr().As4()
	b[0], b[8], b[9] = 4<<4|5, 64, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	copy(b[12:], from[:])
	copy(b[16:], to[:])
	if size >= HeaderBytes {
		binary.BigEndian.PutUint16(b[20:], src.Port())
		binary.BigEndian.PutUint16(b[22:], dst.Port())
		binary.BigEndian.PutUint16(b[24:], uint16(size-minIPv4))
	}
	return b
}
