package demo

import (
	"fmt"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// WithHosts returns g with n hosts in all, spread over its sites in the proportion of g
// by largest remainder, at least one each.
func WithHosts(g *gridfile.Grid, n int) (*gridfile.Grid, error) {
	if n < len(g.Sites) {
		return nil, fmt.Errorf("%d hosts for %d sites: want at least one each", n, len(g.Sites))
	}
	if n > 250 {
		return nil, fmt.Errorf("%d hosts: more than 250 do not run in one process", n)
	}
	total := 0
	for _, s := range g.Sites {
		total += s.Hosts
	}
	out := *g
	out.Sites = append([]gridfile.Site(nil), g.Sites...)
	left := n
	for i := range out.Sites {
		out.Sites[i].Hosts = max(1, g.Sites[i].Hosts*n/total)
		left -= out.Sites[i].Hosts
	}
	for ; left != 0; left -= sign(left) {
		out.Sites[neediest(g, &out, n, total, sign(left))].Hosts += sign(left)
	}
	return &out, nil
}

// neediest returns the site that is furthest below its share (add 1) or above it (add
// -1) and can change.
func neediest(g, out *gridfile.Grid, n, total, add int) int {
	best, bestGap := -1, 0
	for i, s := range out.Sites {
		if s.Hosts+add < 1 {
			continue
		}
		if gap := add * (g.Sites[i].Hosts*n - s.Hosts*total); best < 0 || gap > bestGap {
			best, bestGap = i, gap
		}
	}
	return best
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}
