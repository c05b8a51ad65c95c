package gridfile

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/netmap"
)

const grids = "../../configs/grids"

// Every grid file that is shipped parses, and what the paper's tables say is what it holds.
func TestShippedGrids(t *testing.T) {
	paths, err := filepath.Glob(grids + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]int{
		"paper-3site.yaml": 20, "paper-3site-held.yaml": 20, "paper-3site-loss.yaml": 20,
		"paper-2site-europe.yaml": 12, "paper-1site-nth.yaml": 8, "modern-4site.yaml": 14,
	}
	for _, path := range paths {
		g, err := Load(path)
		if err != nil {
			t.Error(err)
			continue
		}
		s, err := g.Snapshot()
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if want, ok := hosts[filepath.Base(path)]; ok && s.N() != want {
			t.Errorf("%s: %d hosts, want %d", path, s.N(), want)
		}
		delete(hosts, filepath.Base(path))
		if _, err := pools.Build(s, pools.Config{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for name := range hosts {
		t.Errorf("%s/%s is missing", grids, name)
	}
}

// Gupta & Vadhiyar, Tables 1 and 2, in the three forms in which we ship them: the figure for
// one flow and the latency agree, the capacity is what each is about.
func TestPaperGrids(t *testing.T) {
	table := map[string]struct {
		mbps    float64
		latency time.Duration
	}{
		"UT→UK": {1.44, 50 * time.Millisecond}, "UT→NTH": {1.25, 50 * time.Millisecond},
		"UK→UT": {1.28, 50 * time.Millisecond}, "UK→NTH": {4.75, 76 * time.Millisecond},
		"NTH→UT": {1.16, 50 * time.Millisecond}, "NTH→UK": {4.75, 76 * time.Millisecond},
		"UT→UT": {85.19, 60 * time.Microsecond}, "UK→UK": {289.33, 60 * time.Microsecond}, "NTH→NTH": {81.86, 6 * time.Microsecond},
	}
	for file, capacity := range map[string]func(mbps float64) float64{
		"paper-3site.yaml":      func(mbps float64) float64 { return mbps },
		"paper-3site-held.yaml": func(mbps float64) float64 { return 8 * mbps },
		"paper-3site-loss.yaml": func(float64) float64 { return 20 },
	} {
		g, err := Load(filepath.Join(grids, file))
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if a, b, c := s.Host(0).Name, s.Host(8).Name, s.Host(19).Name; a != "ut0" || b != "uk0" || c != "nth7" {
			t.Errorf("%s: hosts %s, %s, %s", file, a, b, c)
		}
		for i := range s.N() {
			for j := range s.N() {
				if i == j {
					continue
				}
				pair := s.Host(i).Site + "→" + s.Host(j).Site
				want := table[pair]
				c := want.mbps
				if s.Host(i).Site != s.Host(j).Site {
					c = capacity(want.mbps)
				}
				e := s.Estimate(i, j)
				if !near(e.Bandwidth, want.mbps) || !near(e.Capacity, c) || e.Latency != want.latency || e.Source != netmap.SourceDeclared {
					t.Fatalf("%s: %s is %+v, want %v Mbit/s, %v together, %v", file, pair, e, want.mbps, c, want.latency)
				}
			}
		}
	}
}

func near(r netmap.BytesPerSec, mbps float64) bool {
	return r >= netmap.BytesPerSec(mbps*(1-1e-9))*netmap.Mbps && r <= netmap.BytesPerSec(mbps*(1+1e-9))*netmap.Mbps
}

// The tree of the paper from the file, through all three packages.
func TestPaperGridPools(t *testing.T) {
	g, err := Load(filepath.Join(grids, "paper-3site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pools.Build(s, pools.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var sites []string
	for _, leaf := range tree.Leaves() {
		sites = append(sites, s.Host(leaf[0]).Site)
	}
	if strings.Join(sites, " ") != "UT UK NTH" || len(tree.Root.Children) != 2 {
		t.Errorf("got\n%v", tree)
	}
}

const full = `# all keys
sites:
  - name: A
    hosts: 2
    lan: {bandwidth: 1Gbps, latency: 100us, queue: 32, jitter: 5us}
  - {name: B, hosts: 1}
wan:
  - {from: A, to: B, both: true, bandwidth: 2Mbps, capacity: 7Mbps, latency: 20ms, loss: 0.5%,
     buffer: 64KiB, jitter: 1ms, burst: 32KiB, peak: 100Mbps, held_by: ceiling}
`

func TestEveryKey(t *testing.T) {
	g, err := Parse("x.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	there := Link{
		From: 0, To: 1, Bandwidth: 2 * netmap.Mbps, Capacity: 7 * netmap.Mbps, Latency: 20 * time.Millisecond,
		Jitter: time.Millisecond, Loss: 0.005, Queue: 44, Burst: 32768, Peak: 100 * netmap.Mbps, HeldBy: HeldByCeiling,
	}
	back := there
	back.From, back.To = 1, 0
	want := &Grid{
		Sites: []Site{
			{Name: "A", Hosts: 2, LAN: LAN{Bandwidth: 1000 * netmap.Mbps, Latency: 100 * time.Microsecond, Queue: 32, Jitter: 5 * time.Microsecond}},
			{Name: "B", Hosts: 1},
		},
		WAN: []Link{there, back},
	}
	if !reflect.DeepEqual(g, want) {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	s, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if e := s.Estimate(2, 1); e.Lanes != 4 || e.Loss != 0.005 || !e.Has(netmap.FieldLoss) {
		t.Errorf("b0→a1 is %+v, want 4 lanes and 0.5 %% loss", e)
	}
	if ceiling, held := g.WAN[0].FlowCeiling(); !held || ceiling != 2*netmap.Mbps {
		t.Errorf("ceiling %v, %v", ceiling, held)
	}
}

// The same grid as JSON, with tabs and a byte order mark, is the same grid.
func TestJSONForm(t *testing.T) {
	text := "\xef\xbb\xbf{\n\t\"sites\": [\n\t\t{\"name\": \"A\", \"hosts\": 2, \"lan\": {\"bandwidth\": \"1Gbps\", \"latency\": \"1ms\"}},\n" +
		"\t\t{\"name\": \"B\", \"hosts\": 1}],\n\t\"wan\": [{\"from\": \"A\", \"to\": \"B\", \"both\": true, \"bandwidth\": \"2Mbps\", \"latency\": \"3ms\"}]\n}\n"
	g, err := Parse("x.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Sites) != 2 || len(g.WAN) != 2 || g.WAN[1].Capacity != 2*netmap.Mbps || g.Matrix() {
		t.Errorf("got %+v", g)
	}
	if _, held := g.WAN[0].FlowCeiling(); held {
		t.Error("one pipe has a ceiling for each flow")
	}
}

func TestMatrixForm(t *testing.T) {
	g, err := Load(filepath.Join(grids, "paper-3site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g.Sites[0].Hosts = 1 // its LAN says what its port carries
	s, err := g.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := netmap.AppendMatrix(nil, s, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse("map.json", text)
	if err != nil {
		t.Fatal(err)
	}
	back, err := m.Snapshot()
	if err != nil || !m.Matrix() || !reflect.DeepEqual(back.Hosts(), s.Hosts()) || !reflect.DeepEqual(m.Hosts(), s.Hosts()) {
		t.Fatalf("%v: hosts %v", err, m.Hosts())
	}
	if got, next := s.Host(0).PortMbps, s.Host(1).PortMbps; got != g.Sites[0].LAN.Bandwidth.Mbps() || next != g.Sites[1].LAN.Bandwidth.Mbps() {
		t.Errorf("the port of %s carries %v Mbit/s, that of %s %v", s.Host(0).Name, got, s.Host(1).Name, next)
	}
	for i := range s.N() {
		for j := range s.N() {
			if a, b := s.Estimate(i, j), back.Estimate(i, j); i != j && a != b {
				t.Fatalf("%d→%d: %+v became %+v", i, j, a, b)
			}
		}
	}
	_, err = Parse("map.json", []byte("{\"hosts\":[{\"name\":\"a\"}],\n\"bandwidth_mbps\":[[0,1]]}"))
	if err == nil || !strings.HasPrefix(err.Error(), "map.json:2: latency_s is missing") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsNameFileLineAndReason(t *testing.T) {
	const sites = "sites:\n  - {name: UT, hosts: 2, lan: {bandwidth: 1Mbps, latency: 1ms}}\n  - {name: UK, hosts: 1}\nwan:\n"
	const both = "  - {from: UT, to: UK, both: true, bandwidth: 1Mbps, latency: 1ms}\n"
	link := func(more string) string { return sites + "  - {from: UT, to: UK, both: true, " + more + "}\n" }
	const plain = "bandwidth: 1Mbps, latency: 1ms, "
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "1: the file is empty"},
		{"comment only", "# nothing\n", "1: the file is empty"},
		{"cut off", "sites:\n  - {name: A, hosts:", "2: did not find expected node content"},
		{"escape", "sites:\n  - {name: \"U\x1b[2J\"}\n", `2: control character '\x1b'`},
		{"zero byte", "sites:\n\n\x00", `3: control character '\x00'`},
		{"not UTF-8", "sites:\n  - {name: \xff}\n", "2: byte 0xff is not UTF-8"},
		{"escaped", "sites:\n  - {name: \"U\\e\", hosts: 1}\n", `2: name: "U\x1b" holds the control character '\x1b'`},
		{"tab in a name", "sites:\n  - {name: N\tH, hosts: 1}\n", `2: name: "N\tH" holds the control character '\t'`},
		{"1e300", sites + "  - {from: UT, to: UK, both: true, bandwidth: 1e300Gbps, latency: 1ms}\n", "5: bandwidth: 1e+297Tbps is not in 8bps … 10Tbps"},
		{"escape in a matrix", "{\"hosts\":[\n{\"name\":\"a\\u001b\"}],\"latency_s\":[[0]]}", `2: hosts[0]: name: "a\x1b" holds the control character '\x1b'`},
		{"scalar", "7", `1: the file is "7", not a mapping of sites, wan`},
		{"unclosed brace", "sites:\n  - {name: UT\n", "2: did not find"},
		{"indentation", "sites:\n  - {name: UT, hosts: 1}\nwan:\n - a\n  b: c\n", "5: "},
		{"unclosed quote", "sites:\n  - {name: \"UT, hosts: 1}\n", "2: "},
		{"tab", "sites:\n\t- a\n", "2: "},
		{"second document", sites + both + "---\nsites: []\n", "6: a second document"},
		{"no sites", "wan: []\n", "1: the file: sites is missing"},
		{"empty sites", "\nsites: []\n", "2: sites is empty"},
		{"sites no list", "sites: {name: UT}\n", "1: sites is a mapping, not a list"},
		{"unknown key", sites + both + "links: []\n", `6: the file: unknown key "links"; did you mean`},
		{"misspelt key", "sites:\n  - {name: UT, host: 1}\n", `2: sites[0]: unknown key "host"; did you mean hosts?`},
		{"key twice", "sites:\n  - {name: UT, hosts: 1,\n     name: UK}\n", `3: sites[0]: the key "name" is given twice, first on line 2`},
		{"alias", "sites: &s\n  - {name: UT, hosts: 1}\nwan: *s\n", "3: wan is an alias"},
		{"nameless", "sites:\n  - {hosts: 1}\n", "2: sites[0]: name is missing"},
		{"null name", "sites:\n  - {name: , hosts: 1}\n", "2: name is empty"},
		{"odd name", "sites:\n  - {name: a b, hosts: 1}\n", `2: name: "a b" holds ' '`},
		{"no hosts", "sites:\n  - {name: UT}\n", "2: sites[0]: hosts is missing"},
		{"half a host", "sites:\n  - {name: UT, hosts: 1.5}\n", `2: hosts: "1.5" is not a whole number`},
		{"zero hosts", "sites:\n  - name: UT\n    hosts: 0\n", "3: hosts: 0 is not in 1 … 4096"},
		{"many hosts", "sites:\n  - {name: UT, hosts: 5000, lan: {bandwidth: 1Mbps, latency: 1ms}}\n", "2: hosts: 5000 is not in 1 … 4096"},
		{"many in all", "sites:\n  - {name: A, hosts: 4096, lan: {bandwidth: 1Mbps, latency: 1ms}}\n  - {name: B, hosts: 1}\n", "3: hosts: 4097 up to here"},
		{"no lan", "sites:\n  - {name: UT, hosts: 2}\n", "2: lan is missing; UT has 2 hosts"},
		{"bare rate", "sites:\n  - name: UT\n    hosts: 2\n    lan: {bandwidth: 85.19, latency: 1ms}\n", "4: bandwidth: 85.19 has no unit; write 85.19Mbps"},
		{"bare latency", "sites:\n  - {name: UT, hosts: 2, lan: {bandwidth: 1Mbps, latency: 6}}\n", "2: latency: 6 has no unit; write 6ms"},
		{"lan latency", "sites:\n  - {name: UT, hosts: 2, lan: {bandwidth: 1Mbps, latency: 2m}}\n", "2: lan: latency: 2m0s is not in"},
		{"site twice", "sites:\n  - {name: UT, hosts: 1}\n  - {name: ut, hosts: 1}\n", "3: the site ut is given twice (UT)"},
		{"hosts collide", "sites:\n  - {name: a, hosts: 11, lan: {bandwidth: 1Mbps, latency: 1ms}}\n  - {name: a1, hosts: 1}\n", "3: the sites a and a1 both have a host a10"},
		{"no wan", sites[:len(sites)-5], "2: no link UT→UK"},
		{"one way", sites + "  - {from: UT, to: UK, bandwidth: 1Mbps, latency: 1ms}\n", "5: no link UK→UT"},
		{"twice", sites + both + "  - {from: UK, to: UT, bandwidth: 1Mbps, latency: 1ms}\n", "6: the link UK→UT is given twice"},
		{"to itself", sites + "  - {from: UT, to: UT, bandwidth: 1Mbps, latency: 1ms}\n", "5: UT→UT is no wide-area link"},
		{"unknown site", sites + "  - {from: UT, to: UX, bandwidth: 1Mbps, latency: 1ms}\n", `5: to: unknown site "UX"; did you mean U`},
		{"no bandwidth", link("latency: 1ms"), "5: wan[0]: bandwidth is missing"},
		{"zero bandwidth", link("bandwidth: 0Mbps, latency: 1ms"), "5: bandwidth: 0Mbps is zero"},
		{"negative", link("bandwidth: -1Mbps, latency: 1ms"), "5: bandwidth: -1Mbps is negative"},
		{"huge", link("bandwidth: 11Tbps, latency: 1ms"), "5: bandwidth: 11Tbps is not in 8bps … 10Tbps"},
		{"long delay", link("bandwidth: 1Mbps, latency: 61s"), "5: latency: 1m1s is not in 0s … 1m0s"},
		{"small capacity", link("bandwidth: 2Mbps,\n     capacity: 1Mbps, latency: 1ms"), "6: capacity: all flows get 1Mbps together, less than the 2Mbps of one"},
		{"bare loss", link(plain + "loss: 0.001"), "5: loss: 0.001 has no unit; write 0.001%"},
		{"total loss", link(plain + "loss: 100%"), "5: loss: 100% leaves nothing"},
		{"both no flag", sites + "  - {from: UT, to: UK, " + plain + "both: yes}\n", `5: both: "yes" is not true or false`},
		{"queue with unit", link(plain + "queue: 64KiB"), `5: queue: "64KiB" is not a whole number`},
		{"no queue", link(plain + "queue: 0"), "5: queue: 0 packets"},
		{"bare buffer", link(plain + "buffer: 64"), "5: buffer: 64 has no unit; write 64B"},
		{"queue and buffer", link(plain + "queue: 64, buffer: 64KiB"), "5: buffer: queue, on line 5, bounds"},
		{"tiny burst", link(plain + "burst: 100B, peak: 2Mbps"), "5: burst: 100B does not hold a packet"},
		{"burst alone", link(plain + "burst: 64KiB"), "5: peak: a burst passes at 0bps"},
		{"peak alone", link(plain + "peak: 2Mbps"), "5: peak: a burst is missing"},
		{"held one pipe", link(plain + "held_by: loss"), "5: held_by: one flow gets all"},
		{"held without loss", link(plain + "capacity: 2Mbps, held_by: loss"), "5: held_by: loss, but the link loses nothing"},
		{"held by whom", link(plain + "capacity: 2Mbps, held_by: law"), `5: held_by: "law" is not ceiling or loss`},
		{"list as value", link("bandwidth: [1Mbps], latency: 1ms"), "5: bandwidth is a list, not a value"},
		{"long text", link("bandwidth: " + strings.Repeat("9", 200) + ", latency: 1ms"), "5: bandwidth: \"9999"},
		{"too long", strings.Repeat("#", 2<<20), "1: 2097152 bytes, more than"},
	} {
		_, err := Parse("configs/x.yaml", []byte(tt.text))
		var pe *ParseError
		if err == nil || !errors.As(err, &pe) || !strings.HasPrefix(err.Error(), "configs/x.yaml:"+tt.want) {
			t.Errorf("%s: got %v\nwant configs/x.yaml:%s", tt.name, err, tt.want)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	if _, err := Load("no/such.yaml"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "no/such.yaml") {
		t.Errorf("got %v", err)
	}
}

// A grid changed by hand is checked before it becomes a snapshot.
func TestSnapshotChecks(t *testing.T) {
	for name, spoil := range map[string]func(*Grid){
		"no link back": func(g *Grid) { g.WAN = g.WAN[:1] },
		"no such site": func(g *Grid) { g.WAN[0].To = 7 },
		"no hosts":     func(g *Grid) { g.Sites[0].Hosts = 0 },
		"no lan":       func(g *Grid) { g.Sites[1].Hosts = 3 },
		"no bandwidth": func(g *Grid) { g.WAN[0].Bandwidth = 0 },
	} {
		g, err := Parse("x.yaml", []byte(full))
		if err != nil {
			t.Fatal(err)
		}
		spoil(g)
		if _, err := g.Snapshot(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := (&Grid{}).Snapshot(); err == nil {
		t.Error("a grid without sites became a snapshot")
	}
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob(grids + "/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(full))
	f.Add([]byte(`{"hosts":[{"name":"a"}],"bandwidth_mbps":[[0]],"latency_s":[[0]]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		g, err := Parse("fuzz", in)
		if err != nil {
			if pe, ok := err.(*ParseError); !ok || pe.Line < 1 || pe.Line > 2+strings.Count(string(in), "\n")+strings.Count(string(in), "\r") || pe.Reason == "" {
				t.Fatalf("an error without a place: %#v", err)
			}
			return
		}
		if len(g.Hosts()) > 64 {
			return // a valid grid of thousands of hosts is gigabytes of estimates
		}
		s, err := g.Snapshot()
		if err != nil {
			t.Fatalf("parsed, but: %v", err)
		}
		for i := range s.N() {
			for j := range s.N() {
				if e := s.Estimate(i, j); i != j && e.Check() != nil {
					t.Fatalf("%d→%d: %v", i, j, e.Check())
				}
			}
		}
	})
}
