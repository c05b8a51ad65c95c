package pools

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/internal/jsonwalk"
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
		back, err := Read("t.json", text, s.Subset(rng.Perm(s.N())).Hosts())
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		// Thresholds go through Mbit/s, so compare the drawings' rounded ones.
		same, err := Read("t.json", text, s.Hosts())
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
	tree, err := Read("t.json", []byte(`{"root":{"children":[{"hosts":["c"]},{"hosts":["b","a"]}]}}`), hosts)
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.String(); got != "a…c · 3 hosts\n├── a…b · 2 hosts\n└── c · 1 host\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestReadErrors(t *testing.T) {
	hosts := []netmap.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for _, tt := range []struct{ text, want string }{
		{"", "t.json:1: not JSON: unexpected end of JSON input"},
		{"[1]", "t.json:1: want an object, found a list"},
		{"{\n\"root\":\n!", "t.json:3: not JSON: invalid character '!' looking for beginning of value"},
		{"{\n\"root\": 7}", "t.json:2: root: want an object, found 7"},
		{"{\n\"root\": null}", "t.json:2: root: want an object, found null"},
		{`{}`, "t.json:1: root is missing"},
		{"{}\n{}", "t.json:2: not JSON: invalid character '{' after top-level value"},
		{"{\"root\":\n{}}", "t.json:2: root: neither hosts nor children"},
		{"{\"root\":{\"hosts\":[\"a\",\"b\",\n\"x\"]}}", `t.json:2: root: hosts[2]: unknown host "x"`},
		{"{\"root\":{\"hosts\":\"a\"}}", `t.json:1: root: hosts: want a list, found "a"`},
		{"{\"root\":{\"hosts\":[\"a\",\n7]}}", `t.json:2: root: hosts[1]: want a string, found 7`},
		{"{\n\"root\":{\"hosts\":[\"a\",\"b\"]}}", `t.json:2: host "c" is in no pool`},
		{`{"root":{"hosts":["a","b","c","b"]}}`, `t.json:1: root: hosts[3]: host "b" twice`},
		{`{"root":{"children":[{"hosts":["a","b"]},{"hosts":["b","c"]}]}}`, `t.json:1: root: host "b" is in two of the children`},
		{`{"root":{"hosts":["a","b","c"],"children":[{"hosts":["a"]},{"hosts":["b"]}]}}`, `t.json:1: root: host "c" is in none of the children`},
		{`{"root":{"hosts":["a","b"],"children":[{"hosts":["a","c"]},{"hosts":["b"]}]}}`, `t.json:1: root: host "c" of a child is not among the hosts`},
		{`{"root":{"children":[{"hosts":["a","b","c"]}]}}`, "t.json:1: root: one child, which splits nothing"},
		{"{\"root\":{\"children\":[\nnull]}}", "t.json:2: root: children[0]: want an object, found null"},
		{"{\"root\":{\"children\":[{\"hosts\":[\"a\"]},\n{\"hosts\":[\"z\"]}]}}", `t.json:2: root: children[1]: hosts[0]: unknown host "z"`},
		{`{"root":{"hosts":["a"],"hosts":["b"]}}`, `t.json:1: root: "hosts" is given twice`},
		{`{"root":{"hosts":["a","b","c"],"threshold_mbps":-1}}`, "t.json:1: root: threshold_mbps: -1 is not in 0 … 1e+07"},
		{`{"band":-1,"root":{"hosts":["a","b","c"]}}`, "t.json:1: band: -1 is not in 0 … 1"},
		{`{"root":{"hosts":["a","b","c"],"threshold_mbps":"1Mbps"}}`, `t.json:1: root: threshold_mbps: want a number, found "1Mbps"`},
		{"{\"criterion\":\n\"x\\u001b[31m\"}", `t.json:2: criterion: "x\x1b[31m" holds the control character '\x1b'`},
		{`{"root":` + strings.Repeat(`{"children":[`, 20000), "t.json:1: not JSON: invalid character '[' exceeded max depth"},
	} {
		if _, err := Read("t.json", []byte(tt.text), hosts); err == nil || err.Error() != tt.want {
			t.Errorf("%.80s:\n got %v\nwant %v", tt.text, err, tt.want)
		}
	}
	if _, err := Read("t.json", []byte("\n{}"), hosts); err == nil || err.Error() != "t.json:1: root is missing" {
		t.Errorf("without a name: %v", err)
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
		tree, err := Read("in", in, hosts)
		if err != nil {
			if e, ok := errors.AsType[*jsonwalk.Error](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) || len(err.Error()) > 1000 {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		if err := tree.Check(len(hosts)); err != nil {
			t.Fatalf("read, but: %v", err)
		}
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v", err)
		}
		if back, err := Read("t.json", text, hosts); err != nil || back.String() != tree.String() {
			t.Fatalf("%v\n%v\n%v", err, back, tree)
		}
	})
}
