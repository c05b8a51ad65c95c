package lane

import (
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// What can be read of a TCP connection has not just arrived: behind a lost segment the others wait until it has come again, and then all are
// read at once. On a link that loses 2 % of its packets twice what it carries was read in half a second, and who took that for what it carries
// planned for as much. The kernel counts segments as they come, in whatever order.

// arrivedTCP counts the bytes that have arrived on a connection. The zero value has seen none.
type arrivedTCP struct {
	mu   sync.Mutex // guards the fields below
	last arrivals
	sum  uint64
}

// arrivals are what the kernel counts of a connection.
type arrivals struct {
	read    uint64 // bytes that can be read, or were
	segs    uint32 // segments with data; wraps
	early   uint32 // those that came before one that was sent before them; wraps
	segment uint32 // bytes of the longest
}

func arrivalsOf(i *unix.TCPInfo) arrivals {
	return arrivals{read: i.Bytes_received, segs: i.Data_segs_in, early: i.Rcv_ooopack, segment: i.Rcv_mss}
}

// since returns how many bytes have come since before: what can be read more, where all came in order, and else full segments.
func (a arrivals) since(before arrivals) uint64 {
	read, full := a.read-before.read, uint64(a.segs-before.segs)*uint64(a.segment)
	if a.early == before.early {
		return min(read, full)
	}
	return full
}

// arrived returns how many bytes have come over c, of which fewer may have been read. Where the kernel cannot be asked, those are all.
func (c *tcpConn) arrived() uint64 {
	a := &c.came
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := c.raw.(*rawTCP)
	if !ok {
		return c.received.Load()
	}
	if i, ok := t.info(); ok { // else it is closed
		now := arrivalsOf(&i)
		a.sum += now.since(a.last)
		a.last = now
	}
	return a.sum
}

// arrived returns how many bytes have come from the member called name over TCP since the endpoint began.
func (t *tcpLanes) arrived(name string) uint64 {
	t.mu.Lock()
	sum, cs := t.came[name], slices.Collect(maps.Keys(t.conns[name]))
	t.mu.Unlock()
	for _, c := range cs {
		sum += c.arrived()
	}
	return sum
}
