package membership

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// maxRefused bounds the sources that are remembered, and so the lines logged. Source
// addresses of datagrams can be forged, so it must hold against a flood.
const maxRefused = 1024

// A Refusal counts the gossip packets refused from one source.
type Refusal struct {
	From    netip.AddrPort // as the packets claim; the zero value stands for all sources after the first 1,024
	Packets uint64
	First   time.Time
	Last    time.Time
}

// refusals counts refused packets per source. The zero value is not usable.
type refusals struct {
	log *slog.Logger

	mu   sync.Mutex // guards from
	from map[netip.AddrPort]*Refusal
}

// add counts a packet, and logs the first one of a source. Later sources than the
// first maxRefused are counted together: making room would let a flood of forged
// sources wipe out the one that matters.
func (r *refusals) add(from net.Addr, reason string, at time.Time) {
	key := addrPort(from)
	r.mu.Lock()
	e := r.from[key]
	if e == nil && len(r.from) >= maxRefused {
		key = netip.AddrPort{}
		e = r.from[key]
	}
	first := e == nil
	if first {
		e = &Refusal{From: key, First: at}
		r.from[key] = e
	}
	e.Packets++
	e.Last = at
	r.mu.Unlock()
	if first {
		r.log.Warn("gossip refused", "from", from, "reason", reason)
	}
}

func (r *refusals) list() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Refusal, 0, len(r.from))
	for _, e := range r.from {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(a.From.Addr().Compare(b.From.Addr()), cmp.Compare(a.From.Port(), b.From.Port()))
	})
	return out
}

// Why a packet is refused.
const (
	reasonMalformed = "not encrypted gossip"
	reasonForeign   = "encrypted with another cluster's key, or with one that was rotated away"
)

// The layout of an encrypted gossip packet: version, nonce, ciphertext with tag.
const (
	sealVersion = 1
	sealNonce   = 12
	sealTag     = 16
)

// foreign returns why packet p cannot be gossip of a cluster with these keys, or "", and
// whether it asks for a probe on another host's behalf.
//
// memberlist would find the same, and say so in the text of a log line. Trying the
// keys here costs a second decryption (about a microsecond a packet, at tens of
// packets a second) and gives counts per source that do not depend on that text;
// and no byte of a stranger reaches memberlist's queue and parsers.
func foreign(p []byte, keys [][]byte) (why string, relay bool) {
	if len(p) < 1+sealNonce+sealTag || p[0] != sealVersion {
		return reasonMalformed, false
	}
	nonce, sealed := p[1:1+sealNonce], p[1+sealNonce:]
	var plain [2048]byte // the endpoint's packets are not larger
	for _, k := range keys {
		block, err := aes.NewCipher(k)
		if err != nil {
			continue // the keyring holds checked keys only
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			continue
		}
		if open, err := gcm.Open(plain[:0], nonce, sealed, nil); err == nil {
			return "", asksForProbe(open)
		}
	}
	return reasonForeign, false
}

// Bytes that begin messages of memberlist's protocol, which fixes them.
const (
	wireIndirectPing = 1
	wireCompound     = 7  // number of parts as a byte, their lengths as 2 bytes each, the parts
	wireChecksum     = 12 // 4 bytes of checksum, then the message
)

// asksForProbe reports whether the packet p, decrypted, holds an indirect ping.
func asksForProbe(p []byte) bool {
	if len(p) > 5 && p[0] == wireChecksum {
		p = p[5:]
	}
	if len(p) < 2 || p[0] != wireCompound {
		return len(p) > 0 && p[0] == wireIndirectPing
	}
	n := int(p[1])
	lengths, parts := p[2:], p[min(len(p), 2+2*n):]
	for range n {
		if len(lengths) < 2 || len(parts) == 0 {
			return false
		}
		if parts[0] == wireIndirectPing {
			return true
		}
		size := int(lengths[0])<<8 | int(lengths[1])
		lengths, parts = lengths[2:], parts[min(len(parts), size):]
	}
	return false
}
