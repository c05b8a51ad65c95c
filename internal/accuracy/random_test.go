package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/accuracy/random"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

// measureRandom runs the agents of a grid that is drawn from the cell's seed. For each link, by [under]: "truth" and "truth after" its
// change, in user bytes a second; at each look, of every ordered pair of hosts over it as a third host has them in its map, "rate",
// "capacity" and "loss" (-1 where the map does not say) and "rtt" in seconds. "seen" is after how many seconds every agent's map
// was right of the change for all pairs, "half" for half of them; "trees" at each look how many agents have the
// pool tree that the truth makes.
func measureRandom(t *testing.T, c Cell, r *Reading) {
	before := random.Draw(c.Seed, random.Wide)
	after := before.After()
	truths := make(map[*random.Grid][]float64)
	for i := range before.File.WAN {
		v := randomTruth(t, c, before, i)
		truths[before] = append(truths[before], v)
		r.add(under(before, i, "truth"), v)
		if before.Touches(i) {
			v = randomTruth(t, c, after, i)
		}
		truths[after] = append(truths[after], v)
		r.add(under(before, i, "truth after"), v)
	}
	inBubble(t, func(t *testing.T, dir string) {
		u := &unseen{t: t, r: r, world: before, truth: truths[before]}
		u.begin = time.Now()
		i := -1
		late := func(*agent.Options) { i++; time.Sleep(before.Starts[i]) } // hosts start one after the other
		g, err := grid.Start(t.Context(), grid.Config{Grid: before.File, Dir: dir, Seed: c.Seed, Agent: late})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := strangers(g.Net, before); err != nil {
			t.Fatal(err)
		}
		u.g = g
		for _, at := range looks[:len(looks)-1] {
			u.sleepUntil(at)
			u.look(at)
		}
		u.sleepUntil(randomChange)
		for _, i := range before.Change.Links {
			k := after.File.WAN[i]
			err := g.Net.SetLink(after.File.Sites[k.From].Name, after.File.Sites[k.To].Name, func(l *gridnet.Link) {
				l.Rate, l.Latency = gridnet.Rate(k.Capacity), k.Latency
				l.FlowRate *= gridnet.Rate(before.Change.Rate)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		u.world, u.truth = after, truths[after]
		u.watch(before.Change)
		u.sleepUntil(looks[len(looks)-1])
		u.look(looks[len(looks)-1])
	})
}

// strangers starts the cross traffic of a drawn grid.
func strangers(n *gridnet.Network, w *random.Grid) error {
	for i, share := range w.Cross {
		if share == 0 {
			continue
		}
		k := w.File.WAN[i]
		c := gridnet.CrossTraffic{From: w.File.Sites[k.From].Name, To: w.File.Sites[k.To].Name, Rate: gridnet.Rate(share) * gridnet.Rate(k.Capacity), Poisson: true}
		if _, err := n.StartCross(c); err != nil {
			return err
		}
	}
	return nil
}

// randomTruth returns what one flow really gets of link i: by the grid file where that is exact, else what a long lane gets in the
// same network.
func randomTruth(t *testing.T, c Cell, w *random.Grid, i int) float64 {
	v, exact := w.Flow(i)
	if exact {
		return float64(v)
	}
	const bytes = 100e6 // some 70 losses where one packet of a thousand is lost: known to 6 %
	long := time.Duration(bytes / float64(v) * float64(time.Second))
	long = min(max(long, 10*time.Second), 10*time.Minute)
	got := 0.0
	inBubble(t, func(t *testing.T, dir string) { got = laneOn(t, dir, w, i, 1000+c.Seed, 10*time.Second, long) })
	return got
}

// laneOn returns the user bytes a second that one lane carries over link i of w.
func laneOn(t *testing.T, dir string, w *random.Grid, i int, seed uint64, warm, measured time.Duration) float64 {
	t.Helper()
	cfg, err := gridnet.FromGrid(w.File)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Seed = seed
	n, err := gridnet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := strangers(n, w); err != nil {
		t.Fatal(err)
	}
	k := w.File.WAN[i]
	return lanesBetween(t, dir, n, [][2]string{{w.File.HostName(k.From, 0), w.File.HostName(k.To, 0)}}, warm, measured)
}

// An unseen is a run of a drawn grid.
type unseen struct {
	t     *testing.T
	r     *Reading
	g     *grid.Grid
	begin time.Time
	world *random.Grid // as it is now
	truth []float64    // of each of its links, user bytes a second
}

func (u *unseen) sleepUntil(after time.Duration) { time.Sleep(time.Until(u.begin.Add(after))) }

// pairs calls f with the hosts of each pair over link i, as indices.
func (u *unseen) pairs(i int, f func(from, to int)) {
	k := u.world.File.WAN[i]
	for a, x := range u.g.Hosts {
		for b, y := range u.g.Hosts {
			if x.Site == u.world.File.Sites[k.From].Name && y.Site == u.world.File.Sites[k.To].Name {
				f(a, b)
			}
		}
	}
}

// look adds what the maps say now.
func (u *unseen) look(at time.Duration) {
	maps := make([]*netmap.Snapshot, len(u.g.Hosts))
	for i := range u.g.Hosts {
		maps[i] = believed(u.t, u.g, i)
	}
	for i := range u.world.File.WAN {
		u.pairs(i, func(a, b int) {
			third := b
			for h := range maps {
				if h != a && h != b {
					third = h
				}
			}
			from, to := u.g.Hosts[a].Name, u.g.Hosts[b].Name
			e, home := estimate(maps[third], from, to), estimate(maps[third], to, from)
			u.r.add(under(u.world, i, "rate", at), known(e, netmap.FieldBandwidth, float64(e.Bandwidth)))
			u.r.add(under(u.world, i, "capacity", at), known(e, netmap.FieldCapacity, float64(e.Capacity)))
			u.r.add(under(u.world, i, "loss", at), known(e, netmap.FieldLoss, e.Loss))
			u.r.add(under(u.world, i, "rtt", at), known(e, netmap.FieldLatency, known(home, netmap.FieldLatency, (e.Latency+home.Latency).Seconds())))
		})
	}
	want := u.wanted()
	right := 0
	for i := range u.g.Hosts {
		got, err := poolTree(u.t.Context(), u.g, i)
		switch {
		case err != nil:
			u.t.Logf("after %v: the pool tree of %s: %v", at, u.g.Hosts[i].Name, err)
		case got.shape == want:
			right++
		case i == 0:
			u.t.Logf("after %v: the pool tree of %s is %s, and %s by the truth", at, u.g.Hosts[i].Name, got.shape, want)
		}
	}
	u.r.add(fmt.Sprintf("trees %v", at), float64(right))
}

// known is v, and -1 where e lacks a field.
func known(e netmap.Estimate, f netmap.Field, v float64) float64 {
	if !e.Has(f) {
		return -1
	}
	return v
}

// wanted returns the shape of the pool tree that the truth makes.
func (u *unseen) wanted() string {
	s, err := u.world.File.Snapshot()
	if err != nil {
		u.t.Fatal(err)
	}
	hosts := s.Hosts()
	est := make([]netmap.Estimate, len(hosts)*len(hosts))
	for i := range hosts {
		for j := range hosts {
			est[i*len(hosts)+j] = s.Estimate(i, j)
			est[i*len(hosts)+j].Bandwidth *= goodput
		}
	}
	for i := range u.world.File.WAN {
		u.pairs(i, func(a, b int) {
			est[s.Index(u.g.Hosts[a].Name)*len(hosts)+s.Index(u.g.Hosts[b].Name)].Bandwidth = netmap.BytesPerSec(u.truth[i])
		})
	}
	made, err := pools.Build(netmap.NewSnapshot(0, hosts, est), pools.Config{})
	if err != nil {
		u.t.Fatal(err)
	}
	text, err := made.MarshalJSON()
	if err != nil {
		u.t.Fatal(err)
	}
	shape, err := shapeOf(text)
	if err != nil {
		u.t.Fatal(err)
	}
	return shape
}

// watch waits until all maps tell the change.
func (u *unseen) watch(c random.Change) {
	took := make(map[string]float64)
	begin := time.Now()
	for time.Since(begin) < randomPatience && len(took) < 2 {
		time.Sleep(time.Second)
		right, all := 0, 0
		for h := range u.g.Hosts {
			s := believed(u.t, u.g, h)
			for _, i := range c.Links {
				u.pairs(i, func(a, b int) {
					from, to := u.g.Hosts[a].Name, u.g.Hosts[b].Name
					e, home := estimate(s, from, to), estimate(s, to, from)
					all++
					switch {
					case c.Lag == 1 && near(float64(e.Bandwidth), u.truth[i], 0.15),
						c.Lag != 1 && abs(e.Latency+home.Latency-u.world.RoundTrip(i)) <= allowance(u.world, i):
						right++
					}
				})
			}
		}
		for name, is := range map[string]bool{"half": 2*right >= all, "seen": right == all} {
			if _, ok := took[name]; !ok && is {
				took[name] = time.Since(begin).Seconds()
			}
		}
	}
	for _, name := range []string{"half", "seen"} {
		v, ok := took[name]
		if !ok {
			v = randomPatience.Seconds()
		}
		u.r.add(name, v)
	}
}
