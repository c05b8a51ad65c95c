package lane

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TLS can use no part of a record before all of it is there. A record of 16 KiB is eleven packets, and on a network of 100 Mbit/s each of them would
// wake the reader, who can do nothing with it. So the reader tells the kernel how much of a record is missing when it has to wait for it (SO_RCVLOWAT).
const (
	recordHead = 5 // bytes: type, version, and the length of what follows (RFC 8446, section 5.1)
	// leastMissing is how much must be missing for that: some packets.
	leastMissing = 4 << 10
	mostMissing  = maxRecord + 256 // a record has no more (section 5.2)
)

// records follows the records of a stream of TLS.
type records struct {
	head [recordHead]byte
	have int // bytes of head that have passed
	left int // bytes of the record that have not
	told int // what the kernel was told to wait for; 0: nothing yet, which is 1
}

// passed notes that b is what comes next.
func (r *records) passed(b []byte) {
	for len(b) > 0 {
		if r.left > 0 {
			n := min(r.left, len(b))
			r.left, b = r.left-n, b[n:]
			continue
		}
		n := copy(r.head[r.have:], b)
		r.have, b = r.have+n, b[n:]
		if r.have == recordHead {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.head[recordHead-2:]))
		}
	}
}

// await tells the kernel for how many bytes a reader of fd waits that has found none.
func (r *records) await(fd uintptr) {
	want := 1
	if r.left >= leastMissing {
		want = min(r.left, mostMissing)
	}
	if want == max(r.told, 1) {
		return
	}
	low := int32(want)
	_, _, errno := unix.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, uintptr(unsafe.Pointer(&low)), unsafe.Sizeof(low), 0)
	if errno == 0 {
		r.told = want
	}
}
