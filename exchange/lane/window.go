package lane

import (
	"sync"

	"github.com/quic-go/quic-go"
)

// Receive windows, in bytes. They begin small and quic-go doubles them while a
// connection consumes more than half of its window within two round trips.
const (
	// initialStreamWindow and initialConnWindow are held by every connection without
	// asking the budget; on a LAN (100 µs) they never need to grow.
	initialStreamWindow = 1 << 20
	initialConnWindow   = 3 << 19
	// defaultWindow is ten times the bandwidth-delay product of 1 Gbit/s over 100 ms,
	// although quic-go's congestion window ends at 10,000 packets, 12.8 MB. The reason is
	// in quic-go (0.65): its pacer counts acknowledgements, and those of a fast one-way
	// flow exceed the pace of an end that sends little else, from about 300 Mbit/s at
	// 100 ms on. That end may then send nothing but acknowledgements, so window updates
	// wait until the window is used up, and each window costs one idle round trip.
	// Measured on that path with windows of 8, 16, 32, 64, 128 MiB: 444, 479, 656, 750,
	// 808 Mbit/s. Slower flows, as each of several lanes is, are not affected.
	defaultWindow = 128 << 20
	defaultBudget = 256 << 20
)

// A budget bounds the sum of what the receive windows of an endpoint's connections
// have grown by. Windows never shrink, so a share lasts as long as its connection.
//
// A connection may hold half of what is left over, not more: so the first ones get what
// they ask for, and those that come when little is left still get something. (It is the
// rule of dynamic queue length thresholds, Choudhury & Hahne, IEEE/ACM Trans. Networking
// 6(2), 1998, with α = 1/2.)
type budget struct {
	mu    sync.Mutex // guards the fields below; taken under quic-go's locks, so nothing of quic-go may be called under it
	left  uint64
	given map[*quic.Conn]uint64 // of members' connections only
}

func newBudget(total uint64) *budget {
	return &budget{left: total, given: make(map[*quic.Conn]uint64)}
}

// admit makes a connection one that may ask.
func (b *budget) admit(c *quic.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.given[c]; !ok {
		b.given[c] = 0
	}
}

// release gives back what a connection that has ended held.
func (b *budget) release(c *quic.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += b.given[c]
	delete(b.given, c)
}

// grow reports whether the window of c may grow by delta bytes. A connection that was
// not admitted (a stranger's that joins) or has been released gets nothing. It is
// quic.Config.AllowConnectionWindowIncrease.
func (b *budget) grow(c *quic.Conn, delta uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	held, ok := b.given[c]
	if !ok || delta > b.left/2 || held > b.left/2-delta {
		return false
	}
	b.given[c] = held + delta
	b.left -= delta
	return true
}
