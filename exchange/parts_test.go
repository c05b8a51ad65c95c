package exchange

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// TestPartsOfALinkAddUp: where some hosts of a site have no bytes, but all of them carry the others' to another site, each takes its own part of the link and no more.
// They took themselves for as many as have bytes: eight hosts sent for three at nearly three times what the link carries, and it lost 400 packets of 1,400.
func TestPartsOfALinkAddUp(t *testing.T) {
	const senders = 8
	for _, owners := range []int{1, 3, 8} {
		p := &plan.Plan{Collective: plan.Allgather, Algorithm: "test", Sizes: make([]int64, senders+1)}
		for i := range senders {
			p.Hosts = append(p.Hosts, fmt.Sprint("a", i))
			if i < owners {
				p.Sizes[i] = senders << 20
			}
		}
		p.Hosts = append(p.Hosts, "b0")
		add := func(src, dst, origin, piece int, after ...int) {
			p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: src, Dst: dst, Phase: -1, After: after, Blocks: []plan.Block{{Origin: origin, Dest: plan.All, Piece: piece}}})
		}
		for o := range owners { // piece i of each block goes through host i
			cut := plan.Cut{Origin: o, Dest: plan.All}
			for i := range senders {
				if i > 0 {
					cut.At = append(cut.At, int64(i)<<20)
				}
				var after []int
				for mate := range senders {
					if mate == o {
						continue
					}
					if mate == i {
						after = []int{len(p.Transfers)}
					}
					add(o, mate, o, i)
				}
				add(i, senders, o, i, after...)
			}
			p.Cuts = append(p.Cuts, cut)
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		for _, path := range []Path{
			{RTT: 100 * time.Millisecond, Rate: 150_000, Capacity: 1_200_000}, // paced, as something holds each flow
			{RTT: 20 * time.Millisecond, Rate: 150_000, Capacity: 150_000},    // spaced, as one flow fills it
		} {
			paced, spaced := 0., 0.
			for i := range senders {
				x := &run{eng: &Engine{cfg: Config{Self: p.Hosts[i], Site: siteOfTest, Path: func(string) Path { return path }}}, part: parts[i], start: time.Now()}
				x.sites = sitesOf(x.part.Hosts, x.eng.cfg.Self, siteOfTest)
				to := &peer{name: "b0", sends: []*send{{}}}
				x.peers = map[string]*peer{"b0": to}
				x.lanesTo(to)
				if to.pacer != nil {
					paced += to.pacer.believed
				}
				spaced += to.spacing.rate / spacingShare
			}
			if all := float64(path.Capacity); math.Abs(max(paced, spaced)/all-1) > 0.01 {
				t.Errorf("%d owners, %v: hosts believe that they may send %.0f paced and %.0f spaced bytes a second, want %v", owners, path.held(), paced, spaced, netmap.BytesPerSec(all))
			}
		}
	}
}

// TestLeaderOpensWithTheWholePath: a host that alone sends for its site begins at what the link carries, and hosts that send alike at their parts of it. (It began at a part as if its mates sent
// as well: 256 bytes a pair, of six hosts to four over 2.5 Mbit/s and 16 ms, took 73 ms in place of 48.)
func TestLeaderOpensWithTheWholePath(t *testing.T) {
	const mates = 4
	path := Path{RTT: 32 * time.Millisecond, Rate: 300_000, Capacity: 300_000}
	for _, leads := range []bool{true, false} {
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Matrix: make([][]int64, mates+1)}
		for i := range mates + 1 {
			p.Hosts = append(p.Hosts, string("aaaab"[i])+fmt.Sprint(i))
			p.Matrix[i] = make([]int64, mates+1)
		}
		for i := range mates { // each block to b4, straight or by way of a0
			p.Matrix[i][mates] = 256
			blocks, at, after := []plan.Block{{Origin: i, Dest: mates}}, i, []int(nil)
			if leads && i > 0 {
				after = []int{len(p.Transfers)}
				p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: i, Dst: 0, Phase: -1, Blocks: blocks})
				at = 0
			}
			p.Transfers = append(p.Transfers, plan.Transfer{ID: len(p.Transfers), Src: at, Dst: mates, Phase: -1, After: after, Blocks: blocks})
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		senders := mates
		if leads {
			senders = 1
		}
		for i := range senders {
			x := &run{eng: &Engine{cfg: Config{Self: p.Hosts[i], Site: siteOfTest, Path: func(string) Path { return path }}}, part: parts[i], start: time.Now()}
			x.sites = sitesOf(x.part.Hosts, x.eng.cfg.Self, siteOfTest)
			to := &peer{name: p.Hosts[mates], sends: []*send{{}}}
			x.peers = map[string]*peer{to.name: to}
			x.lanesTo(to)
			if want := openingShare * float64(path.Capacity) / float64(senders); math.Abs(to.opening/want-1) > 0.01 {
				t.Errorf("led: %v: host %d opens at %.0f bytes a second, want %.0f", leads, i, to.opening, want)
			}
		}
	}
}
