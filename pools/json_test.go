package pools

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

func TestJSONRoundTrip(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := randomGrid(rng, 1+rng.IntN(12))
		tree, err := Build(s, Config{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		// Read on a grid with the same hosts in another order.
		back, err := Parse(text, s.Subset(rng.Perm(s.N())).Hosts())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		// Thresholds go through Mbit/s, so compare the drawings' rounded ones.
		same, err := Parse(text, s.Hosts())
		if err != nil || same.String() != tree.String() {
			t.Fatalf("seed %d: %v: got\n%vwant\n%v", seed, err, same, tree)
		}
		if len(byName(back)) != len(byName(tree)) || len(back.Leaves()) != len(tree.Leaves()) {
			t.Fatalf("seed %d: got\n%vwant\n%v", seed, back, tree)
		}
	}
}

func TestJSONGolden(t *testing.T) {
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	tree, err := Build(snapshot(hosts, func(i, j int) float64 {
		if i == 2 || j == 2 {
			return 1.44
		}
		return 95
	}), Config{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(tree)
	want := `{"criterion":"component","band":0.1,"thresholds_mbps":[{"low":1.44,"high":1.44},{"low":95,"high":95}],` +
		`"root":{"threshold_mbps":1.44,"hosts":["a","b","c"],"children":[{"threshold_mbps":95,"hosts":["a","b"]},{"threshold_mbps":95,"hosts":["c"]}]}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

func TestParseByHand(t *testing.T) {
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	tree, err := Parse([]byte(`{"root":{"children":[{"hosts":["c"]},{"hosts":["b","a"]}]}}`), hosts)
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.String(); got != "a…c · 3 hosts\n├── a…b · 2 hosts\n└── c · 1 host\n" {
		t.Errorf("got\n%s", got)
	}
	for _, tt := range []struct{ text, want string }{
		{"{\n\"root\":\n!", "line 3"},
		{"{\n\"root\": 7}", "line 2"},
		{`{}`, "root is missing"},
		{"{}\n{}", "line 2: more text"},
		{`{"root":{}}`, "root: neither hosts nor children"},
		{`{"root":{"hosts":["a","b","x"]}}`, `root: unknown host "x"`},
		{`{"root":{"hosts":["a","b"]}}`, `host "c" is in no pool`},
		{`{"root":{"hosts":["a","b","c","b"]}}`, `root: host "b" twice`},
		{`{"root":{"children":[{"hosts":["a","b"]},{"hosts":["b","c"]}]}}`, `host "b" twice`},
		{`{"root":{"hosts":["a","b","c"],"children":[{"hosts":["a"]},{"hosts":["b"]}]}}`, "root: the children hold the hosts [0 1], not [0 1 2]"},
		{`{"root":{"children":[{"hosts":["a","b","c"]}]}}`, "root: one child"},
		{`{"root":{"children":[null]}}`, "root.children[0]: null"},
		{`{"root":{"hosts":["a","b","c"],"threshold_mbps":-1}}`, "threshold_mbps -1"},
	} {
		if _, err := Parse([]byte(tt.text), hosts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestMarshalRefusesABrokenTree(t *testing.T) {
	for _, tree := range []*Tree{{}, {Root: &Pool{Hosts: []int{0, 1}}}, {Root: &Pool{Hosts: []int{5}}, Hosts: []netmap.Host{{Name: "a"}}}} {
		if text, err := json.Marshal(tree); err == nil {
			t.Errorf("%+v was written as %s", tree, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	hosts := paperGrid().Hosts()
	tree, err := Build(paperGrid(), Config{})
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"root":{"children":[{"hosts":["ut0"]},null]}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		tree, err := Parse(in, hosts)
		if err != nil {
			return
		}
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		if back, err := Parse(text, hosts); err != nil || back.String() != tree.String() {
			t.Fatalf("%v\n%v\n%v", err, back, tree)
		}
	})
}
