package exchange

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// TestSplitAgrees checks what the parts of one plan must say of each other.
func TestSplitAgrees(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 20))
		p := randomPlan(rng, 64)
		parts, err := Split(p, ID{1}, 64, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sends, recvs := make(map[int]int), make(map[int]int)
		type token struct {
			milestone
			from, to int
		}
		tokens := make(map[token]int)
		for h, part := range parts {
			for _, s := range part.Sends {
				sends[s.ID]++
				tr := p.Transfers[s.ID]
				if tr.Src != h || tr.Dst != s.Dst || len(tr.Blocks) != len(s.Blocks) {
					t.Fatalf("seed %d: transfer %d became %+v", seed, s.ID, s)
				}
				for _, w := range s.Waits {
					if !slices.Contains(tr.After, w.Transfer) {
						t.Fatalf("seed %d: transfer %d waits for %d, which is not in %v", seed, s.ID, w.Transfer, tr.After)
					}
					if x := p.Transfers[w.Transfer]; x.Dst != h && x.Src != h {
						tokens[token{w.milestone(), w.Host, h}] |= 1
					}
				}
			}
			for _, s := range part.Sends {
				for _, to := range s.Notify {
					tokens[token{milestone{s.ID, true}, h, to}] |= 2
				}
			}
			for _, r := range part.Recvs {
				recvs[r.ID]++
				for _, to := range r.Notify {
					tokens[token{milestone{r.ID, false}, h, to}] |= 2
				}
			}
		}
		if len(sends) != len(p.Transfers) || len(recvs) != len(p.Transfers) {
			t.Fatalf("seed %d: %d sends and %d receives for %d transfers", seed, len(sends), len(recvs), len(p.Transfers))
		}
		for k, v := range tokens {
			if v != 3 {
				t.Fatalf("seed %d: token %+v: expected and sent: %02b", seed, k, v)
			}
		}
	}
}

func TestPartRoundTrip(t *testing.T) {
	if gridtest.Race {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by six")
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 21))
		p := randomPlan(rng, 64)
		parts, err := Split(p, ID{byte(seed)}, 64, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for h, part := range parts {
			b := part.AppendTo(nil)
			q, err := ParsePart(b)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !samePart(part, q) {
				t.Fatalf("seed %d: host %d: wrote\n%+v\nread\n%+v", seed, h, part, q)
			}
			for n := range b {
				if _, err := ParsePart(b[:n]); err == nil {
					t.Fatalf("seed %d: accepted the first %d of %d bytes", seed, n, len(b))
				}
			}
		}
	}
}

// samePart compares parts; nil and empty lists are the same.
func samePart(a, b *Part) bool {
	clean := func(p *Part) Part {
		c := *p
		c.Blocks = append([]Block{}, c.Blocks...)
		c.Sends = append([]Send{}, c.Sends...)
		c.Recvs = append([]Recv{}, c.Recvs...)
		for i := range c.Sends {
			c.Sends[i].Blocks = append([]int{}, c.Sends[i].Blocks...)
			c.Sends[i].Waits = append([]Wait{}, c.Sends[i].Waits...)
			c.Sends[i].Notify = append([]int{}, c.Sends[i].Notify...)
		}
		for i := range c.Recvs {
			c.Recvs[i].Blocks = append([]int{}, c.Recvs[i].Blocks...)
			c.Recvs[i].Notify = append([]int{}, c.Recvs[i].Notify...)
		}
		return c
	}
	return reflect.DeepEqual(clean(a), clean(b))
}

// TestPartIsSmall bounds the encoding for 20 hosts: it crosses links of 1 Mbit/s.
func TestPartIsSmall(t *testing.T) {
	for _, tc := range []struct {
		name string
		plan *plan.Plan
		max  int
	}{
		{"ring", ringPlan(20), 500},
		{"trees", treePlan(rand.New(rand.NewPCG(1, 22)), 20), 600},
		{"sites", sitesPlan(rand.New(rand.NewPCG(1, 22)), 20), 600},
		{"alltoall", alltoallPlan(rand.New(rand.NewPCG(1, 22)), 20, 0), 600},
	} {
		tc.plan.MessageBytes = 64 << 10
		parts, err := Split(tc.plan, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		largest := 0
		for _, part := range parts {
			largest = max(largest, len(part.AppendTo(nil)))
		}
		t.Logf("%s over 20 hosts: largest part %d bytes", tc.name, largest)
		if largest > tc.max {
			t.Errorf("%s over 20 hosts: largest part has %d bytes, want at most %d", tc.name, largest, tc.max)
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	all := func(o int) plan.Block { return plan.Block{Origin: o, Dest: plan.All} }
	for _, tc := range []struct {
		name string
		edit func(p *plan.Plan)
		want string
	}{
		{"never held", func(p *plan.Plan) { p.Transfers[0].Blocks[0] = all(2) }, "both deliver"},
		{"missing", func(p *plan.Plan) { p.Transfers = p.Transfers[:5] }, "nothing delivers block {1 -1} to host 0"},
		{"no block", func(p *plan.Plan) { p.Transfers[0].Blocks = nil }, "never holds"},
		{"to itself", func(p *plan.Plan) { p.Transfers[0].Dst = 0 }, "from host 0 to host 0"},
		{"host out of range", func(p *plan.Plan) { p.Transfers[0].Dst = 3 }, "to host 3 of 3"},
		{"block out of range", func(p *plan.Plan) { p.Transfers[0].Blocks[0].Origin = 9 }, "block {9 -1}"},
		{"after nothing", func(p *plan.Plan) { p.Transfers[0].After = []int{77} }, "after transfer 77 of 6"},
		{"circle", func(p *plan.Plan) { p.Transfers[0].After = []int{4} }, "circle"},
		{"wrong id", func(p *plan.Plan) { p.Transfers[1].ID = 0 }, "index 1 has id 0"},
		{"twice", func(p *plan.Plan) { p.Transfers[1] = p.Transfers[0]; p.Transfers[1].ID = 1 }, "both deliver"},
		{"sizes", func(p *plan.Plan) { p.Sizes = []int64{1} }, "sizes for 1 hosts"},
		{"negative size", func(p *plan.Plan) { p.MessageBytes = -1 }, "-1 bytes"},
		{"no such piece", func(p *plan.Plan) { p.Transfers[0].Blocks[0].Piece = 1 }, "carries piece 1 of block {0 -1 1}, which has 1"},
		{"a piece is left out", func(p *plan.Plan) { p.Cuts = []plan.Cut{{Origin: 0, Dest: plan.All, At: []int64{4}}} }, "nothing delivers block {0 -1 1} to host 1"},
		{"collective", func(p *plan.Plan) { p.Collective = "gather" }, `"gather"`},
		{"same name", func(p *plan.Plan) { p.Hosts[1] = "host0" }, `"host0" twice`},
	} {
		p := ringPlan(3)
		p.MessageBytes = 10
		tc.edit(p)
		if _, err := Split(p, ID{}, 4, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

// TestPartOfOldRelease: a part without pieces is written as agents without them read it, and a
// piece 0 has the number that its block had.
func TestPartOfOldRelease(t *testing.T) {
	for _, pieces := range []bool{false, true} {
		p := ringPlan(3)
		p.MessageBytes = 100
		if pieces {
			p.Cuts = []plan.Cut{{Origin: 1, Dest: plan.All, At: []int64{40}}}
			for i := range p.Transfers {
				if t := &p.Transfers[i]; t.Blocks[0].Origin == 1 {
					t.Blocks = append(t.Blocks, plan.Block{Origin: 1, Dest: plan.All, Piece: 1})
				}
			}
		}
		parts, err := Split(p, ID{}, 16, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]byte{false: partVersion, true: piecesVersion}[pieces]
		if got := parts[0].AppendTo(nil)[0]; got != want {
			t.Errorf("pieces %v: version %d, want %d", pieces, got, want)
		}
		var numbers []int
		for _, b := range parts[0].Blocks {
			numbers = append(numbers, parts[0].Number(b.Block))
		}
		if want := []int{0, 1, 2, 4}[:len(numbers)]; !slices.Equal(numbers, want) {
			t.Errorf("pieces %v: blocks have numbers %v, want %v", pieces, numbers, want)
		}
	}
}

// TestValidateRefuses edits a good part in every way that would make a run go wrong.
func TestValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(p *Part)
	}{
		{"self", func(p *Part) { p.Self = 4 }},
		{"no chunk", func(p *Part) { p.Chunk = 0 }},
		{"empty name", func(p *Part) { p.Hosts = slices.Clone(p.Hosts); p.Hosts[0] = "" }},
		{"origin", func(p *Part) { p.Blocks[0].Origin = 4 }},
		{"dest", func(p *Part) { p.Blocks[0].Dest = 0 }},
		{"role", func(p *Part) { p.Blocks[0].Role = Want }},
		{"role of other", func(p *Part) { p.Blocks[1].Role = Origin }},
		{"size", func(p *Part) { p.Blocks[0].Size = -1 }},
		{"piece of a whole", func(p *Part) { p.Blocks[3].Piece = 1 }},
		{"pieces", func(p *Part) { p.Blocks[3].Piece, p.Blocks[3].Cut = maxPieces, true }},
		{"offset of a whole", func(p *Part) { p.Blocks[0].Offset = 1 }},
		{"offset", func(p *Part) { p.Blocks[0].Offset, p.Blocks[0].Cut = -1, true }},
		{"total", func(p *Part) { p.Blocks[0].Size = maxBytes; p.Chunk = maxChunk }},
		{"too many chunks", func(p *Part) { p.Blocks[0].Size = maxEntries; p.Chunk = 1 }},
		{"block order", func(p *Part) { p.Blocks[1], p.Blocks[2] = p.Blocks[2], p.Blocks[1] }},
		{"undelivered", func(p *Part) { p.Recvs = p.Recvs[1:] }},
		{"recv from self", func(p *Part) { p.Recvs[0].Src = 0 }},
		{"recv order", func(p *Part) { p.Recvs[0].ID = p.Recvs[1].ID }},
		{"no blocks", func(p *Part) { p.Recvs[0].Blocks = nil }},
		{"recv own", func(p *Part) { p.Recvs[0].Blocks = []int{0} }},
		{"block index", func(p *Part) { p.Sends[0].Blocks = []int{99} }},
		{"same send", func(p *Part) { p.Sends[0].Blocks = []int{0, 0} }},
		{"send id", func(p *Part) { p.Sends[0].ID = p.Recvs[0].ID }},
		{"send to self", func(p *Part) { p.Sends[0].Dst = 0 }},
		{"wait self", func(p *Part) { p.Sends[0].Waits = []Wait{{p.Sends[0].ID, 1, false}} }},
		{"wait host", func(p *Part) { p.Sends[0].Waits = []Wait{{500, 4, false}} }},
		{"wait here", func(p *Part) { p.Sends[0].Waits = []Wait{{500, 0, true}} }},
		{"wait elsewhere", func(p *Part) { p.Sends[0].Waits = []Wait{{p.Recvs[0].ID, 2, false}} }},
		{"wait twice", func(p *Part) { p.Sends[0].Waits = []Wait{{500, 1, true}, {500, 1, true}} }},
		{"wait for it to leave elsewhere", func(p *Part) { p.Sends[0].Waits = []Wait{{p.Recvs[0].ID, 0, true}} }},
		{"left notify self", func(p *Part) { p.Sends[0].Notify = []int{0} }},
		{"left notify nobody", func(p *Part) { p.Sends[0].Notify = []int{4} }},
		{"notify self", func(p *Part) { p.Recvs[0].Notify = []int{0} }},
		{"notify sender", func(p *Part) { p.Recvs[0].Notify = []int{p.Recvs[0].Src} }},
		{"notify order", func(p *Part) { p.Recvs[0].Notify = []int{2, 1} }},
	} {
		p := ringPlan(4)
		p.MessageBytes = 100
		parts, err := Split(p, ID{}, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		tc.edit(parts[0])
		if err := parts[0].Validate(); err == nil {
			t.Errorf("%s: accepted", tc.name)
		}
	}
}

func FuzzParsePart(f *testing.F) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 23))
		p := randomPlan(rng, 64)
		parts, err := Split(p, ID{byte(seed)}, 64, nil)
		if err != nil {
			f.Fatal(err)
		}
		if seed%2 == 1 {
			Weigh(parts, func(host string) string { return host[len(host)-1:] })
		}
		for _, part := range parts {
			f.Add(part.AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := ParsePart(in)
		if err != nil {
			return
		}
		q, err := ParsePart(p.AppendTo(nil))
		if err != nil || !samePart(p, q) {
			t.Fatalf("round trip: %v\n%+v\n%+v", err, p, q)
		}
	})
}
