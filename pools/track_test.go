package pools

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A tracked grid: what is true of its links, and a tracker that is shown readings of it.
type trackedGrid struct {
	t       testing.TB
	seed    uint64
	rng     *rand.Rand
	tracker *Tracker
	now     time.Time
	hosts   []netmap.Host
	rate    []float64 // Mbit/s, row-major
	latency []time.Duration
	est     []netmap.Estimate
	epoch   uint64
}

// track starts with no reading of s, whose bandwidths are the truth.
func track(t testing.TB, s *netmap.Snapshot, seed uint64, cfg TrackConfig) *trackedGrid {
	t.Helper()
	tracker, err := NewTracker(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := s.N()
	g := &trackedGrid{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 77)), tracker: tracker, now: time.Unix(1e9, 0),
		hosts: slices.Clone(s.Hosts()), rate: make([]float64, n*n), latency: make([]time.Duration, n*n), est: make([]netmap.Estimate, n*n),
	}
	for i := range n {
		for j := range n {
			if i != j {
				b, _ := s.Bandwidth(i, j)
				g.rate[i*n+j] = b.Mbps()
				g.latency[i*n+j] = 40 * time.Millisecond
				if s.Host(i).Site == s.Host(j).Site {
					g.latency[i*n+j] = 60 * time.Microsecond
				}
			}
		}
	}
	return g
}

// measure reads a pair, off by up to noise of the truth.
func (g *trackedGrid) measure(at int, noise float64) {
	g.est[at] = netmap.Estimate{
		Known: netmap.FieldBandwidth | netmap.FieldLatency, Source: netmap.SourceProbed, Spread: 0.05, Measured: g.now,
		Bandwidth: netmap.BytesPerSec(g.rate[at]*(1+noise*(2*g.rng.Float64()-1))) * netmap.Mbps,
		Latency:   g.latency[at] + time.Duration(g.rng.Int64N(int64(200*time.Microsecond))),
	}
}

func (g *trackedGrid) measureAll(noise float64) {
	for at := range g.est {
		if n := len(g.hosts); at/n != at%n {
			g.measure(at, noise)
		}
	}
}

func (g *trackedGrid) snapshot() *netmap.Snapshot {
	g.epoch++
	return netmap.NewSnapshot(g.epoch, slices.Clone(g.hosts), slices.Clone(g.est))
}

func (g *trackedGrid) observe() bool {
	g.t.Helper()
	changed, err := g.tracker.Observe(g.now, func() (*netmap.Snapshot, error) { return g.snapshot(), nil })
	if err != nil {
		g.t.Fatalf("seed %d: %v", g.seed, err)
	}
	return changed
}

func (g *trackedGrid) current() Tracked {
	g.t.Helper()
	c, ok := g.tracker.Current()
	if !ok {
		g.t.Fatalf("seed %d: no tree", g.seed)
	}
	return c
}

// run lets d pass: each second some pairs are read anew, and the tracker looks.
func (g *trackedGrid) run(d time.Duration, noise float64) (changes int) {
	n := len(g.hosts)
	for end := g.now.Add(d); g.now.Before(end); {
		g.now = g.now.Add(time.Second)
		for range max(1, n*n/30) { // each pair about twice a minute
			if at := g.rng.IntN(n * n); at/n != at%n {
				g.measure(at, noise)
			}
		}
		if g.observe() {
			changes++
		}
	}
	return changes
}

// set changes the truth from each host of one site to each of another.
func (g *trackedGrid) set(from, to string, mbps float64) {
	n := len(g.hosts)
	for at := range g.rate {
		if at/n != at%n && g.hosts[at/n].Site == from && g.hosts[at%n].Site == to {
			g.rate[at] = mbps
		}
	}
}

// A reading is anywhere within 10 % of the truth, for an hour: the tree of the first readings stays.
func TestWobbleMakesNoEpoch(t *testing.T) {
	grids := map[string]func(rng *rand.Rand) *netmap.Snapshot{
		"paper":    func(*rand.Rand) *netmap.Snapshot { return paperGrid() },
		"random":   func(rng *rand.Rand) *netmap.Snapshot { return randomGrid(rng, 2+rng.IntN(12)) },
		"no sites": func(rng *rand.Rand) *netmap.Snapshot { return unlabelled(randomGrid(rng, 2+rng.IntN(12))) },
		"edges":    func(rng *rand.Rand) *netmap.Snapshot { return edgeGrid(rng) },
	}
	for name, grid := range grids {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				g := track(t, grid(rand.New(rand.NewPCG(seed, 3))), seed, TrackConfig{})
				g.measureAll(0.10)
				g.observe()
				first := g.current()
				if n := g.run(time.Hour, 0.10); n > 0 {
					t.Fatalf("seed %d: %d epochs, the last %q\nwas\n%vis\n%v", seed, n, g.current().Reason, first.Tree, g.current().Tree)
				}
			}
		})
	}
}

func unlabelled(s *netmap.Snapshot) *netmap.Snapshot {
	hosts := slices.Clone(s.Hosts())
	for i := range hosts {
		hosts[i].Site = ""
	}
	return snapshot(hosts, func(i, j int) float64 { b, _ := s.Bandwidth(i, j); return b.Mbps() })
}

// edgeGrid has sites of one or two hosts, whose links differ by just about a band: any
// noise puts them on either side of a threshold.
func edgeGrid(rng *rand.Rand) *netmap.Snapshot {
	var hosts []netmap.Host
	var site []int
	for i := range 3 + rng.IntN(4) {
		for k := range 1 + rng.IntN(2) {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%c%d", 'a'+i, k), Site: string(rune('A' + i))})
			site = append(site, i)
		}
	}
	var rates [8][8]float64
	for i := range rates {
		for j := range rates {
			rates[i][j] = []float64{10, 11, 11.2, 12.1, 12.6}[rng.IntN(5)]
		}
	}
	return snapshot(hosts, func(i, j int) float64 {
		if site[i] == site[j] {
			return 100
		}
		return rates[min(site[i], site[j])][max(site[i], site[j])]
	})
}

// Single readings with noise of 20 % take no site apart.
func TestFirstTreeIsRobust(t *testing.T) {
	plain := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s := paperGrid()
		if seed%2 == 0 {
			s = smallSites(rng)
		}
		g := track(t, s, seed, TrackConfig{})
		g.measureAll(0.20)
		g.observe()
		ideal, err := Build(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		ideal, _ = ideal.Restrict(g.current().Tree.Hosts)
		if got := g.current().Tree; !sameShape(got.Root, ideal.Root) {
			t.Fatalf("seed %d: got\n%vwithout noise\n%v", seed, got, ideal)
		}
		if raw, err := Build(nameOrder(g.snapshot()), Config{}); err == nil && !sameShape(raw.Root, ideal.Root) {
			plain++
		}
	}
	if plain == 0 {
		t.Error("the noise does not even split what Build makes of the readings: the test shows nothing")
	}
}

// smallSites has sites of one to four hosts with links of 20 Mbit/s, and wide-area links of 1 and 5.
func smallSites(rng *rand.Rand) *netmap.Snapshot {
	var hosts []netmap.Host
	var site []int
	for i := range 3 {
		for k := range 1 + rng.IntN(4) {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%c%d", 'a'+i, k), Site: string(rune('A' + i))})
			site = append(site, i)
		}
	}
	return snapshot(hosts, func(i, j int) float64 {
		switch {
		case site[i] == site[j]:
			return 20
		case min(site[i], site[j]) == 0:
			return 1
		}
		return 5
	})
}

// Seen in practice: one train of a LAN read 15 % low, and its host left the site.
func TestOneLowTrainSplitsNothing(t *testing.T) {
	s := twoSites(19, 2)
	g := track(t, s, 0, TrackConfig{})
	g.measureAll(0)
	for _, at := range []int{2, 12, 7, 11} { // a0→a2, a2→a0, a1→a2, a2→a1
		g.rate[at] = 16.6
		g.measure(at, 0)
		g.rate[at] = 19
	}
	if raw, err := Build(g.snapshot(), Config{}); err != nil || !strings.Contains(raw.String(), "A (2 of 3)") {
		t.Fatalf("the readings do not split the site by themselves: %v\n%v", err, raw)
	}
	g.observe()
	if got := g.current().Tree.outline(); got != "A | B" {
		t.Errorf("first tree %s", got)
	}
	// The same in a tree that stands, and far worse.
	g = track(t, s, 0, TrackConfig{})
	g.measureAll(0)
	g.observe()
	for _, low := range []float64{16.6, 14} {
		g.rate[2] = low
		g.measure(2, 0)
		g.rate[2] = 19
		for range 60 {
			g.now = g.now.Add(time.Second)
			if g.observe() {
				t.Fatalf("one reading of %g: %s", low, g.current().Reason)
			}
		}
	}
}

// twoSites has a0, a1, a2 and b0, b1.
func twoSites(lan, wan float64) *netmap.Snapshot {
	hosts := []netmap.Host{{Name: "a0", Site: "A"}, {Name: "a1", Site: "A"}, {Name: "a2", Site: "A"}, {Name: "b0", Site: "B"}, {Name: "b1", Site: "B"}}
	return snapshot(hosts, func(i, j int) float64 {
		if hosts[i].Site == hosts[j].Site {
			return lan
		}
		return wan
	})
}

// abc has three sites of two hosts: A and C joined by 2 Mbit/s, B by 1 to either.
func abc() *netmap.Snapshot {
	var hosts []netmap.Host
	for _, site := range []string{"A", "B", "C"} {
		for k := range 2 {
			hosts = append(hosts, netmap.Host{Name: fmt.Sprintf("%s%d", strings.ToLower(site), k), Site: site})
		}
	}
	return snapshot(hosts, func(i, j int) float64 {
		a, b := hosts[i].Site, hosts[j].Site
		switch {
		case a == b:
			return 100
		case a == "B" || b == "B":
			return 1
		}
		return 2
	})
}

// A link between sites that falls to a quarter makes exactly one epoch, within the dwell, with noise
// on all readings; its recovery makes another. The reason names link and rates.
func TestStepMakesOneEpoch(t *testing.T) {
	for seed := range uint64(40) {
		g := track(t, abc(), seed, TrackConfig{})
		g.measureAll(0.1)
		g.observe()
		if got := g.current().Tree.outline(); got != "{A | C} | B" {
			t.Fatalf("seed %d: first tree %s", seed, got)
		}
		g.run(5*time.Minute, 0.1)
		if e := g.current().Epoch; e != 1 {
			t.Fatalf("seed %d: epoch %d before the step", seed, e)
		}
		for step, want := range []struct {
			from, to string
			was, is  float64
			verb     string
			tree     string
		}{
			{"A", "C", 2, 0.5, "fell", "A | B | C"},
			{"A", "C", 0.5, 2, "rose", "{A | C} | B"},
			{"B", "C", 1, 4, "", ""},
			{"C", "B", 1, 4, "rose", "A | {B | C}"},
		} {
			g.set(want.from, want.to, want.is)
			g.measureAll(0.1)
			begun, epoch := g.now, g.current().Epoch
			g.observe()
			changes := g.run(10*time.Second, 0.1)
			if want.tree == "" { // one direction of a link is not enough
				if c := g.current(); c.Epoch != epoch {
					t.Fatalf("seed %d, step %d: %s", seed, step, c.Reason)
				}
				continue
			}
			c := g.current()
			if changes != 1 || c.Epoch != epoch+1 || c.Since.Sub(begun) > 10*time.Second {
				t.Fatalf("seed %d, step %d: %d changes, epoch %d after %v", seed, step, changes, c.Epoch, c.Since.Sub(begun))
			}
			var was, is float64
			if step == 3 && strings.HasPrefix(c.Reason, "B→C") { // it rose before, and both directions count
				want.from, want.to = "B", "C"
			}
			_, err := fmt.Sscanf(c.Reason, want.from+"→"+want.to+" "+want.verb+" from %g to %g Mbit/s: "+want.tree, &was, &is)
			if err != nil || ratio(was, want.was) > 1.12 || ratio(is, want.is) > 1.12 {
				t.Fatalf("seed %d, step %d: reason %q: %v; want %s→%s %s from %g to %g … %s", seed, step, c.Reason, err, want.from, want.to, want.verb, want.was, want.is, want.tree)
			}
			if n := g.run(5*time.Minute, 0.1); n > 0 {
				t.Fatalf("seed %d, step %d: %d more epochs, %s", seed, step, n, g.current().Reason)
			}
		}
	}
}

// Two pairs of a changed link have been measured anew, the others not: [netmap.Freshen] speaks for
// them. Without it one old reading would hold two sites together.
func TestStepSeenByAFewPairs(t *testing.T) {
	g := track(t, abc(), 3, TrackConfig{})
	g.measureAll(0.05)
	g.observe()
	g.now = g.now.Add(time.Minute)
	g.set("A", "C", 0.5)
	g.set("C", "A", 0.5)
	for _, pair := range [][2]int{{0, 4}, {1, 5}, {4, 0}, {5, 1}} {
		g.measure(pair[0]*6+pair[1], 0.05)
	}
	for range 4 {
		g.now = g.now.Add(time.Second)
		if _, err := g.tracker.Observe(g.now, func() (*netmap.Snapshot, error) { return netmap.Freshen(g.snapshot()), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if c := g.current(); c.Epoch != 2 || c.Tree.outline() != "A | B | C" || !strings.Contains(c.Reason, "fell from") {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
}

// A change that goes as it came within the dwell makes no epoch.
func TestHiccupMakesNoEpoch(t *testing.T) {
	g := track(t, abc(), 1, TrackConfig{})
	g.measureAll(0)
	g.observe()
	for range 20 {
		g.set("A", "C", 0.5)
		g.measureAll(0)
		g.run(time.Second, 0)
		g.set("A", "C", 2)
		g.measureAll(0)
		g.run(5*time.Second, 0)
	}
	if c := g.current(); c.Epoch != 1 {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
}

// A link that crosses the threshold between two pools leaves its pool only below it by the margin,
// and comes back only above it by the margin.
func TestThresholdHasTwoEdges(t *testing.T) {
	g := track(t, abc(), 1, TrackConfig{})
	g.measureAll(0)
	g.observe()
	slide := func(to float64) (at float64) {
		from := g.rate[4] // a0→c0
		for k := 1; k <= 400; k++ {
			r := from + (to-from)*float64(k)/400
			g.set("A", "C", r)
			g.set("C", "A", r)
			g.measureAll(0)
			g.now = g.now.Add(20 * time.Second)
			if g.observe() {
				return r
			}
		}
		t.Fatalf("nothing changed from %g to %g", from, to)
		return 0
	}
	down := slide(0.5)
	up := slide(3)
	if !(down < 1.1 && up > 1.1*1.15 && down > 0.8 && up < 1.6) {
		t.Errorf("left its pool at %.3g and came back at %.3g, with 1 Mbit/s around it", down, up)
	}
}

// An uncertain estimate does not move a host; a certain one of the same value does.
func TestUncertainEstimatesWait(t *testing.T) {
	for _, why := range []string{"spread", "age"} {
		g := track(t, abc(), 1, TrackConfig{})
		g.measureAll(0)
		g.observe()
		spoil := func(e *netmap.Estimate) {
			if why == "spread" {
				e.Spread = 2
			} else {
				e.Measured = e.Measured.Add(-26 * time.Hour)
			}
		}
		g.set("A", "C", 1.05)
		g.set("C", "A", 1.05)
		g.measureAll(0)
		for at := range g.est {
			spoil(&g.est[at])
		}
		for range 60 {
			g.now = g.now.Add(time.Second)
			g.observe()
		}
		if c := g.current(); c.Epoch != 1 {
			t.Errorf("%s: %s", why, c.Reason)
		}
		g.set("A", "C", 0.5)
		g.set("C", "A", 0.5)
		g.measureAll(0)
		for range 12 {
			g.now = g.now.Add(time.Second)
			g.observe()
		}
		if c := g.current(); c.Epoch != 2 {
			t.Errorf("%s: a certain reading made epoch %d", why, c.Epoch)
		}
	}
}

// Hosts that come and go make an epoch at once, and the reason names them. What was believed of the
// others stays.
func TestHostsComeAndGo(t *testing.T) {
	g := track(t, abc(), 5, TrackConfig{})
	g.measureAll(0.1)
	g.observe()
	all := g.snapshot()
	show := func(s *netmap.Snapshot) Tracked {
		t.Helper()
		g.now = g.now.Add(time.Second)
		if _, err := g.tracker.Observe(g.now, func() (*netmap.Snapshot, error) { return s, nil }); err != nil {
			t.Fatal(err)
		}
		return g.current()
	}
	if c := show(all.Subset([]int{0, 1, 2, 3, 4})); c.Epoch != 2 || c.Reason != "host c1 left: {A | C} | B" {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
	if c := show(all.Subset([]int{5, 4, 2, 3, 0, 1})); c.Epoch != 3 || c.Reason != "host c1 joined: {A | C} | B" {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
	if c := show(all.Subset([]int{0})); c.Epoch != 4 || c.Reason != "hosts a1, b0, b1, c0, c1 left: one pool, A" {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
	hosts := slices.Clone(g.hosts)
	hosts[0].Site = "Z"
	est := slices.Clone(g.est)
	if c := show(netmap.NewSnapshot(9, hosts, est)); c.Epoch != 5 || c.Reason != "hosts a1, b0, b1, c0, c1 joined, host a0 changed the site label: {Z+A | C} | B" {
		t.Errorf("epoch %d: %s", c.Epoch, c.Reason)
	}
}

// A map that lacks a pair is an error, and changes nothing.
func TestObserveWithoutMap(t *testing.T) {
	g := track(t, abc(), 5, TrackConfig{})
	if _, ok := g.tracker.Current(); ok {
		t.Error("a tree before the first look")
	}
	refuse := func(want error, take func() (*netmap.Snapshot, error)) {
		t.Helper()
		g.now = g.now.Add(time.Second)
		if changed, err := g.tracker.Observe(g.now, take); changed || !errors.Is(err, want) {
			t.Errorf("changed %v, error %v, want %v", changed, err, want)
		}
	}
	for range 2 {
		broken := errors.New("no map")
		refuse(broken, func() (*netmap.Snapshot, error) { return nil, broken })
		refuse(ErrNoHosts, func() (*netmap.Snapshot, error) { return netmap.NewSnapshot(1, nil, nil), nil })
		g.measureAll(0)
		g.est[3] = netmap.Estimate{}
		refuse(netmap.ErrNotMeasured, func() (*netmap.Snapshot, error) { return g.snapshot(), nil })
		g.measureAll(0)
		g.observe()
		if c := g.current(); c.Epoch != 1 {
			t.Errorf("epoch %d", c.Epoch)
		}
	}
	for _, cfg := range []TrackConfig{{Dwell: -1}, {Margin: -0.1}, {Margin: 2}, {Build: Config{Criterion: "x"}}} {
		if _, err := NewTracker(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// Looks are so far apart that they take under a hundredth of the time, and those in between ask for no map.
func TestRebuildsArePaced(t *testing.T) {
	var clock time.Time
	cfg := TrackConfig{Clock: func() time.Time { return clock }}
	g := track(t, abc(), 5, cfg)
	g.measureAll(0)
	const cost = 300 * time.Millisecond
	looks := 0
	for range 100 {
		_, err := g.tracker.Observe(g.now, func() (*netmap.Snapshot, error) {
			looks++
			clock = clock.Add(cost)
			return g.snapshot(), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		g.now = g.now.Add(time.Second)
	}
	if looks != 4 {
		t.Errorf("%d looks of %v in 100 s, want one each 30 s", looks, cost)
	}
}

// The tree does not depend on the order in which the map holds its hosts.
func TestTrackerIsDeterministic(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g := track(t, randomGrid(rng, 2+rng.IntN(12)), seed, TrackConfig{})
		g.measureAll(0.3)
		g.observe()
		other, err := NewTracker(TrackConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s := g.snapshot().Subset(rng.Perm(len(g.hosts)))
		if _, err := other.Observe(g.now, func() (*netmap.Snapshot, error) { return s, nil }); err != nil {
			t.Fatal(err)
		}
		c, _ := other.Current()
		if a, b := g.current().Tree.String(), c.Tree.String(); a != b {
			t.Fatalf("seed %d:\n%s\n%s", seed, a, b)
		}
	}
}

// A restricted tree is a tree of the hosts that are left, with the same hosts together as before.
func TestRestrict(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 10))
		s := randomGrid(rng, 1+rng.IntN(14))
		tree, err := Build(s, Config{})
		if err != nil {
			t.Fatal(err)
		}
		order := rng.Perm(s.N())[:1+rng.IntN(s.N())]
		hosts := s.Subset(order).Hosts()
		r, ok := tree.Restrict(hosts)
		if !ok {
			t.Fatalf("seed %d: refused", seed)
		}
		if err := r.Check(len(order)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// Hosts that some pool parts from others in the whole tree, are so in the part.
		n := s.N()
		whole, part := together(tree.Root, n), together(r.Root, len(order))
		for a := range order {
			for b := range order {
				for c := range order {
					w := whole[order[a]*n+order[b]] < whole[order[a]*n+order[c]]
					p := part[a*len(order)+b] < part[a*len(order)+c]
					if p && !w {
						t.Fatalf("seed %d: %d is closer to %d than to %d:\n%v\n%v", seed, a, b, c, tree, r)
					}
				}
			}
		}
		if _, ok := tree.Restrict(append(hosts, netmap.Host{Name: "stranger"})); ok {
			t.Fatalf("seed %d: a stranger is in the tree", seed)
		}
	}
	tree, err := Build(paperGrid(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	pick := paperGrid().Subset([]int{19, 8, 9, 0, 18}).Hosts()
	r, ok := tree.Restrict(pick)
	if !ok || r.outline() != "{NTH | UK} | UT" {
		t.Errorf("%v %v", ok, r)
	}
	if _, ok := tree.Restrict(nil); ok {
		t.Error("a tree of no hosts")
	}
}

// One look: at a map in which a tenth of the pairs have a new reading, and at one in which a link
// between sites has changed, so that the tree is built anew.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{20, 100, 300} {
		for _, what := range []string{"noise", "change"} {
			b.Run(fmt.Sprintf("hosts=%d/%s", n, what), func(b *testing.B) {
				hosts := make([]netmap.Host, n)
				for i := range hosts {
					hosts[i] = netmap.Host{Name: fmt.Sprintf("h%04d", i), Site: fmt.Sprint("s", i*5/n)}
				}
				g := track(b, snapshot(hosts, func(i, j int) float64 {
					if hosts[i].Site == hosts[j].Site {
						return 100
					}
					return 2
				}), 1, TrackConfig{})
				g.measureAll(0.1)
				g.observe()
				b.ReportAllocs()
				for k := 0; b.Loop(); k++ {
					b.StopTimer()
					for range n * n / 10 {
						if at := g.rng.IntN(n * n); at/n != at%n {
							g.measure(at, 0.1)
						}
					}
					if what == "change" {
						g.set("s0", "s1", []float64{8, 2}[k%2])
						for at := range g.est {
							if hosts[at/n].Site == "s0" && hosts[at%n].Site == "s1" {
								g.measure(at, 0.1)
							}
						}
					}
					s := g.snapshot()
					g.now = g.now.Add(time.Second)
					b.StartTimer()
					if _, err := g.tracker.Observe(g.now, func() (*netmap.Snapshot, error) { return s, nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
