package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// traffic says what this host exchanged in the operation.
func (e *eager) traffic() (t Transferred) {
	hosts := make(map[string]*PeerTraffic)
	at := func(h string) *PeerTraffic {
		if hosts[h] == nil {
			hosts[h] = &PeerTraffic{Host: h}
		}
		return hosts[h]
	}
	for h, n := range e.sent {
		at(h).Sent = n
		t.Sent += n
	}
	for h, n := range e.got {
		at(h).Received = n
		t.Received += n
	}
	for _, p := range hosts {
		if p.Sent+p.Received > 0 {
			t.Peers = append(t.Peers, *p)
		}
	}
	slices.SortFunc(t.Peers, func(a, b PeerTraffic) int { return strings.Compare(a.Host, b.Host) })
	return t
}

// needed is how many bytes this host had to get, which is fewer than it got where blocks of an alltoall went by way of it.
func (m *member) needed(e *eager, res *result) (n int64) {
	if e.terms.Collective != plan.Alltoall {
		return res.transfer.Received
	}
	for _, d := range m.own {
		for s, size := range res.views[d].sizes {
			if m.at[s] != m.self {
				n += size
			}
		}
	}
	return n
}

// gather makes the results of this host's ranks of all items.
func (m *member) gather(seq uint64, e *eager) (*result, error) {
	res := &result{views: make(map[int]view)}
	n := len(m.roster)
	fill := func(pieces [][]byte) (view, error) {
		v := view{sizes: make([]int64, n)}
		var total int64
		for s, p := range pieces {
			v.sizes[s] = int64(len(p))
			total += int64(len(p))
		}
		buf, err := m.alloc(seq, total)
		if err != nil {
			return v, err
		}
		v.buf = buf
		res.bufs = append(res.bufs, buf)
		dst := buf.Bytes()
		for _, p := range pieces {
			dst = dst[copy(dst, p):]
		}
		return v, nil
	}
	pieces := make([][]byte, n)
	if e.terms.Collective != plan.Alltoall {
		for r := range pieces {
			pieces[r] = e.items[r].data
		}
		if e.terms.Collective == Barrier {
			for _, r := range m.own {
				res.views[r] = view{}
			}
			return res, nil
		}
		v, err := fill(pieces)
		if err != nil {
			return nil, err
		}
		for _, r := range m.own {
			res.views[r] = v
		}
		return res, nil
	}
	cut, err := m.cut(e)
	if err != nil {
		return nil, err
	}
	for _, d := range m.own {
		for s := range pieces {
			pieces[s] = cut[s][d]
		}
		v, err := fill(pieces)
		if err != nil {
			free(res.bufs)
			return nil, err
		}
		res.views[d] = v
	}
	return res, nil
}

// cut returns the block of an alltoall from each rank to each rank of this host.
func (m *member) cut(e *eager) ([]map[int][]byte, error) {
	n := len(m.roster)
	blocks := make([]map[int][]byte, n)
	for s := range blocks {
		it := e.items[s]
		if _, err := checkRow(it.rows, n); err != nil {
			return nil, fmt.Errorf("rank %d: %w", s, errRow)
		}
		sizes, err := readRows(it.rows, 1, n)
		if err != nil {
			return nil, fmt.Errorf("rank %d: %w", s, err)
		}
		blocks[s] = make(map[int][]byte, len(m.own))
		rest := it.data
		for d, size := range sizes[0] {
			here := m.at[d] == m.self
			if it.straight && m.at[s] != m.self && !here {
				continue
			}
			if size > int64(len(rest)) {
				return nil, fmt.Errorf("rank %d: %w", s, errRow)
			}
			if here {
				blocks[s][d] = rest[:size]
			}
			rest = rest[size:]
		}
		if len(rest) > 0 {
			return nil, fmt.Errorf("rank %d: %w", s, errRow)
		}
	}
	return blocks, nil
}
