package grid_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A lie changes what a host records of a pair, before it signs and publishes it.
type lie func(e netmap.Estimate, now time.Time) netmap.Estimate

// lying makes hosts publish lies, with their real keys.
func lying(lies map[string]lie) func(*agent.Options) {
	return func(o *agent.Options) {
		tell := lies[o.Identity.Settings.Host]
		if tell == nil {
			return
		}
		o.Probe = func(c *probe.Config) {
			record := c.Record
			c.Record = func(from, to string, e netmap.Estimate) { record(from, to, tell(e, time.Now())) }
		}
	}
}

func scaled(e netmap.Estimate, by netmap.BytesPerSec) netmap.Estimate {
	e.Bandwidth *= by
	e.Line *= by
	e.Capacity *= by
	return e
}

// TestLiars: hosts that lie about their links are named by all others, nobody else is, and what is
// believed of all other pairs stays as true as without them. Of their own pairs what the other end has
// seen is believed, where it has seen anything.
func TestLiars(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of eight agents, five times over: two minutes of CPU with the race detector")
	}
	faster := func(e netmap.Estimate, _ time.Time) netmap.Estimate { return scaled(e, 100) }
	slower := func(e netmap.Estimate, _ time.Time) netmap.Estimate { return scaled(e, 0.01) }
	flows := func(e netmap.Estimate, _ time.Time) netmap.Estimate {
		if e.Has(netmap.FieldBandwidth) { // the others of its site would learn from it
			e.Known |= netmap.FieldLine
			e.Line = e.Bandwidth
			e.Bandwidth /= 100
		}
		return e
	}
	flips := func(e netmap.Estimate, now time.Time) netmap.Estimate {
		if now.Unix()%2 == 0 {
			return scaled(e, 100)
		}
		return scaled(e, 0.01)
	}
	near := func(e netmap.Estimate, _ time.Time) netmap.Estimate { e.Latency = 0; return e }
	far := func(e netmap.Estimate, _ time.Time) netmap.Estimate { e.Latency = 10 * time.Second; return e }
	for _, tt := range []struct {
		name  string
		lies  map[string]lie
		after time.Duration // until everybody names them
	}{
		{"100 times as fast, keepers", map[string]lie{"a0": faster, "b0": faster}, 6 * time.Minute},
		{"a hundredth", map[string]lie{"a1": slower}, 6 * time.Minute},
		{"flows that get a hundredth of the link", map[string]lie{"a0": flows, "b1": flows}, 8 * time.Minute},
		{"another rate each second", map[string]lie{"a1": flips}, 8 * time.Minute},
		{"no latency, and far away", map[string]lie{"b1": near, "a0": far}, 3 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			liars := slices.Sorted(maps.Keys(tt.lies))
			cfg := gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 3, 3, 2), Seed: 1, Agent: lying(tt.lies)}
			gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
				begin := time.Now()
				for !namedByAll(c, liars) {
					if time.Sleep(10 * time.Second); time.Since(begin) > tt.after {
						for _, h := range c.Hosts {
							c.T.Logf("%s: %q", h.Name, h.Agent.Warnings())
						}
						c.T.Fatalf("%v are not named by all others after %v", liars, tt.after)
					}
				}
				c.T.Logf("named by all after %v", time.Since(begin))
				time.Sleep(time.Minute)
				checkBeliefs(c, liars)
			})
		})
	}
}

// namedByAll reports whether all hosts but the liars warn of the liars. It fails the test if one
// warns of anybody else.
func namedByAll(c *gridtest.Cluster, liars []string) bool {
	c.T.Helper()
	all := true
	for _, h := range c.Hosts {
		if slices.Contains(liars, h.Name) {
			continue
		}
		named := map[string]bool{}
		for _, w := range h.Agent.Warnings() {
			host, ok := strings.CutPrefix(w, "host ")
			host, _, _ = strings.Cut(host, ":")
			if !ok || !slices.Contains(liars, host) {
				c.T.Errorf("%s warns: %s; want %v and nobody else", h.Name, w, liars)
			}
			named[host] = true
		}
		all = all && len(named) == len(liars)
	}
	return all
}

// checkBeliefs compares what honest hosts believe with the truth: of pairs of others, and of what the
// liars' pairs are known to be by the other end.
func checkBeliefs(c *gridtest.Cluster, liars []string) {
	c.T.Helper()
	checkTruths(c, liars, true)
}

// checkTruths is checkBeliefs, but where not both, of pairs of others alone.
func checkTruths(c *gridtest.Cluster, liars []string, both bool) {
	c.T.Helper()
	const payload = 1248.0 / 1308 // of an IPv4 packet
	wrong := map[string]int{}
	for _, h := range c.Hosts {
		if slices.Contains(liars, h.Name) {
			continue
		}
		for _, from := range c.Hosts {
			for _, to := range c.Hosts {
				if from.Name == to.Name {
					continue
				}
				e, ok := h.Agent.Map().Lookup(from.Name, to.Name, time.Now())
				involved := slices.Contains(liars, from.Name) || slices.Contains(liars, to.Name)
				if involved && !both {
					continue
				}
				rate, latency := 4*payload, 20*time.Millisecond
				if from.Site == to.Site {
					rate, latency = 100*payload, 60*time.Microsecond
				}
				pair := from.Name + "→" + to.Name
				switch r := e.Bandwidth.Mbps() / rate; {
				case !ok:
					wrong[fmt.Sprintf("%s: nothing is known", pair)]++
				case !e.Has(netmap.FieldBandwidth): // a suspect's, and the other end has not seen it: predicted
					if !involved {
						wrong[fmt.Sprintf("%s: no bandwidth", pair)]++
					}
				case r < 0.85 || r > 1.15:
					wrong[fmt.Sprintf("%s: %.4g Mbit/s, want %.4g", pair, e.Bandwidth.Mbps(), rate)]++
				}
				alone := slices.Contains(liars, from.Name) && slices.Contains(liars, to.Name) // nobody else has seen it
				if ok && !alone && (e.Latency-latency).Abs() > latency/5+time.Millisecond {
					wrong[fmt.Sprintf("%s: latency %v, want %v", pair, e.Latency, latency)]++
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(wrong)) {
		c.T.Errorf("%s (%d hosts believe it)", what, wrong[what])
	}
}
