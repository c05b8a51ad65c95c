package membership
import ("testing";"time";"sort")
func TestZZ(t *testing.T) {
	for _, hosts := range [][]int{{1,1},{2, 1}, {3, 3},{5,5}, {8, 4, 8}} {
		var all []float64
		for round := range 60 {
			inBubble(t, func(t *testing.T) {
				g := newGrid(t, hosts...)
				defer g.close()
				nodes := g.startAll(hosts...)
				agree(t, 10*time.Second, nodes, names(nodes))
				time.Sleep(20*time.Second + time.Duration(round)*700*time.Millisecond)
				dead, rest := nodes[len(nodes)-1], nodes[:len(nodes)-1]
				dead.kill()
				defer stopAll(rest)
				all=append(all, agree(t, 30*time.Second, rest, names(rest)).Seconds())
			})
		}
		sort.Float64s(all)
		t.Logf("%v: median %.1f p90 %.1f p98 %.1f max %.1f", hosts, all[30], all[54], all[58], all[59])
	}
}
