package lane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/quic-go/quic-go"
)

// What strangers can make an endpoint do at once.
const (
	// crowd is the number of handshakes in progress from which on a host must show
	// that it receives at the address it sends from, at the price of one more round trip
	// (QUIC's Retry, RFC 9000, §8.1.2). A handshake costs a signature and the memory of a
	// connection, which forged sources must not get for a packet each.
	crowd = 64
	// maxHandshakes are in progress at most; more are refused.
	maxHandshakes = 1024
	// maxJoins joins are served at a time, each holding at most 1.5 MiB that nobody
	// reads, and maxJoinsFrom of them from one IP address: one source must not keep all
	// others out.
	maxJoins     = 32
	maxJoinsFrom = 16
)

// TLS alerts (RFC 8446, §6.2), with which the dialing end says that it does not
// accept our certificate. QUIC adds 0x100 (RFC 9001, §4.8).
const (
	alertBadCertificate = 0x100 + 42
	alertUnknownCA      = 0x100 + 48
)

var errCrowded = errors.New("too many handshakes in progress")

// A door counts who stands in front of the endpoint. The zero value is ready to use.
type door struct {
	mu       sync.Mutex // guards the fields below
	waiting  int        // handshakes in progress
	joining  int
	joinFrom map[netip.Addr]int
}

// A visitor is one incoming connection, from its first packet on. The context of the
// connection holds it.
type visitor struct {
	from   net.Addr
	passed bool // guarded by the door's lock
}

type visitorKey struct{}

// crowded reports whether newcomers must show that they receive at their address.
func (d *door) crowded() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting >= crowd
}

// knock counts a handshake, until pass or gone.
func (d *door) knock(from net.Addr) (*visitor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting >= maxHandshakes {
		return nil, errCrowded
	}
	d.waiting++
	return &visitor{from: from}, nil
}

// pass notes that the handshake of conn is complete.
func (d *door) pass(conn *quic.Conn) {
	v, ok := conn.Context().Value(visitorKey{}).(*visitor)
	if ok {
		d.gone(v)
	}
}

// gone takes v off the handshakes in progress. It returns false if it was not among them.
func (d *door) gone(v *visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.passed {
		return false
	}
	v.passed = true
	d.waiting--
	return true
}

// enter counts a join from an address whose handshake is complete, so that it is true.
// It returns false if there are too many; otherwise leave must follow.
func (d *door) enter(from net.Addr) bool {
	ap, _ := addrPort(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.joining >= maxJoins || d.joinFrom[ap.Addr()] >= maxJoinsFrom {
		return false
	}
	if d.joinFrom == nil {
		d.joinFrom = make(map[netip.Addr]int)
	}
	d.joining++
	d.joinFrom[ap.Addr()]++
	return true
}

func (d *door) leave(from net.Addr) {
	ap, _ := addrPort(from)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.joining--
	if d.joinFrom[ap.Addr()]--; d.joinFrom[ap.Addr()] == 0 {
		delete(d.joinFrom, ap.Addr())
	}
}

// arrive is quic.Transport.ConnContext: it sees every incoming connection before its handshake.
func (e *Endpoint) arrive(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	v, err := e.door.knock(info.RemoteAddr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		if e.door.gone(v) {
			e.turnedAway(v, context.Cause(ctx))
		}
	})
	return context.WithValue(ctx, visitorKey{}, v), nil
}

// turnedAway is told why a handshake has failed. That our own check of the certificate
// has refused it, serverTLS says; that the other end has refused ours shows only here.
func (e *Endpoint) turnedAway(v *visitor, cause error) {
	var te *quic.TransportError
	if !errors.As(cause, &te) || !te.Remote {
		return
	}
	if te.ErrorCode != alertBadCertificate && te.ErrorCode != alertUnknownCA {
		return
	}
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if !closed { // Run may have returned
		e.cfg.Refused(v.from, fmt.Errorf("%w: %w", errDialerRefused, cause))
	}
}
