package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/probe/netmap"
)

// How many maps an agent remembers, and how many bytes of them. A map of 20 hosts has 50 kB,
// one of 512 hosts 30 MB.
const (
	maxOldMaps     = 16
	maxOldMapBytes = 64 << 20
)

// A mapHistory holds the maps that the last pool trees began with, predictions left out. Its
// zero value is empty.
type mapHistory struct {
	mu   sync.Mutex // guards the fields below
	maps []oldMap   // by rising epoch
}

type oldMap struct {
	epoch uint64
	snap  *netmap.Snapshot
}

func (m oldMap) bytes() int {
	n := m.snap.N()
	return n * n * int(unsafe.Sizeof(netmap.Estimate{}))
}

// add remembers s, and forgets the oldest maps that are too many or too large. A map that is
// too large by itself is not remembered.
func (h *mapHistory) add(epoch uint64, s *netmap.Snapshot) {
	m := oldMap{epoch, measured(s)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maps = append(h.maps, m)
	total := 0
	for k, m := range slices.Backward(h.maps) {
		if total += m.bytes(); total > maxOldMapBytes || len(h.maps)-k > maxOldMaps {
			h.maps = slices.Clone(h.maps[k+1:]) // lets go of those before
			return
		}
	}
}

func (h *mapHistory) list() []oldMap {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.maps)
}

// measured returns s without the bandwidths that were predicted.
func measured(s *netmap.Snapshot) *netmap.Snapshot {
	n := s.N()
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			e := s.Estimate(i, j)
			if e.Source == netmap.SourcePredicted {
				e.Known &^= netmap.FieldBandwidth
				e.Bandwidth, e.Spread, e.Source = 0, 0, netmap.SourceUnknown
			}
			est[i*n+j] = e
		}
	}
	return netmap.NewSnapshot(s.Epoch(), slices.Clone(s.Hosts()), est)
}

// MapDiff returns two maps: those that two pool trees began with, or the one as it is now.
// Without a first one it is that of the tree before: the change that brought the second about
// is then between the two, and the last of all changes if the second is now.
func (s *service) MapDiff(_ context.Context, req *connect.Request[apiv1.MapDiffRequest]) (*connect.Response[apiv1.MapDiffResponse], error) {
	kept := s.a.pools.history.list()
	r := &apiv1.MapDiffResponse{}
	for _, m := range kept {
		r.Epochs = append(r.Epochs, m.epoch)
	}
	if len(kept) == 0 {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("no map is kept yet: the first is that of the first pool tree (gridagent pools)"))
	}
	to := oldMap{}
	if req.Msg.To != 0 {
		var err error
		if to, err = find(kept, req.Msg.To); err != nil {
			return nil, err
		}
	}
	var from oldMap
	switch {
	case req.Msg.From != 0:
		var err error
		if from, err = find(kept, req.Msg.From); err != nil {
			return nil, err
		}
	case to.snap == nil:
		from = kept[max(len(kept)-2, 0)]
	default:
		k := slices.IndexFunc(kept, func(m oldMap) bool { return m.epoch == to.epoch })
		if k == 0 {
			return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("the map of the tree before epoch %d is not kept: kept are %v", to.epoch, r.Epochs))
		}
		from = kept[k-1]
	}
	if to.snap == nil {
		to.snap = measured(s.a.snapshotOf(s.a.alive()))
	}
	r.From, r.To = from.epoch, to.epoch
	now := time.Now()
	var err error
	if r.FromJson, err = netmap.AppendMatrix(nil, from.snap, now); err != nil {
		return nil, err
	}
	if r.ToJson, err = netmap.AppendMatrix(nil, to.snap, now); err != nil {
		return nil, err
	}
	return connect.NewResponse(r), nil
}

// find returns the map of an epoch, or an error that lists those that are kept.
func find(kept []oldMap, epoch uint64) (oldMap, error) {
	var epochs []uint64
	for _, m := range kept {
		if m.epoch == epoch {
			return m, nil
		}
		epochs = append(epochs, m.epoch)
	}
	return oldMap{}, connect.NewError(connect.CodeNotFound, fmt.Errorf("the map of epoch %d is not kept: kept are %v", epoch, epochs))
}
