package netmap

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// ports is a random grid: sites, the rates between them, and the port of each host.
type ports struct {
	sites map[string]string
	hosts []string
	wan   map[way]float64
	port  map[string]float64 // Mbit/s, both directions
}

func randomPorts(rng *rand.Rand, least int) ports {
	g := ports{map[string]string{}, nil, map[way]float64{}, map[string]float64{}}
	n := 2 + rng.IntN(3)
	for i := range n {
		for j := range n {
			g.wan[way{fmt.Sprint(i), fmt.Sprint(j)}] = 1 + 20*rng.Float64()
		}
		for k := range least + rng.IntN(4) {
			name := fmt.Sprintf("h%d.%d", i, k)
			g.hosts, g.sites[name], g.port[name] = append(g.hosts, name), fmt.Sprint(i), 100
		}
	}
	return g
}

// pairs returns what the hosts measure of each other, all or a part of it, with noise.
func (g ports) pairs(rng *rand.Rand, place map[string]string) []rated {
	var out []rated
	for _, a := range g.hosts {
		for _, b := range g.hosts {
			if a == b || rng.IntN(10) == 0 {
				continue
			}
			r := min(g.port[a], g.port[b])
			if place[a] != place[b] {
				r = min(r, g.wan[way{place[a], place[b]}])
			}
			out = append(out, rated{a, b, BytesPerSec(r*(0.8+0.4*rng.Float64())) * Mbps})
		}
	}
	return out
}

// A host that misreads what arrives, up or down, is named in any grid whose sites have three hosts, and
// nobody else is.
func TestMisreaderIsNamed(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 21))
		g := randomPorts(rng, 3)
		liar := g.hosts[rng.IntN(len(g.hosts))]
		factor := 6 + 100*rng.Float64()
		high := seed%2 == 0
		if !high {
			factor = 1 / factor
		}
		pairs := g.pairs(rng, g.sites)
		for i := range pairs {
			if pairs[i].to == liar {
				pairs[i].rate *= BytesPerSec(factor)
			}
		}
		got := findMisreadings(pairs, g.sites)
		if len(got) != 1 || got[0].Host != liar || got[0].High != high || 2*got[0].Of <= got[0].Hosts {
			t.Fatalf("seed %d: %s reads %.3g times of %d hosts: %v", seed, liar, factor, len(g.hosts), got)
		}
		rng.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		if again := findMisreadings(pairs, g.sites); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatalf("seed %d: in another order %v, was %v", seed, again, got)
		}
	}
}

// Nobody is named for a slow port, for a label that is wrong, nor for the lies of others.
func TestHonestReadersAreNotNamed(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 22))
		g := randomPorts(rng, 1)
		odd := g.hosts[rng.IntN(len(g.hosts))]
		what := [...]string{"slow port", "wrong label", "no labels", "half a fall"}[seed%4]
		label := map[string]string{}
		for h, s := range g.sites {
			label[h] = s
		}
		switch what {
		case "slow port":
			g.port[odd] = 0.2
		case "wrong label":
			label[odd] = fmt.Sprint(rng.IntN(3))
		case "no labels":
			clear(label)
		}
		pairs := g.pairs(rng, g.sites)
		if what == "half a fall" { // some hosts have seen it, of some pairs
			for i, p := range pairs {
				if g.sites[p.from] == "0" && g.sites[p.to] == "1" && rng.IntN(2) == 0 {
					pairs[i].rate /= 4
				}
			}
		}
		if got := findMisreadings(pairs, label); len(got) != 0 {
			t.Errorf("seed %d, %s (%s): %v", seed, what, odd, got)
		}
	}
}

// What a map makes of it: after a while the host is named, rates to it that are too high count for
// nothing, those that are too low do.
func TestMisreadingsInTheMap(t *testing.T) {
	for _, factor := range []BytesPerSec{25, 0.04} {
		sites := map[string]string{}
		for i := range 6 {
			sites[fmt.Sprintf("h%d", i)] = fmt.Sprint(i % 2)
		}
		m := reportedGrid(t, 6, t0, func(i, from, to int) Estimate {
			if i != from {
				return Estimate{}
			}
			e := bandwidthOf(100, t0)
			if from%2 != to%2 {
				e = bandwidthOf(4, t0)
			}
			if to == 5 {
				e.Bandwidth *= factor
			}
			return e
		})
		m.cfg.Sites = func() map[string]string { return sites }
		if got := m.Misreadings(t0); len(got) != 0 {
			t.Fatalf("named at once: %v", got)
		}
		now := t0.Add(misreadTime)
		if got := m.Misreadings(now); len(got) != 1 || got[0].Host != "h5" || got[0].High != (factor > 1) {
			t.Fatalf("a factor of %g: %v", float64(factor), got)
		}
		if w := m.Warnings(now); len(w) != 1 || !strings.HasPrefix(w[0], "host h5: ") || !strings.Contains(w[0], "h0→h5") {
			t.Errorf("warnings %q", w)
		}
		hosts := []Host{{Name: "h0"}, {Name: "h1"}, {Name: "h5"}}
		s := m.Snapshot(hosts, now)
		for i := range 2 {
			e, _ := m.Lookup(hosts[i].Name, "h5", now)
			if e != s.Estimate(i, 2) || e.Has(FieldBandwidth) == (factor > 1) {
				t.Errorf("%s→h5: looked up %+v, in the snapshot %+v", hosts[i].Name, e, s.Estimate(i, 2))
			}
			if e := s.Estimate(2, i); !e.Has(FieldBandwidth) {
				t.Errorf("h5→%s: %+v", hosts[i].Name, e)
			}
		}
		if got := m.Misreadings(t0.Add(2 * time.Hour)); len(got) != 0 {
			t.Errorf("two hours later: %v", got)
		}
	}
}
