package lab

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/internal/gridnet"
)

func parseBuiltIn(t *testing.T, name string, linkRate float64) *Spec {
	t.Helper()
	data, ok := configs.Grid(name)
	if !ok {
		if data, ok = configs.Topology(name); !ok {
			t.Fatalf("no grid or switch tree %q", name)
		}
	}
	r := &Request{File: name, Data: data, LinkRate: linkRate}
	s, err := r.parse()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// Every network that comes with gridagent is a lab, with distinct addresses and hosts.
func TestBuiltInNetworksAreLabs(t *testing.T) {
	for _, name := range append(configs.Grids(), configs.Topologies()...) {
		s := parseBuiltIn(t, name, 0)
		seen := make(map[string]bool)
		for _, h := range s.Hosts {
			if key := h.Addr.String(); seen[key] || seen[h.Name] {
				t.Errorf("%s: host %s, %s: name or address given twice", name, h.Name, key)
			}
			seen[h.Addr.String()], seen[h.Name] = true, true
			if h.Site < 0 || h.Site >= len(s.Sites) {
				t.Errorf("%s: host %s at site %d of %d", name, h.Name, h.Site, len(s.Sites))
			}
		}
		if s.WAN == nil && len(s.Trunks) != len(s.Sites)-1 {
			t.Errorf("%s: %d cables between %d switches: no tree", name, len(s.Trunks), len(s.Sites))
		}
	}
}

// The hosts have the addresses that the emulator would give them.
func TestAddressesAreTheEmulators(t *testing.T) {
	for _, name := range []string{"paper-3site", "modern-4site", "allgather-f"} {
		s := parseBuiltIn(t, name, 0)
		n, err := gridnet.New(s.Emulated)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range s.Hosts {
			c, err := n.Listen(h.Name)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(c.LocalAddr().String(), ":")[0]; got != h.Addr.String() {
				t.Errorf("%s: host %s has %v in the lab and %s in the emulator", name, h.Name, h.Addr, got)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLinkRate(t *testing.T) {
	const rate = 1.25e6
	s := parseBuiltIn(t, "aapc-conf-b", rate)
	for _, h := range s.Hosts {
		if h.Port.Rate != rate {
			t.Fatalf("host %s: port of %v bytes/s, want %v", h.Name, float64(h.Port.Rate), rate)
		}
	}
	for _, trunk := range s.Trunks {
		if trunk.Shape.Rate != rate {
			t.Fatalf("trunk %v: want %v bytes/s", trunk, rate)
		}
	}
	data, _ := configs.Grid("paper-3site")
	if _, err := (&Request{File: "g", Data: data, LinkRate: rate}).parse(); err == nil {
		t.Error("a link rate was taken for a grid file, whose links have rates of their own")
	}
}

func TestChange(t *testing.T) {
	mbps := func(v float64) *float64 { v *= 1e6 / 8; return &v }
	pipe := gridnet.Link{Rate: 1e6 / 8}
	held := gridnet.Link{Rate: 8e6 / 8, FlowRate: 1e6 / 8}
	for _, c := range []struct {
		name       string
		before     gridnet.Link
		change     Change
		rate, flow float64 // Mbit/s
		wrong      bool
	}{
		{name: "pipe", before: pipe, change: Change{Bandwidth: mbps(3)}, rate: 3},
		{name: "pipe gets a ceiling", before: pipe, change: Change{Capacity: mbps(5)}, rate: 5, flow: 1},
		{name: "both", before: pipe, change: Change{Bandwidth: mbps(2), Capacity: mbps(5)}, rate: 5, flow: 2},
		{name: "ceiling", before: held, change: Change{Bandwidth: mbps(2)}, rate: 8, flow: 2},
		{name: "ceiling goes", before: held, change: Change{Bandwidth: mbps(8)}, rate: 8},
		{name: "capacity under the ceiling", before: held, change: Change{Capacity: mbps(0.5)}, wrong: true},
		{name: "flow over the capacity", before: held, change: Change{Bandwidth: mbps(9)}, wrong: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.before
			err := c.change.apply(&l)
			if c.wrong {
				if err == nil || l != c.before {
					t.Fatalf("got %+v and error %v; want an error and the link as it was", l, err)
				}
				return
			}
			if err != nil || float64(l.Rate)*8/1e6 != c.rate || float64(l.FlowRate)*8/1e6 != c.flow {
				t.Fatalf("got rate %v, flow rate %v (bytes/s), error %v; want %v and %v Mbit/s", float64(l.Rate), float64(l.FlowRate), err, c.rate, c.flow)
			}
		})
	}
}

// What a lab cannot be is refused before anything is made.
func TestFilesThatAreNoLab(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"rate", `{"switches":["s"],"hosts":{"a":"s","b":"s"},"bandwidth_mbps":0.001}`, "want 8kbps to"},
		{"no rate", `{"switches":["s"],"hosts":{"a":"s","b":"s"}}`, "f: the switch tree has no bandwidth_mbps"},
		{"broken tree", `{"switches":["s"],`, "f:"},
		{"same name", `{"switches":["s"],"hosts":{"a":"s","A":"s"},"bandwidth_mbps":1}`, "same host name"},
		{"host name", `{"switches":["s"],"hosts":{"a b":"s"},"bandwidth_mbps":1}`, "cannot be a host name"},
		{"localhost", `{"switches":["s"],"hosts":{"Localhost":"s"},"bandwidth_mbps":1}`, "cannot be a host name"},
		{"matrix", "matrix:\n  hosts: [a, b]\n", "f:"},
		{"port", "sites: [{name: A, hosts: 2, lan: {bandwidth: 1kbps, latency: 1ms}}]", "want 8kbps to"},
	} {
		if _, err := (&Request{File: "f", Data: []byte(c.data)}).parse(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want an error with %q", c.name, err, c.want)
		}
	}
}

func TestSpecLinks(t *testing.T) {
	for name, want := range map[string]int{"paper-3site": 6, "paper-1site-nth": 0, "aapc-conf-b": 6, "aapc-conf-a": 0} {
		if links := parseBuiltIn(t, name, 0).Links(); len(links) != want {
			t.Errorf("%s: links %v, want %d", name, links, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"lab", "a", "modern-4", "0_1"} {
		if err := CheckName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "..", "a/b", "-x", "LAB", strings.Repeat("a", 32)} {
		if CheckName(bad) == nil {
			t.Errorf("name %q was taken; it becomes a folder", bad)
		}
	}
	if hostName("-x") || hostName("a b") || hostName("") || !hostName("ut-0.x_1") {
		t.Error("hostName is wrong about -x, 'a b', '' or ut-0.x_1")
	}
}
