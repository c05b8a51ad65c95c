package lab

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// emulated runs a check over the emulator in virtual time, where nothing is ever late.
func emulated(t *testing.T, spec *Spec) []Measurement {
	t.Helper()
	var all []Measurement
	synctest.Test(t, func(t *testing.T) {
		cfg := spec.Emulated
		cfg.RealTime = false
		last := -1
		progress := func(done, total int) {
			if done < last || done > total {
				t.Errorf("progress went from %d to %d of %d", last, done, total)
			}
			last = done
		}
		if err := checkEmulated(context.Background(), spec, cfg, progress, func(m Measurement) { all = append(all, m) }); err != nil {
			t.Fatal(err)
		}
	})
	return all
}

// The check finds every network as declared where it is.
func TestCheckFindsWhatIsDeclared(t *testing.T) {
	if gridtest.Race {
		t.Skip("grids of up to 20 hosts: run without the race detector, under which TestCheckFindsWhatIsWrong is")
	}
	for _, name := range []string{"paper-3site-held", "paper-3site-loss", "modern-4site", "allgather-d"} {
		t.Run(name, func(t *testing.T) {
			spec := parseBuiltIn(t, name, 0)
			all := emulated(t, spec)
			kinds := make(map[string]int)
			for _, m := range all {
				kinds[m.Quantity]++
				if !m.OK {
					t.Errorf("%+v", m)
				}
			}
			if links := len(spec.Emulated.Links); kinds[QuantityDelay] < links {
				t.Errorf("%d delays of %d links measured", kinds[QuantityDelay], links)
			}
			if want := len(spec.Hosts) + len(spec.Emulated.Links) + 2*len(spec.Trunks); kinds[QuantityRate] != want {
				t.Errorf("%d rates measured, want %d", kinds[QuantityRate], want)
			}
			t.Logf("%d measurements: %v", len(all), kinds)
		})
	}
}

// The check sees what is not as declared, and says it of that link alone.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	// One host a site: there are only the links to measure.
	spec, err := (&Request{File: "g", Data: []byte(`
sites:
  - {name: A, hosts: 1, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: B, hosts: 1, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: A, to: B, bandwidth: 5Mbps, latency: 70ms, loss: 1%}
  - {from: B, to: A, bandwidth: 4Mbps, latency: 70ms}
`)}).parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, quantity string
		edit           func(l *gridnet.Link)
	}{
		{"slower", QuantityRate, func(l *gridnet.Link) { l.Rate *= 0.95 }},
		{"farther", QuantityDelay, func(l *gridnet.Link) { l.Latency += 2 * DelayTolerance }},
		{"nearer", QuantityDelay, func(l *gridnet.Link) { l.Latency -= 2 * DelayTolerance }},
		{"lossy", QuantityRate, func(l *gridnet.Link) { l.Loss = 0.1 }},
		{"lossless", QuantityLoss, func(l *gridnet.Link) { l.Loss = 0 }},
		{"cut", QuantityReached, func(l *gridnet.Link) { l.Loss = 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := false
			declared := spec.Emulated.Links[0]
			all := wrongly(t, spec, c.edit)
			for _, m := range all {
				switch {
				case m.OK:
				case m.What == declared.From+"→"+declared.To && m.Quantity == c.quantity:
					found = true
					if m.Attempts != attempts {
						t.Errorf("believed after %d attempts, want %d", m.Attempts, attempts)
					}
				case m.What != declared.From+"→"+declared.To:
					t.Errorf("%+v: only %s→%s is wrong", m, declared.From, declared.To)
				}
			}
			if !found {
				t.Errorf("no %s of %s→%s was found wrong in %+v", c.quantity, declared.From, declared.To, all)
			}
		})
	}
}

// wrongly checks a network whose first link is edited behind the back of the checker.
func wrongly(t *testing.T, spec *Spec, edit func(*gridnet.Link)) []Measurement {
	t.Helper()
	var all []Measurement
	synctest.Test(t, func(t *testing.T) {
		cfg := spec.Emulated
		cfg.RealTime = false
		n, err := gridnet.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		first := cfg.Links[0]
		if err := n.SetLink(first.From, first.To, edit); err != nil {
			t.Fatal(err)
		}
		c := emulatedChecker(spec, n, func(int, int) {}, func(m Measurement) { all = append(all, m) })
		c.link = func(from, to string) (gridnet.Link, error) {
			if from == first.From && to == first.To {
				return first, nil
			}
			return n.Link(from, to)
		}
		if err := c.run(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
	return all
}

// shaped is two sites of two hosts each, with a token bucket one way and a ceiling of flows behind one the other way.
func shaped(t *testing.T) *Spec {
	t.Helper()
	spec, err := (&Request{File: "g", Data: []byte(`
sites:
  - {name: A, hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
  - {name: B, hosts: 2, lan: {bandwidth: 100Mbps, latency: 60us}}
wan:
  - {from: A, to: B, bandwidth: 4Mbps, latency: 10ms, burst: 1MB, peak: 40Mbps}
  - {from: B, to: A, bandwidth: 1Mbps, capacity: 4Mbps, latency: 10ms, loss: 1%, burst: 100KiB, peak: 20Mbps}
`)}).parse()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// A link with a token bucket is held to what it carries for long, not to what its bursts pass at.
func TestCheckOfBursts(t *testing.T) {
	rates := 0
	for _, m := range emulated(t, shaped(t)) {
		if !m.OK {
			t.Errorf("%+v", m)
		}
		if m.Quantity == QuantityRate && (m.What == "A→B" || m.What == "B→A") {
			rates++
		}
	}
	if rates != 2 {
		t.Errorf("%d rates of links measured, want 2", rates)
	}
}

// What is cut or blocked on purpose is named, not measured, and no error; all else is measured without it.
func TestCheckSkips(t *testing.T) {
	spec := shaped(t)
	cut := map[Link]bool{{"A", "B"}: true, {From: spec.Hosts[0].Name}: true}
	c := &checker{spec: spec,
		link: func(from, to string) (gridnet.Link, error) {
			return gridnet.Link{From: from, To: to, BlockUDP: from == "B"}, nil
		},
		port:  func(h int) gridnet.Rate { return spec.Hosts[h].Port.Rate },
		cut:   func(l Link) bool { return cut[l] },
		trunk: func(int, int) gridnet.Rate { return 0 },
	}
	list, err := c.probes()
	if err != nil {
		t.Fatal(err)
	}
	skipped := make(map[string]string)
	for _, p := range list {
		if p.skipped != "" {
			skipped[p.what] = p.skipped
			continue
		}
		for _, f := range p.flows {
			if f[0] == 0 || f[1] == 0 || spec.Hosts[f[0]].Site != spec.Hosts[f[1]].Site {
				t.Errorf("%s, %s is measured by %v", p.what, p.quantity, f)
			}
		}
	}
	if want := (map[string]string{spec.Hosts[0].Name: isCut, "A→B": isCut, "B→A": "UDP is blocked"}); !maps.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
}

// Neither senders nor receivers carry more than their ports.
func TestReach(t *testing.T) {
	c := &checker{port: func(h int) gridnet.Rate { return []gridnet.Rate{10, 10, 10, 15, 0}[h] }}
	for _, tt := range []struct {
		flows [][2]int
		rate  gridnet.Rate
		want  gridnet.Rate
	}{
		{[][2]int{{0, 2}}, 100, 10},
		{[][2]int{{0, 2}, {1, 2}}, 100, 10},
		{[][2]int{{0, 3}, {1, 3}}, 100, 15},
		{[][2]int{{0, 2}, {1, 3}}, 100, 20},
		{[][2]int{{0, 2}, {0, 2}, {0, 2}}, 100, 10},
		{[][2]int{{0, 4}, {1, 4}}, 100, 20},
		{[][2]int{{4, 4}}, 100, 100},
		{[][2]int{{0, 2}, {1, 3}}, 5, 5},
	} {
		if got := c.reach(tt.flows, tt.rate); got != tt.want {
			t.Errorf("%v over a link of %v: %v, want %v", tt.flows, tt.rate, got, tt.want)
		}
	}
}
