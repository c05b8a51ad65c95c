package exchange

import (
	"slices"
	"sync"
)

// flows counts the lanes of all runs that have data under way, by what they share. A lane
// is in it for as long as it is active, so it holds no more than there are open lanes.
type flows struct {
	mu    sync.Mutex // guards everything below, and the fields of each flow; taken under run.mu
	sites map[string][]*flow

	pressed pressures
}

// A flow is one lane as flows counts it.
type flow struct {
	peer, site string
	active     bool
	peers      int // the most active flows to the peer since the last take, itself included
	all        int // likewise to the site
}

// join counts f as active.
func (c *flows) join(f *flow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.active {
		return
	}
	f.active = true
	if c.sites == nil {
		c.sites = make(map[string][]*flow)
	}
	fs := append(c.sites[f.site], f)
	c.sites[f.site] = fs
	toPeer := 0
	for _, o := range fs {
		if o.peer == f.peer {
			toPeer++
		}
	}
	for _, o := range fs {
		o.all = max(o.all, len(fs))
		if o.peer == f.peer {
			o.peers = max(o.peers, toPeer)
		}
	}
}

// leave ends what join began; a flow that is not active stays so.
func (c *flows) leave(f *flow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f.active {
		return
	}
	f.active = false
	fs := slices.DeleteFunc(c.sites[f.site], func(o *flow) bool { return o == f })
	if len(fs) == 0 {
		delete(c.sites, f.site)
	} else {
		c.sites[f.site] = fs
	}
}

// take returns f's counts, at least 1 each, and begins new ones.
func (c *flows) take(f *flow) (peers, all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	peers, all = max(f.peers, 1), max(f.all, 1)
	f.peers, f.all = 0, 0
	if f.active {
		for _, o := range c.sites[f.site] {
			f.all++
			if o.peer == f.peer {
				f.peers++
			}
		}
	}
	return peers, all
}
