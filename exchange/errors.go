package exchange

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Sentinels that callers branch on.
var (
	// ErrRunning means that a part of this exchange is or was already run here.
	ErrRunning = errors.New("exchange has already been started here")
	// ErrTransit means that a part forwards more bytes than [Config.MaxTransit].
	ErrTransit = errors.New("not enough transit memory")
)

// An ID names one exchange. It is random: no two exchanges of a cluster share one.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// A TransferError says which transfer of a running plan failed, and on whose side.
type TransferError struct {
	Transfer int    // Transfer.ID in the plan; -1 where no single transfer is to blame
	Src, Dst string // host names
	Remote   bool   // the peer gave up, not this host
	Err      error
}

func (e *TransferError) Error() string {
	side := "here"
	if e.Remote {
		side = "at the peer"
	}
	if e.Transfer < 0 {
		return fmt.Sprintf("transfers %s→%s failed %s: %v", e.Src, e.Dst, side, e.Err)
	}
	return fmt.Sprintf("transfer %d (%s→%s) failed %s: %v", e.Transfer, e.Src, e.Dst, side, e.Err)
}

func (e *TransferError) Unwrap() error { return e.Err }

// A ChecksumError means that a block is whole but is not what its origin sent.
type ChecksumError struct {
	Origin    string // host that computed the checksum
	From      string // host that delivered the block to this one
	Block     Block
	Want, Got uint64
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("block of %s (%d bytes, delivered by %s): checksum %016x, its origin sent %016x",
		e.Origin, e.Block.Size, e.From, e.Got, e.Want)
}

// A ProtocolError means that a peer sent what no engine sends: a malformed frame, a
// block that the plan does not give it, too many bytes.
type ProtocolError struct {
	Peer   string
	Reason string
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("protocol error by %s: %s", e.Peer, e.Reason)
}

// A PeerError is the reason that a peer gave for ending its part.
type PeerError struct {
	Peer   string
	Reason string // the peer's words, at most 512 bytes; begins with the host where it all began
}

func (e *PeerError) Error() string { return fmt.Sprintf("%s gave up: %s", e.Peer, e.Reason) }

// reason returns what peers are told when a part fails at self. What another peer has
// said is passed on as it is: wrapped once more by every host on its way around a
// ring, the first cause would be lost in the frames.
func reason(self string, err error) string {
	var pe *PeerError
	if errors.As(err, &pe) {
		return pe.Reason
	}
	return self + ": " + err.Error()
}
