package exchange

import (
	"sync/atomic"
	"time"
)

// Progress counts the bytes of a running part; it may be read at any time.
type Progress struct {
	Received atomic.Int64 // payload that is in its place
	Incoming atomic.Int64 // payload that the part receives in all; set when it starts
	Sent     atomic.Int64 // payload handed to the lanes, without what was sent again
}

// Stats tells what a finished part did. Byte counts are payload: no headers.
type Stats struct {
	Elapsed   time.Duration
	Peers     map[string]PeerStats // by host name
	Transfers []TransferStats      // sends, then receives, in the order of the part
	Relief
}

// A Relief tells of links that fell under way. What others gave back counts twice.
type Relief struct {
	Replanned int   // how often others took over a part of what this host had left
	Given     int64 // bytes that they took over
	Helping   int64 // bytes that this host took over from others
	Detoured  int64 // bytes that it sent by way of a third host, as the straight way had fallen or was broken
}

func (r *Relief) add(o Relief) {
	r.Replanned += o.Replanned
	r.Given += o.Given
	r.Helping += o.Helping
	r.Detoured += o.Detoured
}

// Relief returns the sum over all parts that have ended.
func (e *Engine) Relief() Relief {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.relief
}

// PeerStats tells what was exchanged with one host.
type PeerStats struct {
	Sent, Received int64 // bytes, each chunk counted once
	Resent         int64 // bytes sent another time after a stream broke
	Hedged         int64 // bytes sent another time because a lane was late, see hedge.go
	Duplicates     int64 // bytes that arrived another time and were dropped
	Broken         int   // streams to the host that ended before their time
	// Network is the time that lanes to the host spent writing, Starved the time in
	// which they had nothing to write though transfers were open: the data had not
	// arrived here, a synchronisation was outstanding, or the last bytes were not
	// confirmed yet. Each is the sum over the lanes.
	Network, Starved time.Duration
}

// plus returns both together.
func (s PeerStats) plus(o PeerStats) PeerStats {
	s.Sent += o.Sent
	s.Received += o.Received
	s.Resent += o.Resent
	s.Hedged += o.Hedged
	s.Duplicates += o.Duplicates
	s.Broken += o.Broken
	s.Network += o.Network
	s.Starved += o.Starved
	return s
}

// TransferStats tells when a transfer ran, from the start of the part. A send starts
// with its first chunk's write and ends when the receiver has confirmed it; a receive
// starts with its first frame and ends when its last block is verified.
type TransferStats struct {
	ID         int
	Src, Dst   string
	Bytes      int64
	Start, End time.Duration
}

// statistics is called when the run has ended, or landed: of a send that is not confirmed there is no end then.
func (x *run) statistics() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := Stats{Elapsed: time.Since(x.start), Peers: make(map[string]PeerStats, len(x.peers))}
	for name, p := range x.peers {
		st.Peers[name] = p.stats
	}
	for _, p := range x.helped {
		st.Peers[p.name] = st.Peers[p.name].plus(p.stats)
	}
	st.Relief = x.relief
	self := x.part.Hosts[x.part.Self]
	for _, s := range x.sends {
		st.Transfers = append(st.Transfers, TransferStats{ID: s.ID, Src: self, Dst: s.to.name, Bytes: x.bytes(s.Blocks), Start: s.start, End: s.end})
	}
	for _, r := range x.recvs {
		st.Transfers = append(st.Transfers, TransferStats{ID: r.ID, Src: r.from.name, Dst: self, Bytes: x.bytes(r.Blocks), Start: r.start, End: r.end})
	}
	return st
}

func (x *run) bytes(blocks []int) int64 {
	var n int64
	for _, b := range blocks {
		n += x.part.Blocks[b].Size
	}
	return n
}
