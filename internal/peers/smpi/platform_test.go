package smpi

import (
	"bytes"
	"encoding/xml"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	w, err := LoadGrid("testdata/grid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, even := range []bool{true, false} {
		var out bytes.Buffer
		if err := w.Platform.writeXML(&out, even); err != nil {
			t.Fatal(err)
		}
		name := "testdata/tcp.golden"
		if even {
			name = "testdata/even.golden"
		}
		if *update {
			if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s differs, which -update rewrites:\n%s", name, out.Bytes())
		}
	}
}

// A platformFile is what SimGrid reads.
type platformFile struct {
	Zone struct {
		Hosts []struct {
			ID string `xml:"id,attr"`
		} `xml:"host"`
		Links []struct {
			ID        string `xml:"id,attr"`
			Bandwidth string `xml:"bandwidth,attr"`
			Latency   string `xml:"latency,attr"`
			Policy    string `xml:"sharing_policy,attr"`
		} `xml:"link"`
		Routes []struct {
			Src   string `xml:"src,attr"`
			Dst   string `xml:"dst,attr"`
			Links []struct {
				ID string `xml:"id,attr"`
			} `xml:"link_ctn"`
		} `xml:"route"`
	} `xml:"zone"`
}

// TestPaths: every pair has a route, and its latency, the rate that one flow gets and the one of the
// shared link in it are those of the snapshot. With ballast the weights are equal and nothing else changes.
func TestPaths(t *testing.T) {
	files, err := filepath.Glob("../../../configs/grids/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no grids: %v", err)
	}
	for _, file := range append(files, "testdata/grid.yaml", "testdata/tree.json") {
		load := LoadGrid
		if strings.HasSuffix(file, ".json") {
			load = LoadTopology
		}
		w, err := load(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, even := range []bool{true, false} {
			checkPaths(t, w, even)
		}
	}
}

func checkPaths(t *testing.T, w *World, even bool) {
	t.Helper()
	var out bytes.Buffer
	if err := w.Platform.writeXML(&out, even); err != nil {
		t.Fatal(err)
	}
	var f platformFile
	if err := xml.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatalf("%s: %v", w.Name, err)
	}
	type properties struct {
		rate, latency float64
		shared        bool
	}
	links := make(map[string]properties)
	for _, l := range f.Zone.Links {
		if _, ok := links[l.ID]; ok {
			t.Fatalf("%s: two links %s", w.Name, l.ID)
		}
		rate, err1 := strconv.ParseFloat(strings.TrimSuffix(l.Bandwidth, "Bps"), 64)
		latency, err2 := strconv.ParseFloat(strings.TrimSuffix(l.Latency, "s"), 64)
		if err1 != nil || err2 != nil || !strings.HasSuffix(l.Bandwidth, "Bps") || rate <= 0 {
			t.Fatalf("%s: link %+v", w.Name, l)
		}
		links[l.ID] = properties{rate, latency, l.Policy == "SHARED"}
	}
	s := w.Problem.Snapshot
	rank := make(map[string]int)
	for i, h := range f.Zone.Hosts {
		if rank[h.ID] = i; h.ID != s.Host(i).Name {
			t.Fatalf("%s: host %d is %s, want %s", w.Name, i, h.ID, s.Host(i).Name)
		}
	}
	if n := s.N(); len(f.Zone.Hosts) != n || len(f.Zone.Routes) != n*(n-1) {
		t.Fatalf("%s: %d hosts and %d routes for %d", w.Name, len(f.Zone.Hosts), len(f.Zone.Routes), n)
	}
	weight := 0.0
	for _, r := range f.Zone.Routes {
		flow, shared, latency, sum := math.Inf(1), math.Inf(1), 0.0, 0.0
		for _, ref := range r.Links {
			l, ok := links[ref.ID]
			if !ok {
				t.Fatalf("%s: %s→%s crosses %q, which is no link", w.Name, r.Src, r.Dst, ref.ID)
			}
			flow, latency, sum = min(flow, l.rate), latency+l.latency, sum+1/l.rate
			if l.shared {
				shared = min(shared, l.rate)
			}
		}
		e := s.Estimate(rank[r.Src], rank[r.Dst])
		if near(flow, float64(e.Bandwidth)) && near(latency, e.Latency.Seconds()) && (e.Capacity == 0 || near(shared, float64(e.Capacity))) {
			if weight == 0 {
				weight = sum
			}
			if !even || near(sum, weight) {
				continue
			}
		}
		t.Errorf("%s, even %v: %s→%s: a flow gets %v B/s, all %v, after %v s; weight %v, the first one's %v; want %+v",
			w.Name, even, r.Src, r.Dst, flow, shared, latency, sum, weight, e)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-8*math.Abs(b) }

// TestTreePaths: the cables of a path are those of the topology, each its own link in each direction.
func TestTreePaths(t *testing.T) {
	w, err := LoadTopology("testdata/tree.json")
	if err != nil {
		t.Fatal(err)
	}
	topo, p := w.Problem.Topology, w.Platform
	for a := range topo.Hosts() {
		for b := range topo.Hosts() {
			if a == b {
				continue
			}
			var got, want []string
			for _, l := range p.routes[a*len(p.hosts)+b][1:] {
				got = append(got, p.links[l].id)
			}
			for _, l := range topo.Path(nil, a, b) {
				from, to := topo.Ends(l)
				want = append(want, "cable-"+from+"-"+to)
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s→%s: %v, want %v", topo.Hosts()[a], topo.Hosts()[b], got, want)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	far := &gridfile.Grid{
		Sites: []gridfile.Site{{Name: "a", Hosts: 2, LAN: gridfile.LAN{Bandwidth: 1e10}}, {Name: "b", Hosts: 1}},
		WAN:   []gridfile.Link{{From: 0, To: 1, Bandwidth: 100, Capacity: 100}, {From: 1, To: 0, Bandwidth: 100, Capacity: 100}},
	}
	p, err := ofGrid(far)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.writeXML(&bytes.Buffer{}, true); err == nil || !strings.Contains(err.Error(), "ballast") {
		t.Errorf("rates of 1 to 100 million: %v", err)
	}
	if _, err := ofGrid(&gridfile.Grid{}); err == nil {
		t.Error("a grid without sites is taken")
	}
	unrated, err := plan.NewTopology([]string{"s"}, nil, []string{"a", "b"}, []int{0, 0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ofTopology(unrated, time.Millisecond); err == nil || !strings.Contains(err.Error(), "bandwidth_mbps") {
		t.Errorf("a tree without rates: %v", err)
	}
}

func TestEscape(t *testing.T) {
	p := &Platform{hosts: []string{`a"<&`, "b"}}
	l := p.add(link{id: `"`, rate: 1})
	p.connect(func(_, _ int) []int { return []int{l} })
	var out bytes.Buffer
	if err := p.writeXML(&out, false); err != nil {
		t.Fatal(err)
	}
	var f platformFile
	if err := xml.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if got := f.Zone.Routes[0]; got.Src != `a"<&` || got.Links[0].ID != `"` {
		t.Errorf("read back as %+v", got)
	}
}
