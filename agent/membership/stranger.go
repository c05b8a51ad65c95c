package membership

import (
	"errors"
	"fmt"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
)

// A strangerError means that a host that this one calls is not of its cluster.
type strangerError struct {
	addr   string
	remote bool // the other one does not accept this host's certificate, not this host its
	err    error
}

func (e *strangerError) Error() string {
	why := "shows a certificate that this folder's cluster does not know"
	if e.remote {
		why = "does not accept this host's certificate"
	}
	return fmt.Sprintf("the host at %s %s (%v): is it of another cluster? Then join that one with its token and a --dir of its own", e.addr, why, e.err)
}

func (e *strangerError) Unwrap() error { return e.err }

// certificateAlerts are the TLS alerts by which an end says that it does not accept the
// other's certificate (RFC 8446 §6.2, §B.2); QUIC adds 0x100 (RFC 9001 §4.8).
var certificateAlerts = map[quic.TransportErrorCode]bool{
	0x100 + 42:  true, // bad certificate: what crypto/tls says where a check of our own fails
	0x100 + 43:  true, // unsupported
	0x100 + 44:  true, // revoked
	0x100 + 45:  true, // expired
	0x100 + 46:  true, // unknown
	0x100 + 48:  true, // unknown authority
	0x100 + 116: true, // certificate required
}

// stranger returns what err, of a stream to addr, says of the two ends' certificates, or nil.
func stranger(addr string, err error) *strangerError {
	var te *quic.TransportError
	switch {
	case errors.Is(err, lane.ErrWrongCluster):
		return &strangerError{addr: addr, err: err}
	case errors.As(err, &te) && certificateAlerts[te.ErrorCode]:
		return &strangerError{addr: addr, remote: te.Remote, err: te}
	}
	return nil
}

// refusedAt warns, once for each address, if a call failed because the two are of
// different clusters. Without it such a host would be alone and say nothing: that a host
// cannot be reached is daily bread, and not logged.
func (d *delegate) refusedAt(addr string, err error) {
	if s := stranger(addr, err); s != nil && d.once("stranger "+addr) {
		d.log.Warn("a host that should be a member is none, still trying", "addr", addr, "err", s)
	}
}
