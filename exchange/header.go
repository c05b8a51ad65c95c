package exchange

import (
	"encoding/binary"
	"fmt"
)

// A header opens a data stream.
type header struct {
	id   ID
	lane int
	host string // of byLane and fromLane
}

func (h header) appendTo(dst []byte) []byte {
	dst = append(dst, wireVersion)
	dst = append(dst, h.id[:]...)
	dst = binary.AppendUvarint(dst, uint64(h.lane))
	if h.lane > newsLane {
		dst = binary.AppendUvarint(dst, uint64(len(h.host)))
		dst = append(dst, h.host...)
	}
	return dst
}

func (r frameReader) header() (header, error) {
	var h header
	v, err := r.br.ReadByte()
	if err != nil {
		return h, err
	}
	if v != wireVersion {
		return h, fmt.Errorf("%w: version %d, want %d", errMalformed, v, wireVersion)
	}
	if err := r.full(h.id[:]); err != nil {
		return h, err
	}
	if h.lane, err = r.uvarint(); err != nil {
		return h, err
	}
	if h.lane <= newsLane {
		return h, nil
	}
	if h.lane > fromLane {
		return h, fmt.Errorf("%w: lane %d, want at most %d", errMalformed, h.lane, fromLane)
	}
	n, err := r.uvarint()
	if err != nil {
		return h, err
	}
	if n < 1 || n > maxName {
		return h, fmt.Errorf("%w: a host's name of %d bytes, want 1 to %d", errMalformed, n, maxName)
	}
	name := make([]byte, n)
	if err := r.full(name); err != nil {
		return h, err
	}
	h.host = string(name)
	return h, nil
}
