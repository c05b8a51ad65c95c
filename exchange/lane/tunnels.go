package lane

import (
	"bufio"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxTunnels is how many tunnels there are between this host and one UDP address; the oldest makes room.
	maxTunnels = 4
	// maxOfMember is how many one member may have. It claims a port, and could claim others than its own.
	maxOfMember = 8
	// maxStrangers is how many hosts without a certificate may have one at a time, as many as may join, and maxStrangersFrom those at one IP address.
	maxStrangers, maxStrangersFrom = maxJoins, maxJoinsFrom
	// maxDoubts is how many hosts' UDP is doubted at a time: a host that has lost its own network has no use for more.
	maxDoubts = 256
	// tunnelBacklog is how many datagrams of all tunnels wait for whoever reads.
	tunnelBacklog = 512
)

// tunnels are those of an endpoint, as a socket: datagrams to an address go into the newest tunnel there, and what
// comes out of a tunnel is from its address.
type tunnels struct {
	local net.Addr
	in    chan parcel
	some  atomic.Int32 // how many there are

	mu        sync.Mutex // guards the fields below; never held over I/O
	to        map[netip.AddrPort][]*tunnel
	doubts    map[netip.AddrPort]time.Time // when UDP to a host was doubted last
	asked     map[string]question          // by token
	closed    chan struct{}
	interrupt chan struct{} // closed: a deadline for reading has passed

	tasks sync.WaitGroup
}

var _ net.PacketConn = (*tunnels)(nil)

// A parcel is one datagram that has come through a tunnel.
type parcel struct {
	data []byte
	from netip.AddrPort
}

// A question is whether UDP gets through to a host.
type question struct {
	to       netip.AddrPort
	answered chan struct{} // is written to once
}

// newTunnels returns none yet, for the host whose UDP socket is at local.
func newTunnels(local net.Addr) *tunnels {
	return &tunnels{
		local: local, in: make(chan parcel, tunnelBacklog), to: make(map[netip.AddrPort][]*tunnel), doubts: make(map[netip.AddrPort]time.Time), asked: make(map[string]question),
		closed: make(chan struct{}), interrupt: make(chan struct{}),
	}
}

// add takes t in and has it served until it ends, which ended is told. r holds what was read already. It returns false if there is no
// room for t: a stranger must not take the place of a member, nor many that of all.
func (ts *tunnels) add(t *tunnel, r *bufio.Reader, ended func(t *tunnel, why error)) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	select {
	case <-ts.closed:
		return false
	default:
	}
	old := ts.to[t.addr]
	alike, strangers := ts.count(t)
	switch {
	case t.member != "" && alike >= maxOfMember:
		return false
	case t.member == "" && (strangers >= maxStrangers || alike >= maxStrangersFrom):
		return false
	case slices.ContainsFunc(old, func(o *tunnel) bool { return o.member != "" && o.member != t.member }):
		return false // another's address
	}
	if len(old) >= maxTunnels {
		old[0].close() // whoever reads it removes it
	}
	ts.to[t.addr] = append(old, t)
	ts.some.Add(1)
	ts.tasks.Go(t.write)
	ts.tasks.Go(func() {
		err := t.read(r, func(p []byte) {
			select {
			case ts.in <- parcel{data: slices.Clone(p), from: t.addr}:
			default: // lost, as in a full socket buffer
			}
		})
		ts.remove(t)
		ended(t, err)
	})
	return true
}

// count returns how many tunnels are of the same member as t, or, if t is a stranger's, of strangers at the same IP address; and of all strangers. It needs ts.mu.
func (ts *tunnels) count(t *tunnel) (alike, strangers int) {
	for addr, to := range ts.to {
		for _, o := range to {
			if o.member == "" {
				strangers++
			}
			if o.member == t.member && (t.member != "" || addr.Addr() == t.addr.Addr()) {
				alike++
			}
		}
	}
	return alike, strangers
}

func (ts *tunnels) remove(t *tunnel) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.to[t.addr] = slices.DeleteFunc(ts.to[t.addr], func(o *tunnel) bool { return o == t }); len(ts.to[t.addr]) == 0 {
		delete(ts.to, t.addr)
	}
	ts.some.Add(-1)
}

// find returns the newest tunnel to a that lives, or nil.
func (ts *tunnels) find(a net.Addr) *tunnel {
	if ts == nil || ts.some.Load() == 0 {
		return nil
	}
	ap, ok := addrPort(a)
	if !ok {
		return nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range slices.Backward(ts.to[ap]) {
		select {
		case <-t.done:
		default:
			return t
		}
	}
	return nil
}

// instead returns the member's tunnel that carries what is for a in place of UDP, or nil.
func (ts *tunnels) instead(a net.Addr) *tunnel {
	if t := ts.find(a); t != nil && t.member != "" && !t.over.Load() {
		return t
	}
	return nil
}

// members returns the newest tunnel of each member that has one in use.
func (ts *tunnels) members() []*tunnel {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var out []*tunnel
	for _, to := range ts.to {
		for _, t := range slices.Backward(to) {
			if t.member != "" && !t.over.Load() {
				out = append(out, t)
				break
			}
		}
	}
	return out
}

// doubt notes that UDP to a is doubted. It returns false if that was so just before.
func (ts *tunnels) doubt(a net.Addr, now time.Time) bool {
	ap, ok := addrPort(a)
	if !ok {
		return false
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	maps.DeleteFunc(ts.doubts, func(_ netip.AddrPort, at time.Time) bool { return now.Sub(at) >= doubtPause })
	if _, ok := ts.doubts[ap]; ok || len(ts.doubts) >= maxDoubts {
		return false
	}
	ts.doubts[ap] = now
	return true
}

// ask notes a question, which is open until forget.
func (ts *tunnels) ask(token string, to netip.AddrPort) question {
	q := question{to: to, answered: make(chan struct{}, 1)}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.asked[token] = q
	return q
}

func (ts *tunnels) forget(token string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.asked, token)
}

// answer is told of a token that came back over UDP.
func (ts *tunnels) answer(token string, from net.Addr) {
	ap, _ := addrPort(from)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	q, ok := ts.asked[token]
	if !ok || q.to != ap {
		return
	}
	select {
	case q.answered <- struct{}{}:
	default:
	}
}

// ReadFrom returns the next datagram of any tunnel.
func (ts *tunnels) ReadFrom(b []byte) (int, net.Addr, error) {
	ts.mu.Lock()
	interrupt := ts.interrupt
	ts.mu.Unlock()
	select {
	case p := <-ts.in:
		return copy(b, p.data), net.UDPAddrFromAddrPort(p.from), nil
	case <-interrupt:
		return 0, nil, os.ErrDeadlineExceeded
	case <-ts.closed:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo sends b through the tunnel to a. Where there is none any more that is an error, so that connections in it end at once.
func (ts *tunnels) WriteTo(b []byte, a net.Addr) (int, error) {
	t := ts.find(a)
	if t == nil {
		return 0, &net.OpError{Op: "write", Net: "tunnel", Addr: a, Err: net.ErrClosed}
	}
	t.send(b)
	return len(b), nil
}

// LocalAddr is where this host's UDP socket is.
func (ts *tunnels) LocalAddr() net.Addr { return ts.local }

// Close ends all tunnels, when what waits there has gone, and takes no more. It is called once.
func (ts *tunnels) Close() error {
	ts.mu.Lock()
	close(ts.closed)
	for _, to := range ts.to {
		for _, t := range to {
			t.finish()
		}
	}
	ts.mu.Unlock()
	ts.tasks.Wait()
	return nil
}

// SetReadDeadline knows two deadlines: one that has passed, and none.
func (ts *tunnels) SetReadDeadline(at time.Time) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	passed := false
	select {
	case <-ts.interrupt:
		passed = true
	default:
	}
	switch want := !at.IsZero() && !at.After(time.Now()); {
	case want && !passed:
		close(ts.interrupt)
	case !want && passed:
		ts.interrupt = make(chan struct{})
	}
	return nil
}

// SetWriteDeadline does nothing: writing does not block.
func (ts *tunnels) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is that of reading.
func (ts *tunnels) SetDeadline(at time.Time) error { return ts.SetReadDeadline(at) }

// SetReadBuffer and SetWriteBuffer are asked for by quic-go; each tunnel has queues of its own.
func (ts *tunnels) SetReadBuffer(int) error  { return nil }
func (ts *tunnels) SetWriteBuffer(int) error { return nil }
