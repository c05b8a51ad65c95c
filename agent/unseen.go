package agent

import (
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// linksUnseen counts the links between sites of which s has nothing yet on what several flows get, and agents will soon; 0 once they have had the time for
// a look: where it showed no more than trains have read there is nothing to tell.
func (a *Agent) linksUnseen(s *netmap.Snapshot, now time.Time) int {
	if !a.prober.Glancing(now) {
		return 0
	}
	return unseen(s)
}

// unseen counts the links between labelled sites of which s has nothing on what several flows get.
func unseen(s *netmap.Snapshot) (links int) {
	seen := make(map[[2]string]bool)
	for i := range s.N() {
		for j := range s.N() {
			from, to := s.Host(i).Site, s.Host(j).Site
			if from == "" || to == "" || from == to {
				continue
			}
			k := [2]string{from, to}
			seen[k] = seen[k] || s.Estimate(i, j).Known&(netmap.FieldCarried|netmap.FieldLanes) != 0
		}
	}
	for _, ok := range seen {
		if !ok {
			links++
		}
	}
	return links
}
