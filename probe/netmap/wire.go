package netmap

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// The first bytes of messages, see [Map.Start] for the rest; batch.go has the form of what they
// carry. Big changes get another first byte; a receiver refuses one that it does not know.
const (
	requestForm = 4
	answerForm  = 5

	opHello = 0
	opNodes = 1
	opSwap  = 2
)

func appendUint64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }
func appendUint32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }
func uint32At(b []byte) uint32                 { return binary.BigEndian.Uint32(b) }

func (r *wireReader) uint64() uint64 {
	b := r.fixed(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func appendBatches(dst []byte, batches []*batch) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(batches)))
	for _, b := range batches {
		dst = binary.AppendUvarint(dst, uint64(len(b.raw)))
		dst = append(dst, b.raw...)
		dst = binary.AppendUvarint(dst, uint64(len(b.sig)))
		dst = append(dst, b.sig...)
	}
	return dst
}

// batches reads what appendBatches wrote. They share the memory of r.
func (r *wireReader) batches() ([]signed, error) {
	n := r.count("batches", 6)
	out := make([]signed, 0, n)
	for range n {
		out = append(out, signed{raw: r.bytes(maxBatchBytes), sig: r.bytes(maxSignature)})
	}
	return out, r.err
}

func appendNodes(dst []byte, nodes []node) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(nodes)))
	for _, n := range nodes {
		dst = append(dst, n.depth)
		dst = binary.BigEndian.AppendUint16(dst, n.prefix)
	}
	return dst
}

// nodes reads what appendNodes wrote; each node once, and all of the same depth, which
// bounds the answer.
func (r *wireReader) nodes() []node {
	n := r.count("nodes", 3)
	if n > MaxHosts {
		r.fail("%d nodes, more than %d", n, MaxHosts)
		return nil
	}
	out := make([]node, 0, n)
	for range n {
		b := r.fixed(3)
		if b == nil {
			return nil
		}
		x := node{b[0], binary.BigEndian.Uint16(b[1:])}
		i := len(out)
		if x.depth < 1 || x.depth > maxDepth || x.prefix&(1<<(16-quarter*x.depth)-1) != 0 ||
			i > 0 && (out[i-1].depth != x.depth || out[i-1].prefix >= x.prefix) {
			r.fail("node %d of depth %d is not in order", x.prefix, x.depth)
			return nil
		}
		out = append(out, x)
	}
	return out
}

func appendWants(dst []byte, wants []want) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(wants)))
	for _, w := range wants {
		dst = appendText(dst, w.name)
		dst = binary.AppendUvarint(dst, uint64(w.since))
	}
	return dst
}

// wants reads what appendWants wrote. A reporter that is named twice would have its rows
// sent twice, so names rise.
func (r *wireReader) wants() []want {
	n := r.count("wants", 3)
	out := make([]want, 0, min(n, MaxHosts))
	seen := make(map[string]bool, min(n, MaxHosts))
	for range n {
		w := want{name: r.text(maxName), since: Version(r.number(maxVersion))}
		if r.err == nil && (w.name == "" || seen[w.name] || len(out) >= MaxHosts) {
			r.fail("name %.40q is empty, named twice or one too many", w.name)
		}
		if r.err != nil {
			return nil
		}
		seen[w.name] = true
		out = append(out, w)
	}
	return out
}

// appendTips appends versions as differences from the newest: five bytes instead of eight.
func appendTips(dst []byte, tips []want) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(tips)))
	if len(tips) == 0 {
		return dst
	}
	newest := slices.MaxFunc(tips, func(a, b want) int { return cmp.Compare(a.since, b.since) }).since
	dst = binary.AppendUvarint(dst, uint64(newest))
	for _, t := range tips {
		dst = appendText(dst, t.name)
		dst = binary.AppendUvarint(dst, uint64(newest-t.since))
	}
	return dst
}

// tips reads what appendTips wrote.
func (r *wireReader) tips() []want {
	n := r.count("tips", 3)
	if n == 0 || r.err != nil {
		return nil
	}
	newest := r.number(maxVersion)
	out := make([]want, 0, min(n, MaxHosts))
	for range n {
		t := want{name: r.text(maxName)}
		t.since = Version(newest - r.number(newest))
		if r.err == nil && (len(out) >= MaxHosts || t.name == "" || len(out) > 0 && t.name <= out[len(out)-1].name) {
			r.fail("name %.40q is out of order or one too many", t.name)
		}
		if r.err != nil {
			return nil
		}
		out = append(out, t)
	}
	return out
}
