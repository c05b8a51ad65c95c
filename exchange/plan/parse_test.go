package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// formatsExample is the plan of docs/formats.md with its transfer made valid, and a key from the future.
const formatsExample = `{"collective":"alltoall","algorithm":"aapc","hosts":["n0","n1"],"message_bytes":65536,"phases":9,
 "makespan_s":1.23,"bound_s":1.20, "colour": {"of": ["the", {"bike": "]}\"shed"}]},
 "transfers":[{"id":0,"src":0,"dst":1,"blocks":[{"origin":0,"dest":1}],"phase":0,"after":[],"sync":"sender","start":0.0,"end":0.1}]}`

func TestParseExample(t *testing.T) {
	p, err := Parse([]byte(formatsExample))
	if err != nil {
		t.Fatal(err)
	}
	want := &Plan{Collective: Alltoall, Algorithm: "aapc", Hosts: []string{"n0", "n1"}, MessageBytes: 65536, Phases: 9, Makespan: 1.23, Bound: 1.2,
		Transfers: []Transfer{{Src: 0, Dst: 1, Blocks: []Block{{Origin: 0, Dest: 1}}, Sync: "sender", End: 0.1}}}
	if !p.Equal(want) {
		t.Errorf("got %+v", p)
	}
	want.Transfers[0].Blocks[0].Dest = 0
	if p.Equal(want) {
		t.Error("Equal does not look at blocks")
	}
}

func goldenPlans() map[string]*Plan {
	gather := &Plan{Collective: Allgather, Algorithm: "min3", Hosts: []string{"ut0", "uk0", "nth0"}, MessageBytes: 65536, Makespan: 0.8, Bound: 0.75}
	gather.add(0, 1, []Block{{Origin: 0, Dest: All}})
	gather.add(1, 2, []Block{{Origin: 0, Dest: All}, {Origin: 1, Dest: All}}, 0)
	gather.Transfers[0].End = 0.4
	gather.Transfers[1].Start, gather.Transfers[1].End = 0.4, 0.8
	phases := &Plan{Collective: Alltoall, Algorithm: "aapc", Hosts: []string{"a", "b \"c\" <d>"}, Matrix: [][]int64{{0, 1}, {2, 0}}, Phases: 1}
	phases.add(0, 1, []Block{{Origin: 0, Dest: 1}})
	phases.add(1, 0, []Block{{Origin: 1, Dest: 0}}, 0)
	for i := range phases.Transfers {
		phases.Transfers[i].Phase, phases.Transfers[i].Sync = 0, "barrier"
	}
	pieces := &Plan{Collective: Allgather, Algorithm: "packed", Hosts: []string{"a", "b"}, MessageBytes: 4096,
		Cuts: []Cut{{Origin: 0, Dest: All, At: []int64{1024, 3072}}}}
	pieces.add(0, 1, []Block{{Origin: 0, Dest: All}, {Origin: 0, Dest: All, Piece: 1}})
	pieces.add(0, 1, []Block{{Origin: 0, Dest: All, Piece: 2}})
	pieces.add(1, 0, []Block{{Origin: 1, Dest: All}})
	return map[string]*Plan{
		"pieces":     pieces,
		"allgather":  gather,
		"alltoallv":  phases,
		"allgatherv": {Collective: Allgather, Algorithm: "ring", Hosts: []string{"one"}, Sizes: []int64{12}},
	}
}

func TestGoldenJSON(t *testing.T) {
	for name, p := range goldenPlans() {
		path := filepath.Join("testdata", name+".golden")
		got, err := p.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
		q, err := Read(path, want)
		if err != nil || !q.Equal(p) {
			t.Errorf("%s read back: %v\n%+v", name, err, q)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(8)
		pools := randomPools(rng, n)
		p := randomAllgather(rng, n, pools, randomSizes(rng, n))
		if rng.IntN(2) == 0 {
			p = randomAlltoall(rng, n)
		}
		schedule(p, randomSnapshot(rng, n, pools), FullDuplex)
		var q Plan
		// encoding/json calls both methods, and compacts between them.
		data, err := json.Marshal(p)
		if err == nil {
			err = json.Unmarshal(data, &q)
		}
		if err != nil || !q.Equal(p) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestAppendJSONRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*Plan){
		"transfers[1]: dst: 7":                func(p *Plan) { p.Transfers[1].Dst = 7 },
		`hosts[2]: "a\x1b"`:                   func(p *Plan) { p.Hosts[2] = "a\x1b" },
		`algorithm: "\n"`:                     func(p *Plan) { p.Algorithm = "\n" },
		`transfers[0]: sync: "`:               func(p *Plan) { p.Transfers[0].Sync = "\u009b" },
		`transfers[1]: sync: "recvr" is none`: func(p *Plan) { p.Transfers[1].Sync = "recvr" },
	} {
		p := goldenPlans()["allgather"]
		spoil(p)
		if out, err := p.AppendJSON([]byte("x")); err == nil || string(out) != "x" || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, %v, want %s", out, err, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	good := strings.Join([]string{
		`{"collective":"allgather",`,
		`"hosts":["a",`,
		`"b"],`,
		`"message_bytes":4,`,
		`"transfers":[`,
		`{"id":0,"src":0,"dst":1,"blocks":[{"origin":0,"dest":-1}],"after":[]},`,
		`{"id":1,"src":1,"dst":0,"blocks":[{"origin":1,"dest":-1}],"after":[0],`,
		`"start":0.5,"end":1}`,
		`]}`}, "\n")
	if _, err := Read("p.json", []byte(good)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ old, new, want string }{
		{`"dst":1,`, `"dst":1`, `p.json:6: not JSON: invalid character '"' after object key:value pair`},
		{`[]},`, `[],`, `p.json:7: not JSON: invalid character '{' looking for beginning of object key string`},
		{good, ``, `p.json:1: not JSON: unexpected end of JSON input`},
		{good, `[1]`, `p.json:1: want an object, found a list`},
		{good, `{}`, `p.json:1: "collective" is missing`},
		{`"message_bytes":4,`, ``, `p.json:1: neither "message_bytes" nor "sizes" says how large blocks are`},
		{`"message_bytes":4,`, `"sizes":[1],`, `p.json:4: sizes: 1 sizes for 2 hosts`},
		{`"message_bytes":4,`, "\"sizes\":[[1,2],\n[3,4]],", `p.json:4: sizes: a matrix has no meaning for allgather, want a list of 2`},
		{`"message_bytes":4,`, "\"sizes\":[1,\n[3,4]],", `p.json:5: sizes: a row stands among numbers`},
		{`"message_bytes":4,`, "\"sizes\":[[3,4],\n1],", `p.json:5: sizes: 1 stands among rows`},
		{`"message_bytes":4,`, "\"sizes\":[1,\n-2],", `p.json:5: sizes: -2 is not in 0…1125899906842624`},
		{`"message_bytes":4,`, `"message_bytes":4, "sizes":[1,2],`, `p.json:4: sizes: given beside message_bytes 4; one of the two says how large blocks are`},
		{`"message_bytes":4,`, "\"message_bytes\":4,\n\"cuts\":[{\"origin\":0,\"dest\":-1}],", `p.json:5: cuts[0]: "at" is missing`},
		{`"message_bytes":4,`, "\"message_bytes\":4, \"cuts\":[\n{\"origin\":0,\"dest\":-1,\"at\":[2,2]}],", `p.json:5: cuts[0]: at 2: want bytes that rise, inside a block of 4`},
		{`{"origin":1,"dest":-1}`, `{"origin":1,"dest":-1,"piece":1}`, `p.json:7: transfers[1]: blocks: piece 1 of the block of b, which has 1`},
		{`"message_bytes":4`, `"message_bytes":4.5`, `p.json:4: message_bytes: 4.5 is not a whole number`},
		{`"message_bytes":4`, `"message_bytes":99999999999999999999`, `p.json:4: message_bytes: 99999999999999999999 is not in 0…1125899906842624`},
		{`"message_bytes":4`, `"message_bytes":"4"`, `p.json:4: message_bytes: want a number, found "4"`},
		{`"allgather"`, `"allsend"`, `p.json:1: collective: "allsend" is neither allgather nor alltoall`},
		{`"b"]`, `"a"]`, `p.json:3: hosts[1]: "a" is already host 0`},
		{`"b"]`, `7]`, `p.json:3: hosts[1]: want a string, found 7`},
		{`"src":1`, `"src":9`, `p.json:7: transfers[1]: src: 9 is none of the 2 hosts`},
		{`"src":1`, `"src":-1`, `p.json:7: transfers[1]: src: -1 is not in 0…2147483647`},
		{`"src":1,`, ``, `p.json:7: transfers[1]: "src" is missing`},
		{`"src":1,`, `"src":1,"src":1,`, `p.json:7: transfers[1]: "src" is given twice`},
		{`"src":1`, `"src":0`, `p.json:7: transfers[1]: host 0 (a) sends to itself`},
		{`"id":1`, `"id":2`, `p.json:7: transfers[1]: id: 2, want the index 1`},
		{`"after":[0]`, `"after":[2]`, `p.json:7: transfers[1]: after: 2 is none of the 2 transfers`},
		{`"after":[0]`, `"after":0`, `p.json:7: transfers[1]: after: want a list, found 0`},
		{`"after":[0]`, `"after":[0],"phase":-1`, `p.json:7: transfers[1]: phase: -1 is not in 0…2147483647`},
		{`{"origin":1,"dest":-1}`, `{"origin":1,"dest":0}`, `p.json:7: transfers[1]: blocks: dest 0, want -1 in an allgather`},
		{`{"origin":1,"dest":-1}`, `{"origin":1}`, `p.json:7: transfers[1]: blocks: "dest" is missing`},
		{`[{"origin":1,"dest":-1}]`, `[]`, `p.json:7: transfers[1]: blocks: the transfer carries none`},
		{`"end":1`, `"end":0.25`, `p.json:7: transfers[1]: end 0.25 s comes before start 0.5 s`},
		{`"end":1`, `"end":1e999`, `p.json:8: transfers[1]: end: 1e999 is too large`},
		{`"end":1`, `"end":1e10`, `p.json:7: transfers[1]: end: 1e+10 s is not in 0…1e+09`},
		{`"b"]`, "\"b\\u001b[2J\"]", `p.json:3: hosts[1]: "b\x1b[2J" holds the control character '\x1b'`},
		{`"b"]`, `"` + strings.Repeat("b", 300) + `"]`, `p.json:3: hosts[1]: "` + strings.Repeat("b", 40) + `…" is longer than 255 bytes`},
		{`"after":[0]`, `"sync":"a\nb"`, `p.json:7: transfers[1]: sync: "a\nb" holds the control character '\n'`},
		{`"message_bytes":4`, `"message_bytes":` + strings.Repeat("4", 999), `p.json:4: message_bytes: ` + strings.Repeat("4", 40) + `… is not in 0…1125899906842624`},
		{`"src":1`, "\"src\":\"\x7f\"", `p.json:7: transfers[1]: src: want a number, found "\x7f"`},
		{`"end":1`, `"end":null`, `p.json:8: transfers[1]: end: want a number, found null`},
	}
	for _, tt := range tests {
		if !strings.Contains(good, tt.old) {
			t.Fatalf("%q is not in the plan", tt.old)
		}
		_, err := Read("p.json", []byte(strings.Replace(good, tt.old, tt.new, 1)))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s -> %s:\n got %v\nwant %s", tt.old, tt.new, err, tt.want)
		}
		if _, ok := errors.AsType[*ParseError](err); !ok {
			t.Errorf("%T is no ParseError", err)
		}
	}
	if _, err := Parse([]byte("\n{")); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("without a name: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(formatsExample))
	for _, p := range goldenPlans() {
		data, err := p.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("{\"hosts\":[\"a\\u001b\"],\n\"collective\":\"allgather\",\"transfers\":null}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Read("in", in)
		if err != nil {
			if e, ok := errors.AsType[*ParseError](err); !ok || e.Line < 1 || e.Line > 1+bytes.Count(in, []byte("\n")) {
				t.Fatalf("%v names no line of the file", err)
			}
			return
		}
		out, err := p.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := Parse(out); err != nil || !p.Equal(q) {
			t.Fatalf("round trip: %v\n%s", err, out)
		}
		// Whatever can be read can be judged and predicted without a panic.
		_ = Verify(p, Rules{Duplex: FullDuplex, Chunked: true})
		if len(p.Hosts) <= 8 {
			_, _ = Simulate(p, homogeneous(p.Hosts, 1e6, 0), SimOptions{Chunk: 1 << 40, Overtake: true})
		}
	})
}

// TestLeadRoundTrip: a lead is read as it was written, and refused where it has no meaning.
func TestLeadRoundTrip(t *testing.T) {
	p := goldenPlans()["alltoallv"]
	for _, tc := range []struct {
		claim Claim
		ok    bool
	}{
		{Claim{Kind: SyncReceiver, Lead: 16384}, true},
		{Claim{Kind: SyncReceiver, Lead: MaxLead + 1}, false},
		{Claim{Kind: SyncReceiver, Lead: -1}, false},
		{Claim{Kind: SyncReceiver, Block: 2, Lead: 1}, false},
		{Claim{Kind: SyncSender, Lead: 1}, false},
	} {
		p.Sync = &tc.claim
		text, err := p.AppendJSON(nil)
		if err == nil {
			var q *Plan
			if q, err = Parse(text); err == nil && !p.Equal(q) {
				t.Errorf("%+v became %+v", tc.claim, q.Sync)
			}
		}
		if (err == nil) != tc.ok {
			t.Errorf("%+v: %v", tc.claim, err)
		}
	}
}
