package identity

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The join protocol: on a stream of kind lane.StreamJoin the client sends one
// [JoinRequest], the seed answers with one [JoinResponse] and closes. A message is a
// length, 4 bytes big endian, and that many bytes of JSON.
const (
	joinVersion = 1
	// maxMessage bounds a message: the answer carries two certificates of about 1 KiB
	// and up to maxMembers addresses.
	maxMessage = 64 << 10
	maxMembers = 512
)

// A JoinRequest asks for a host certificate.
type JoinRequest struct {
	Version   int    `json:"version"`
	TokenID   string `json:"token_id"`
	Secret    []byte `json:"secret"`
	CSR       []byte `json:"csr"` // PKCS #10, DER; its signature proves that the host has the key
	Name      string `json:"name"`
	Site      string `json:"site,omitempty"`
	Advertise string `json:"advertise,omitempty"` // IP:PORT
}

// A JoinResponse admits a host, or says why not.
type JoinResponse struct {
	Version    int      `json:"version"`
	Refused    *Refusal `json:"refused,omitempty"` // if set, nothing below is
	Cluster    string   `json:"cluster,omitempty"`
	ClusterID  string   `json:"cluster_id,omitempty"`
	Chain      [][]byte `json:"chain,omitempty"` // DER, leaf first, authority last
	GossipKeys [][]byte `json:"gossip_keys,omitempty"`
	Members    []string `json:"members,omitempty"`  // IP:PORT of hosts to join
	Observed   string   `json:"observed,omitempty"` // IP:PORT from which the request came
}

// A RefusalCode says why a request was refused, for programs.
type RefusalCode string

// The codes. Others may come from newer seeds.
const (
	RefusedRequest     RefusalCode = "bad-request"
	RefusedUnknown     RefusalCode = "token-unknown"
	RefusedExpired     RefusalCode = "token-expired"
	RefusedRevoked     RefusalCode = "token-revoked"
	RefusedUsedUp      RefusalCode = "token-used-up"
	RefusedName        RefusalCode = "name-taken"
	RefusedNoAuthority RefusalCode = "no-authority"
	RefusedTooMany     RefusalCode = "too-many-attempts"
	RefusedInternal    RefusalCode = "internal"
)

// A Refusal is a seed's reason, as an error. errors.Is finds [ErrTokenUnknown],
// [ErrTokenRevoked], [ErrTokenUsedUp], [ErrTokenExpired] and [ErrNameTaken] in it.
type Refusal struct {
	Code    RefusalCode `json:"code"`
	Message string      `json:"message"` // for people
}

func (r *Refusal) Error() string { return r.Message }

// Is matches the sentinel that belongs to the code.
func (r *Refusal) Is(target error) bool {
	switch r.Code {
	case RefusedUnknown:
		return target == ErrTokenUnknown
	case RefusedExpired:
		return target == ErrTokenExpired
	case RefusedRevoked:
		return target == ErrTokenRevoked
	case RefusedUsedUp:
		return target == ErrTokenUsedUp
	case RefusedName:
		return target == ErrNameTaken
	}
	return false
}

// final reports whether every seed would give the same answer.
func (r *Refusal) final() bool {
	switch r.Code {
	case RefusedNoAuthority, RefusedTooMany, RefusedInternal:
		return false
	}
	return true
}

// ErrNameTaken means that another host has the name.
var ErrNameTaken = errors.New("host name is taken")

func refuse(code RefusalCode, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// writeMessage sends v.
func writeMessage(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("message has %d bytes, at most %d are allowed", len(body), maxMessage)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

// readMessage receives one message into v. It allocates what arrives, not what the
// length claims.
func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return fmt.Errorf("message claims %d bytes, at most %d are allowed", n, maxMessage)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if len(body) < int(n) {
		return fmt.Errorf("message ends after %d of %d bytes: %w", len(body), n, io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}
