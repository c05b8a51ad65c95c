package plan

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// property returns the property that err names, "" for no error.
func property(t *testing.T, err error) Property {
	t.Helper()
	if err == nil {
		return ""
	}
	v, ok := errors.AsType[*Violation](err)
	if !ok {
		t.Fatalf("%v is no violation", err)
	}
	return v.Property
}

func clone(t *testing.T, p *Plan) *Plan {
	t.Helper()
	data, err := p.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestVerifyHandWritten(t *testing.T) {
	// n0 and n1 are one site, n2 the other; n1 passes n2's block on to n0.
	base := func() *Plan {
		p := &Plan{Collective: Allgather, Hosts: hostNames(3), MessageBytes: 100}
		p.add(0, 1, []Block{{Origin: 0, Dest: All}})    // 0
		p.add(2, 1, []Block{{Origin: 2, Dest: All}})    // 1
		p.add(1, 2, []Block{{Origin: 1, Dest: All}})    // 2
		p.add(1, 0, []Block{{Origin: 1, Dest: All}})    // 3
		p.add(1, 0, []Block{{Origin: 2, Dest: All}}, 1) // 4
		p.add(1, 2, []Block{{Origin: 0, Dest: All}}, 0) // 5
		return p
	}
	pools := [][]int{{0, 1}, {2}}
	tests := []struct {
		name      string
		change    func(p *Plan)
		property  Property
		transfers []int
		detail    string
	}{
		{"valid", func(*Plan) {}, "", nil, ""},
		{"host out of range", func(p *Plan) { p.Transfers[3].Dst = 3 }, WellFormed, []int{3}, "dst: 3"},
		{"id", func(p *Plan) { p.Transfers[2].ID = 5 }, WellFormed, []int{2}, "id: 5"},
		{"negative size", func(p *Plan) { p.MessageBytes = -1 }, WellFormed, nil, "message_bytes: -1"},
		{"alltoall block", func(p *Plan) { p.Transfers[0].Blocks[0].Dest = 1 }, WellFormed, []int{0}, "dest 1"},
		{"more bytes than an int64 counts", func(p *Plan) {
			p.MessageBytes = maxBytes
			for range maxTotal / maxBytes {
				p.add(0, 1, []Block{{Origin: 0, Dest: All}})
			}
		}, WellFormed, []int{1024}, "carry more than"},
		{"after itself", func(p *Plan) { p.Transfers[3].After = []int{3} }, Acyclic, []int{3}, ""},
		{"cycle", func(p *Plan) { p.Transfers[1].After = []int{5}; p.Transfers[0].After = []int{4} }, Acyclic, []int{0, 5, 1, 4}, ""},
		{"twice in one transfer", func(p *Plan) { p.Transfers[0].Blocks = append(p.Transfers[0].Blocks, Block{Origin: 0, Dest: All}) }, NoDuplicate, []int{0}, "of n0 reaches n1 twice"},
		{"twice", func(p *Plan) { p.add(2, 0, []Block{{Origin: 2, Dest: All}}) }, NoDuplicate, []int{4, 6}, "of n2 reaches n0 twice"},
		{"home again", func(p *Plan) { p.add(1, 2, []Block{{Origin: 2, Dest: All}}, 1) }, NoDuplicate, []int{6}, "back to n2"},
		{"not waiting", func(p *Plan) { p.Transfers[4].After = nil }, Causal, []int{1, 4}, "n1 sends block of n2"},
		{"waiting for the wrong one", func(p *Plan) { p.Transfers[4].After = []int{0, 2, 3} }, Causal, []int{1, 4}, "n1 sends block of n2"},
		{"waiting through another", func(p *Plan) { p.Transfers[3].After = []int{1}; p.Transfers[4].After = []int{3} }, "", nil, ""},
		{"never there", func(p *Plan) { p.Transfers[2].Src, p.Transfers[2].Dst = 0, 2; p.Transfers = p.Transfers[:3] }, Causal, []int{2}, "never holds"},
		{"missing", func(p *Plan) { p.Transfers = p.Transfers[:5] }, Complete, nil, "of n0 never reaches n2"},
		{"missing nothing", func(p *Plan) {
			p.Transfers = p.Transfers[:5]
			p.MessageBytes, p.Sizes = 0, []int64{0, 7, 7}
		}, "", nil, ""},
		{"two ways into a pool", func(p *Plan) { p.Transfers[4].Src, p.Transfers[4].After = 2, nil }, OncePerPool, []int{1, 4}, "enters pool 0 twice"},
		{"out and back", func(p *Plan) {
			p.Transfers[0].Src, p.Transfers[0].After = 2, []int{5}
			p.Transfers[5].Src, p.Transfers[5].After = 0, nil
		}, OncePerPool, []int{0}, "comes back into pool 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := base()
			tt.change(p)
			err := Verify(p, Rules{Pools: pools})
			if got := property(t, err); got != tt.property {
				t.Fatalf("got %q, want %q: %v", got, tt.property, err)
			}
			if err == nil {
				return
			}
			v, _ := errors.AsType[*Violation](err)
			if !slices.Equal(v.Transfers, tt.transfers) {
				t.Errorf("transfers %v, want %v", v.Transfers, tt.transfers)
			}
			if !strings.Contains(err.Error(), tt.detail) {
				t.Errorf("%q does not say %q", err, tt.detail)
			}
		})
	}
}

// TestVerifyPieces cuts the block of n0 of 100 bytes at 40; its second piece goes to n1 by way of n2.
func TestVerifyPieces(t *testing.T) {
	piece := func(i int) []Block { return []Block{{Origin: 0, Dest: All, Piece: i}} }
	base := func() *Plan {
		p := &Plan{Collective: Allgather, Hosts: hostNames(3), Sizes: []int64{100, 0, 0}, Cuts: []Cut{{Origin: 0, Dest: All, At: []int64{40}}}}
		p.add(0, 1, piece(0))    // 0
		p.add(0, 2, piece(1))    // 1
		p.add(2, 1, piece(1), 1) // 2
		p.add(0, 2, piece(0))    // 3
		return p
	}
	pools := [][]int{{1, 2}}
	for _, tt := range []struct {
		name     string
		change   func(p *Plan)
		property Property
		detail   string
	}{
		{"valid, but for the pool", func(*Plan) {}, OncePerPool, "block of n0[0] enters pool 0 twice"},
		{"valid", func(p *Plan) { p.Transfers[3].Src, p.Transfers[3].After = 1, []int{0} }, "", ""},
		{"missing piece", func(p *Plan) { p.Transfers = p.Transfers[:3] }, Complete, "of n0[0] never reaches n2"},
		{"the wrong piece", func(p *Plan) { p.Transfers[2].Blocks = piece(0) }, NoDuplicate, "of n0[0] reaches n1 twice"},
		{"a third piece", func(p *Plan) { p.Transfers[2].Blocks = piece(2) }, WellFormed, "piece 2 of the block of n0[0], which has 2"},
		{"a piece of what is whole", func(p *Plan) { p.add(1, 0, []Block{{Origin: 1, Dest: All, Piece: 1}}) }, WellFormed, "piece 1 of the block of n1, which has 1"},
		{"cut outside", func(p *Plan) { p.Cuts[0].At[0] = 100 }, WellFormed, "cuts[0]: at 100"},
		{"cut nowhere", func(p *Plan) { p.Cuts[0].At = nil }, WellFormed, "1 pieces, want 2…4096"},
		{"cut twice", func(p *Plan) { p.Cuts = append(p.Cuts, p.Cuts[0]) }, WellFormed, "cuts[1]: the block of n0[0] does not come after"},
		{"cut of another collective", func(p *Plan) { p.Cuts[0].Dest = 1 }, WellFormed, "dest 1, want -1"},
		{"cut of nobody", func(p *Plan) { p.Cuts[0].Origin = 3 }, WellFormed, "origin 3 is none of the 3 hosts"},
	} {
		p := base()
		tt.change(p)
		err := Verify(p, Rules{Pools: pools})
		if got := property(t, err); got != tt.property || err != nil && !strings.Contains(err.Error(), tt.detail) {
			t.Errorf("%s: got %v, want %q, %q", tt.name, err, tt.property, tt.detail)
		}
	}
	p := base()
	for i, want := range [][2]int64{{0, 40}, {40, 100}} {
		if from, to := p.Span(piece(i)[0]); from != want[0] || to != want[1] || p.Size(piece(i)[0]) != to-from {
			t.Errorf("piece %d is %d…%d with %d bytes, want %v", i, from, to, p.Size(piece(i)[0]), want)
		}
	}
}

func TestVerifyAlltoallRelay(t *testing.T) {
	p := &Plan{Collective: Alltoall, Hosts: hostNames(3), MessageBytes: 8}
	p.add(0, 1, []Block{{Origin: 0, Dest: 1}, {Origin: 0, Dest: 2}})
	p.add(1, 2, []Block{{Origin: 0, Dest: 2}, {Origin: 1, Dest: 2}}, 0)
	p.add(2, 0, []Block{{Origin: 2, Dest: 0}})
	p.add(2, 1, []Block{{Origin: 2, Dest: 1}})
	p.add(1, 0, []Block{{Origin: 1, Dest: 0}})
	if err := Verify(p, Rules{}); err != nil {
		t.Fatal(err)
	}
	p.Transfers[1].Blocks = p.Transfers[1].Blocks[1:]
	if err := Verify(p, Rules{}); property(t, err) != Complete || !strings.Contains(err.Error(), "n0→n2 never reaches n2") {
		t.Errorf("a block left at its relay: %v", err)
	}
}

// Each mutation breaks one thing of a random valid plan; ok is false where the plan gives no occasion.
var mutations = []struct {
	name     string
	property Property
	mutate   func(rng *rand.Rand, p *Plan) (ok bool)
}{
	{"drop a delivery that nothing waits for", Complete, func(rng *rand.Rand, p *Plan) bool {
		needed := make([]bool, len(p.Transfers))
		for i := range p.Transfers {
			for _, a := range p.Transfers[i].After {
				needed[a] = true
			}
		}
		for _, i := range rng.Perm(len(p.Transfers)) {
			if needed[i] || p.Bytes(&p.Transfers[i]) == 0 {
				continue
			}
			p.Transfers = slices.Delete(p.Transfers, i, i+1)
			for j := range p.Transfers {
				p.Transfers[j].ID = j
				for k, a := range p.Transfers[j].After {
					if a > i {
						p.Transfers[j].After[k]--
					}
				}
			}
			return true
		}
		return false
	}},
	{"deliver twice", NoDuplicate, func(rng *rand.Rand, p *Plan) bool {
		t := p.Transfers[rng.IntN(len(p.Transfers))]
		p.add(t.Src, t.Dst, t.Blocks, t.After...)
		return true
	}},
	{"send before it is held", Causal, func(rng *rand.Rand, p *Plan) bool {
		// What follows a transfer brings its block to other hosts; let one of them have sent it.
		for _, i := range rng.Perm(len(p.Transfers)) {
			for j := i + 1; j < len(p.Transfers); j++ {
				if p.Transfers[j].Blocks[0] == p.Transfers[i].Blocks[0] && p.Transfers[j].Dst != p.Transfers[i].Dst {
					p.Transfers[i].Src = p.Transfers[j].Dst
					return true
				}
			}
		}
		return false
	}},
	{"wait for nothing", Causal, func(rng *rand.Rand, p *Plan) bool {
		for _, i := range rng.Perm(len(p.Transfers)) {
			if !starts(p.Transfers[i].Blocks[0], p.Transfers[i].Src) {
				p.Transfers[i].After = nil
				return true
			}
		}
		return false
	}},
	{"wait for what waits for it", Acyclic, func(rng *rand.Rand, p *Plan) bool {
		for _, i := range rng.Perm(len(p.Transfers)) {
			if len(p.Transfers[i].After) > 0 {
				a := p.Transfers[i].After[0]
				p.Transfers[a].After = append(p.Transfers[a].After, i)
				return true
			}
		}
		return false
	}},
	{"predict a start before the arrival", Causal, func(rng *rand.Rand, p *Plan) bool {
		for _, i := range rng.Perm(len(p.Transfers)) {
			t := &p.Transfers[i]
			if len(t.After) == 0 {
				continue
			}
			if end := p.Transfers[t.After[0]].End; end > 1e-6 {
				t.Start = end - 1e-6
				return true
			}
		}
		return false
	}},
	{"arrive before the data can", HostPort, func(rng *rand.Rand, p *Plan) bool {
		for _, i := range rng.Perm(len(p.Transfers)) {
			if t := &p.Transfers[i]; t.End-t.Start > 1e-6 {
				t.End -= 1e-7
				return true
			}
		}
		return false
	}},
	{"receive two at once", HostPort, func(rng *rand.Rand, p *Plan) bool {
		for _, i := range rng.Perm(len(p.Transfers)) {
			t := &p.Transfers[i]
			if len(t.After) > 0 || t.End == t.Start {
				continue
			}
			for j := range p.Transfers { // u ends well before t begins: t moves into it
				u := &p.Transfers[j]
				if u.Dst == t.Dst && u.End <= t.Start && u.End-u.Start > 1e-6 {
					lasts := t.End - t.Start
					t.Start = (u.Start + u.End) / 2
					t.End = t.Start + lasts
					return true
				}
			}
		}
		return false
	}},
	{"enter a pool twice", OncePerPool, nil}, // needs the pools: see TestMutatedPlans
	{"point outside", WellFormed, func(rng *rand.Rand, p *Plan) bool {
		p.Transfers[rng.IntN(len(p.Transfers))].After = []int{len(p.Transfers)}
		return true
	}},
}

func TestMutatedPlans(t *testing.T) {
	tried := make([]int, len(mutations))
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 2 + rng.IntN(9)
		pools := randomPools(rng, n)
		snapshot := randomSnapshot(rng, n, pools)
		var p *Plan
		if rng.IntN(3) > 0 {
			p = randomAllgather(rng, n, pools, randomSizes(rng, n))
		} else {
			p = randomAlltoall(rng, n)
			pools = nil
		}
		duplex := HalfDuplex + Duplex(rng.IntN(2))
		schedule(p, snapshot, duplex)
		rules := Rules{Pools: pools, Duplex: duplex, Snapshot: snapshot}
		if err := Verify(p, rules); err != nil {
			t.Fatalf("seed %d, %s duplex: a valid plan: %v", seed, duplex, err)
		}
		for k, m := range mutations {
			q := clone(t, p)
			r := rules
			mutate := m.mutate
			if mutate == nil {
				mutate = func(rng *rand.Rand, p *Plan) bool { return reenter(rng, p, pools) }
				r.Duplex = DuplexUnchecked // another source has other costs
			}
			if !mutate(rng, q) {
				continue
			}
			tried[k]++
			if err := Verify(q, r); property(t, err) != m.property {
				t.Fatalf("seed %d, %s: want %s, got %v", seed, m.name, m.property, err)
			}
		}
	}
	for k, m := range mutations {
		if tried[k] < 50 {
			t.Errorf("%q was tried %d times only", m.name, tried[k])
		}
	}
}

// reenter lets a delivery inside a pool come from outside, from the origin of the block.
func reenter(rng *rand.Rand, p *Plan, pools [][]int) bool {
	if pools == nil {
		return false
	}
	pool, _ := poolOf(len(p.Hosts), pools)
	for _, i := range rng.Perm(len(p.Transfers)) {
		t := &p.Transfers[i]
		origin := t.Blocks[0].Origin
		if pool[t.Src] == pool[t.Dst] && pool[origin] != pool[t.Dst] {
			t.Src = origin
			return true
		}
	}
	return false
}

// TestUnreached compares the batched closure with a plain search.
func TestUnreached(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(200)
		p := &Plan{Transfers: make([]Transfer, n)}
		shuffled := rng.Perm(n) // a topological order that is not by index
		pos := make([]int32, n)
		for k, i := range shuffled {
			pos[i] = int32(k)
			for range rng.IntN(3) {
				if k > 0 {
					p.Transfers[i].After = append(p.Transfers[i].After, shuffled[rng.IntN(k)])
				}
			}
		}
		var open []need
		for range rng.IntN(300) {
			a, b := rng.IntN(n), rng.IntN(n)
			if pos[a] < pos[b] {
				open = append(open, need{sender: int32(b), deliverer: int32(a)})
			}
		}
		var reaches func(from, to int) bool
		reaches = func(from, to int) bool {
			return from == to || slices.ContainsFunc(p.Transfers[from].After, func(a int) bool { return pos[a] >= pos[to] && reaches(a, to) })
		}
		want := int32(-1)
		for _, q := range open {
			if !reaches(int(q.sender), int(q.deliverer)) && (want < 0 || q.sender < want) {
				want = q.sender
			}
		}
		got, found := unreached(p, open, shuffled, pos)
		if found != (want >= 0) || found && got.sender != want {
			t.Fatalf("seed %d: got %v %v, want sender %d", seed, got, found, want)
		}
	}
}

func TestVerifyPorts(t *testing.T) {
	// Two transfers of one second each; times by hand.
	at := func(duplex Duplex, p *Plan, times ...float64) error {
		for i, s := range times {
			p.Transfers[i].Start, p.Transfers[i].End = s, s+1
		}
		return Verify(p, Rules{Duplex: duplex})
	}
	gather := func(a, b, c, d int) *Plan { // only zero-size blocks, so that two transfers are a whole plan
		p := &Plan{Collective: Alltoall, Hosts: hostNames(4)}
		p.add(a, b, []Block{{Origin: a, Dest: b}})
		p.add(c, d, []Block{{Origin: c, Dest: d}})
		return p
	}
	tests := []struct {
		name       string
		p          *Plan
		times      []float64
		half, full Property
	}{
		{"two receives at once", gather(0, 2, 1, 2), []float64{0, 0.5}, HostPort, HostPort},
		{"two receives in turn", gather(0, 2, 1, 2), []float64{0, 1}, "", ""},
		{"two receives within tolerance", gather(0, 2, 1, 2), []float64{0, 1 - 3e-9}, "", ""},
		{"two receives out of tolerance", gather(0, 2, 1, 2), []float64{0, 1 - 2e-8}, HostPort, HostPort},
		{"two sends at once", gather(0, 1, 0, 2), []float64{0, 0}, "", ""}, // os is 0
		{"send while receiving", gather(0, 1, 1, 2), []float64{0, 0.5}, HostPort, ""},
		{"send and receive start together", gather(0, 1, 1, 2), []float64{0, 0}, "", ""}, // the send goes first and takes os = 0
		{"in noise", gather(0, 1, 1, 2), []float64{0, 1e-16}, "", ""},
		{"in turn", gather(0, 1, 1, 2), []float64{0, 1}, "", ""},
		{"receive while sending", gather(1, 2, 0, 1), []float64{0, 0.5}, "", ""}, // the port is free after os
	}
	for _, tt := range tests {
		if got := property(t, at(HalfDuplex, tt.p, tt.times...)); got != tt.half {
			t.Errorf("%s, half: got %q, want %q", tt.name, got, tt.half)
		}
		if got := property(t, at(FullDuplex, tt.p, tt.times...)); got != tt.full {
			t.Errorf("%s, full: got %q, want %q", tt.name, got, tt.full)
		}
	}
}

// TestVerifyGapAndOverhead: g keeps the link and os the sender's port, as measured.
// With half duplex the port that os keeps also receives.
func TestVerifyGapAndOverhead(t *testing.T) {
	hosts := make([]netmap.Host, 3)
	est := make([]netmap.Estimate, 9)
	for i, name := range hostNames(3) {
		hosts[i].Name = name
	}
	for i := range est {
		est[i] = netmap.Estimate{Known: netmap.FieldBandwidth | netmap.FieldLatency | netmap.FieldGap | netmap.FieldSendOverhead,
			Bandwidth: 1000, Latency: 100 * time.Millisecond, Gap: 300 * time.Millisecond, SendOverhead: 50 * time.Millisecond}
	}
	s := netmap.NewSnapshot(1, hosts, est)
	tests := []struct {
		name       string
		a, b, c, d int     // a→b starts at 0, c→d at second
		second     float64 // seconds
		half, full Property
		detail     string
	}{
		// All blocks are empty and take the latency, so that only gap and overhead hold the second back.
		{"within the gap", 0, 1, 0, 1, 0.299, HostPort, HostPort, "link n0→n1"},
		{"after the gap", 0, 1, 0, 1, 0.3, "", "", ""},
		{"within the overhead", 0, 1, 0, 2, 0.049, HostPort, HostPort, "port of n0"},
		{"after the overhead", 0, 1, 0, 2, 0.05, "", "", ""},
		{"receive within the overhead", 0, 1, 2, 0, 0.049, HostPort, "", "port of n0"},
		{"receive after the overhead", 0, 1, 2, 0, 0.05, "", "", ""},
	}
	for _, tt := range tests {
		p := &Plan{Collective: Alltoall, Hosts: hostNames(3)}
		p.add(tt.a, tt.b, []Block{{Origin: tt.a, Dest: tt.b}})
		p.add(tt.c, tt.d, []Block{{Origin: tt.c, Dest: 2 - tt.c}})
		if tt.a == tt.c && tt.b == tt.d {
			p.Transfers[1].Blocks[0].Dest = 2
		}
		p.Transfers[0].End = 0.1
		p.Transfers[1].Start, p.Transfers[1].End = tt.second, tt.second+0.1
		for duplex, want := range map[Duplex]Property{HalfDuplex: tt.half, FullDuplex: tt.full} {
			err := Verify(p, Rules{Duplex: duplex, Snapshot: s})
			if got := property(t, err); got != want || err != nil && !strings.Contains(err.Error(), tt.detail) {
				t.Errorf("%s, %s: got %v, want %q that says %q", tt.name, duplex, err, want, tt.detail)
			}
		}
	}
}

func TestVerifyPortsWithoutTimes(t *testing.T) {
	p := ring(3, 1)
	if err := Verify(p, Rules{Duplex: HalfDuplex}); property(t, err) != HostPort || !strings.Contains(err.Error(), "no predicted times") {
		t.Errorf("got %v", err)
	}
	p.MessageBytes = 0
	if err := Verify(p, Rules{Duplex: HalfDuplex}); err != nil {
		t.Errorf("nothing to move: %v", err)
	}
}

func TestVerifyUnfitRules(t *testing.T) {
	p := &Plan{Collective: Allgather, Hosts: []string{"a", "b"}, MessageBytes: 1}
	p.add(0, 1, []Block{{Origin: 0, Dest: All}})
	p.add(1, 0, []Block{{Origin: 1, Dest: All}})
	p.Transfers[0].End, p.Transfers[1].End = 1, 1
	tree, err := NewTopology([]string{"s"}, nil, []string{"a", "c"}, []int{0, 0}, 0)
	if err != nil {
		t.Fatal(err)
	}
	empty := netmap.NewSnapshot(0, []netmap.Host{{Name: "a"}, {Name: "b"}}, make([]netmap.Estimate, 4))
	for name, rules := range map[string]Rules{
		"topology": {Topology: tree},
		"snapshot": {Duplex: FullDuplex, Snapshot: netmap.NewSnapshot(0, nil, nil)},
		"measured": {Duplex: FullDuplex, Snapshot: empty},
		"pools":    {Pools: [][]int{{2}}},
	} {
		err := Verify(p, rules)
		if _, violated := errors.AsType[*Violation](err); err == nil || violated {
			t.Errorf("%s: got %v, want an error that is no violation", name, err)
		}
		if name == "measured" && !errors.Is(err, netmap.ErrNotMeasured) {
			t.Errorf("%v is not ErrNotMeasured", err)
		}
	}
}
