package agent

import (
	"sync"
	"time"
)

const (
	// importantWeight is how much more the pairs of hosts matter that share a group with this
	// one than others: their estimates are made anew when they are a third as old.
	importantWeight = 3
	// importantAge is how long the hosts of groups are taken as they were.
	importantAge = time.Second
)

// importance says which hosts matter to the groups that have ranks here. Its methods may be called
// concurrently, and do not block.
type importance struct {
	hosts func() []string // of the groups

	mu   sync.Mutex // guards the fields below
	read time.Time
	in   map[string]bool
}

// of is [probe.Config.Important], for pairs from this host.
func (i *importance) of(_, to string) float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := time.Now(); i.in == nil || now.Sub(i.read) > importantAge || now.Before(i.read) {
		i.in, i.read = make(map[string]bool), now
		for _, h := range i.hosts() {
			i.in[h] = true
		}
	}
	if i.in[to] {
		return importantWeight
	}
	return 1
}
