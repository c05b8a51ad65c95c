package lane

import "time"

const (
	// growEvery is how often a connection between sites has something to send until it knows how large its packets may be, and growTimes how often in all: four
	// probes take it from 1,280 bytes to an Ethernet's.
	growEvery = 8 * time.Second
	growTimes = 6
	// growRTT is from which round trip on that is worth it: nearer ones are through within their first operation's first milliseconds.
	growRTT = 2 * time.Millisecond
)

// grow has the packet sizes of l found out before its data come, until the returned function is called.
//
// Why it is here: quic-go probes for larger packets (RFC 8899) one at a time, five round trips after the one before, and only when it has something to send. A connection that rests
// between operations then has a packet of 1.4 kB beside the data of each of its first five: three pairs of hosts on a link of 1 Mbit/s took 0.28 s for 24 KiB, and 0.25 from
// the sixth operation on.
func (l *link) grow() (stop func()) {
	left := growTimes
	var timer *time.Timer
	ready := make(chan struct{}) // timer is set
	timer = time.AfterFunc(growEvery, func() {
		<-ready
		if left--; l.up.Err() != nil || l.conn.ConnectionStats().SmoothedRTT < growRTT {
			return
		}
		l.conn.SendDatagram(nil)
		if left > 0 {
			timer.Reset(growEvery)
		}
	})
	close(ready)
	return func() { timer.Stop() }
}
