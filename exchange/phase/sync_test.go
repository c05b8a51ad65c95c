package phase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

func TestParseSync(t *testing.T) {
	for s := None; s <= Barrier; s++ {
		if got, err := ParseSync(s.String()); err != nil || got != s {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	if _, err := ParseSync("recv"); err == nil || !strings.Contains(err.Error(), `"recv"`) || !strings.Contains(err.Error(), "receiver") {
		t.Errorf("%v", err)
	}
}

func TestOptions(t *testing.T) {
	topo := journal.topology(t)
	for _, tt := range []struct {
		opt  Options
		want string // "" is accepted
	}{
		{Options{}, ""},
		{Options{Sync: Sender, Block: 3}, ""},
		{Options{Sync: Receiver, Strict: true}, "strict has a meaning"},
		{Options{Sync: Receiver, Block: 2, Strict: true}, ""},
		{Options{Sync: Barrier, Block: 1, Within: Sender}, ""},
		{Options{Sync: Barrier, Block: 1 << 40, Within: Receiver}, ""},
		{Options{Sync: 9}, "Sync(9)"},
		{Options{Sync: Auto}, ""},
		{Options{Sync: Auto, Block: 2}, "finds all else by itself"},
		{Options{Sync: Receiver, Lead: 1 << 14}, ""},
		{Options{Sync: Barrier, Lead: 1 << 14}, ""},
		{Options{Sync: Barrier, Block: 2, Lead: 1}, "without blocks"},
		{Options{Sync: Receiver, Lead: -1}, "lead of -1 bytes"},
		{Options{Sync: Sender, Lead: 1}, "only with receiver"},
		{Options{Sync: Receiver, Block: 2, Lead: 1}, "without blocks"},
		{Options{Sync: Sender, Block: -2}, "-2 phases"},
		{Options{Block: 4}, "block of 4 phases has no meaning with synchronisation none"},
		{Options{Sync: Dummy, Block: 4}, "dummy"},
		{Options{Sync: Order, Block: 4}, "order"},
		{Options{Sync: Barrier, Block: 4, Within: Order}, ""},
		{Options{Sync: Sender, Block: 4, Within: Order}, ""},
		{Options{Sync: Sender, Within: Order}, "barriers between blocks"},
		{Options{Sync: Receiver, Block: 4, Within: Order}, "barriers between blocks"},
		{Options{Sync: Barrier, Block: 2, Strict: true}, "strict"},
		{Options{Sync: Sender, Within: Sender}, "barriers between blocks"},
		{Options{Sync: Barrier, Within: Sender}, "block size"},
		{Options{Sync: Barrier, Block: 2, Within: Dummy}, "dummy within blocks"},
		{Options{Sync: Barrier, Block: 2, Within: 9}, "Sync(9) within"},
	} {
		_, err := Schedule(topo, plan.AlltoallSizes{}, tt.opt)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%+v: %v", tt.opt, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%+v: %v, want %q", tt.opt, err, tt.want)
		}
	}
}

func TestNoneHasNoEdges(t *testing.T) {
	for _, x := range mustSchedule(t, conference, Options{}).Transfers {
		if x.After == nil || len(x.After) != 0 || x.Sync != "" {
			t.Errorf("transfer %d: after %v, sync %q", x.ID, x.After, x.Sync)
		}
	}
}

// checkSchemes compares every scheme with what its definition gives, computed naively.
func checkSchemes(t *testing.T, w tree, size int) error {
	paths := w.paths()
	p := mustSchedule(t, w, Options{Sync: Receiver})
	n := len(p.Transfers)
	block := func(i int) int { return p.Transfers[i].Phase / size }
	all := reduction(closure(n, contending(paths, p, 1)))
	if err := checkAfter(p, all, Receiver); err != nil {
		return fmt.Errorf("receiver all: %w", err)
	}
	split := func(same bool) [][]int { // the edges of all inside blocks, or between them
		out := make([][]int, n)
		for b := range all {
			out[b] = []int{}
			for _, a := range all[b] {
				if (block(a) == block(b)) == same {
					out[b] = append(out[b], a)
				}
			}
		}
		return out
	}
	for _, tt := range []struct {
		opt  Options
		want [][]int
	}{
		{Options{Sync: Sender}, all},
		{Options{Sync: Sender, Block: size}, split(false)},
		{Options{Sync: Receiver, Block: size, Strict: true}, reduction(closure(n, contending(paths, p, size)))},
		{Options{Sync: Dummy}, naiveDummies(w, p)},
	} {
		if err := checkAfter(mustSchedule(t, w, tt.opt), tt.want, tt.opt.Sync); err != nil {
			return fmt.Errorf("%+v: %w", tt.opt, err)
		}
	}
	if err := checkAfter(mustSchedule(t, w, Options{Sync: Order}), naiveTurns(p, p.Phases), Sender); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	apart := split(false)
	for b, turns := range naiveTurns(p, p.Phases) {
		apart[b] = append(apart[b], turns...)
		slices.Sort(apart[b])
		apart[b] = slices.Compact(apart[b])
	}
	if err := checkAfter(mustSchedule(t, w, Options{Sync: Sender, Block: size, Within: Order}), apart, Sender); err != nil && size > 1 {
		return fmt.Errorf("sender by %d, order: %w", size, err)
	}
	for _, within := range []Sync{None, Order, Sender, Receiver} {
		opt := Options{Sync: Barrier, Block: size, Within: within}
		inside, kind := split(true), within
		switch within {
		case None:
			clear(inside)
		case Order:
			inside, kind = naiveTurns(p, size), Sender
		}
		if err := checkBarriers(mustSchedule(t, w, opt), size, inside, kind); err != nil {
			return fmt.Errorf("%+v: %w", opt, err)
		}
	}
	return nil
}

// checkBarriers: edges inside blocks are those given, and what waits for none of them waits
// for all of the block before or, where arrival orders the block, for its last ones.
func checkBarriers(p *plan.Plan, size int, inside [][]int, within Sync) error {
	waited := make([]bool, len(p.Transfers))
	for _, list := range inside {
		for _, a := range list {
			waited[a] = within == Receiver
		}
	}
	for i := range p.Transfers {
		x := &p.Transfers[i]
		want, kind := inside[i], within
		if len(want) == 0 {
			kind = Barrier
			for j := range p.Transfers {
				if p.Transfers[j].Phase/size == x.Phase/size-1 && !waited[j] {
					want = append(want, j)
				}
			}
		}
		if !slices.Equal(x.After, want) {
			return fmt.Errorf("transfer %d in phase %d: after %v, want %v", i, x.Phase, x.After, want)
		}
		if err := checkKind(x, kind); err != nil {
			return err
		}
	}
	// What it is for: all of one block before all of the next.
	before := closure(len(p.Transfers), func(a, b int) bool { return slices.Contains(p.Transfers[b].After, a) })
	for b := range before {
		for a := range b {
			if p.Transfers[a].Phase/size < p.Transfers[b].Phase/size && !before[b][a] {
				return fmt.Errorf("transfers %d and %d of different blocks are not ordered", a, b)
			}
		}
	}
	return nil
}

// naiveTurns puts every transfer after the last one of its source in an earlier phase of its block.
func naiveTurns(p *plan.Plan, size int) [][]int {
	out := make([][]int, len(p.Transfers))
	for b, x := range p.Transfers {
		out[b] = []int{}
		latest := -1
		for a, y := range p.Transfers {
			if y.Src == x.Src && y.Phase < x.Phase && y.Phase/size == x.Phase/size && (latest < 0 || y.Phase > p.Transfers[latest].Phase) {
				latest = a
			}
		}
		if latest >= 0 {
			out[b] = append(out[b], latest)
		}
	}
	return out
}

// naiveDummies makes every dummy and from it an edge, and reduces.
func naiveDummies(w tree, p *plan.Plan) [][]int {
	n := len(w.home)
	edge := make(map[[2]int]bool)
	next := func(v, after int) int { // v's first transfer after a phase
		return slices.IndexFunc(p.Transfers, func(x plan.Transfer) bool { return x.Src == v && x.Phase > after })
	}
	for i, x := range p.Transfers {
		if j := next(x.Src, x.Phase); j >= 0 {
			edge[[2]int{i, j}] = true
		}
	}
	for q := range p.Phases {
		sends, receives := make([]bool, n), make([]bool, n)
		last := make([]int, n)
		for h := range last {
			last[h] = -1
		}
		for i, x := range p.Transfers {
			if x.Phase == q {
				sends[x.Src], receives[x.Dst] = true, true
			} else if x.Phase < q {
				last[x.Src] = i
			}
		}
		for u := range n {
			for v := 0; v < n && !sends[u]; v++ {
				if v != u && w.home[u] == w.home[v] && !receives[v] {
					sends[u], receives[v] = true, true
					if j := next(v, q); last[u] >= 0 && j >= 0 {
						edge[[2]int{last[u], j}] = true
					}
				}
			}
		}
	}
	return reduction(closure(len(p.Transfers), func(a, b int) bool { return edge[[2]int{a, b}] }))
}

func TestSchemesOnSmallTrees(t *testing.T) {
	for seed := range uint64(250) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := randomTree(rng, 6, 8)
		size := 1 + rng.IntN(6)
		if err := checkSchemes(t, w, size); err != nil {
			t.Fatalf("seed %d, blocks of %d phases: %v: %v", seed, size, w, err)
		}
	}
}

func TestPairwiseOnAllSmallTrees(t *testing.T) {
	most := []int{0, 7, 6, 5, 4, 4}
	for switches := 1; switches < len(most); switches++ {
		smallTrees(switches, most[switches], func(w tree) {
			if t.Failed() {
				return
			}
			for _, opt := range []Options{{Sync: Sender}, {Sync: Receiver, Block: 2, Strict: true}} {
				if err := checkOrder(w.paths(), mustSchedule(t, w, opt), max(1, opt.Block), opt.Sync); err != nil {
					t.Errorf("%+v: %v: %v", opt, w, err)
				}
			}
		})
	}
}

func TestPairwiseOnRandomTrees(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 8))
		machines := 16
		if seed%60 == 0 {
			machines = 64
		}
		w := randomTree(rng, 14, machines)
		paths := w.paths()
		for _, opt := range []Options{{Sync: Receiver}, {Sync: Sender, Block: 2 + rng.IntN(80), Strict: true}} {
			p := mustSchedule(t, w, opt)
			if err := checkOrder(paths, p, max(1, opt.Block), opt.Sync); err != nil {
				t.Fatalf("seed %d: %+v: %v: %v", seed, opt, w, err)
			}
			if err := plan.Verify(p, plan.Rules{Topology: w.topology(t)}); err != nil {
				t.Fatalf("seed %d: %+v: %v: %v", seed, opt, w, err)
			}
		}
	}
}

// checkPairwise compares pairwise with the naive reduction, for messages of any kind.
func checkPairwise(t *testing.T, w tree, messages []message, size int) error {
	got, err := pairwise(w.topology(t), messages, int32(size), Sender)
	if err != nil {
		return err
	}
	p := &plan.Plan{}
	for _, m := range messages {
		p.Transfers = append(p.Transfers, plan.Transfer{Src: int(m.src), Dst: int(m.dst), Phase: int(m.phase)})
	}
	for i, want := range reduction(closure(len(messages), contending(w.paths(), p, size))) {
		var list []int
		for _, a := range got.of(i) {
			list = append(list, int(a))
		}
		if !slices.Equal(list, want) {
			return fmt.Errorf("message %d of %v: after %v, want %v", i, messages, list, want)
		}
	}
	return nil
}

// Sparse phases, which AAPC has few of: links rest for long, and clocks are used again.
func TestPairwiseOnRandomMessages(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 9))
		w := randomTree(rng, 5, 14)
		n := len(w.home)
		var messages []message
		for phase := range int32(20) {
			for src := range n {
				if dst := rng.IntN(n); dst != src && rng.IntN(4) == 0 {
					messages = append(messages, message{phase, int32(src), int32(dst)})
				}
			}
		}
		if err := checkPairwise(t, w, messages, 1+rng.IntN(4)); err != nil {
			t.Fatalf("seed %d: %v: %v", seed, w, err)
		}
	}
}

// One source has more messages in a block than a word of its clock has bits.
func TestPairwiseWithLargeBlocks(t *testing.T) {
	w := tree{switches: 1, home: make([]int, 3)}
	messages := make([]message, 230)
	for i := range messages {
		messages[i] = message{int32(i), 0, int32(1 + i%2)}
	}
	if err := checkPairwise(t, w, messages, 70); err != nil {
		t.Error(err)
	}
}

// 2→3 comes after nothing, at a time when clocks are free that others have used.
func TestPairwiseWithUsedClocks(t *testing.T) {
	w := tree{switches: 1, home: make([]int, 8)}
	messages := []message{
		{0, 0, 4}, {0, 5, 7}, {1, 0, 1}, {1, 5, 6}, {2, 0, 1}, {2, 5, 6}, {3, 0, 6}, {3, 5, 1},
		{4, 2, 3}, {5, 2, 4}, {6, 2, 7},
	}
	if err := checkPairwise(t, w, messages, 1); err != nil {
		t.Error(err)
	}
}

// Clocks of messages that are no longer the last on any link are used again.
func TestClocksAreReused(t *testing.T) {
	topo := halves(64).topology(t)
	for _, sync := range []Sync{Receiver, Dummy} {
		allocs := testing.AllocsPerRun(1, func() {
			if _, err := Schedule(topo, plan.AlltoallSizes{}, Options{Sync: sync}); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 2000 {
			t.Errorf("%v: %v allocations for 4032 messages", sync, allocs)
		}
	}
}

func TestClocksAreBounded(t *testing.T) {
	r := newReducer(3, []message{{0, 0, 1}, {0, 1, 2}, {0, 2, 0}}, 1, Sender)
	r.room = 2 * 3 * 4
	for i := range int32(3) {
		if err := r.add(i, nil); (err != nil) != (i == 2) {
			t.Errorf("clock %d: %v", i, err)
		}
	}
}

// The paper's partial synchronisation leaves messages of different blocks unordered that
// contend, which is why there is Strict.
func TestPartialIsNotStrict(t *testing.T) {
	paths := conference.paths()
	if err := checkOrder(paths, mustSchedule(t, conference, Options{Sync: Sender, Block: 2}), 2, Sender); err == nil {
		t.Error("literal partial synchronisation orders everything: the documentation says it does not")
	}
	count := func(p *plan.Plan) (edges int) {
		for i := range p.Transfers {
			edges += len(p.Transfers[i].After)
		}
		return edges
	}
	w := halves(32)
	literal := mustSchedule(t, w, Options{Sync: Sender, Block: 4})
	strict := mustSchedule(t, w, Options{Sync: Sender, Block: 4, Strict: true})
	if a, b := count(literal), count(strict); a >= b {
		t.Errorf("%d edges literally, %d strictly", a, b)
	}
	bound := 1e-3 * float64(strict.Phases)
	if a, b := simulate(t, w, literal), simulate(t, w, strict); a < 1.1*bound || b > 1.01*bound {
		t.Errorf("%v s literally, %v s strictly, the bound is %v s", a, b, bound)
	}
}

// simulate returns the makespan in seconds.
func simulate(t *testing.T, w tree, p *plan.Plan) float64 {
	t.Helper()
	net, err := plan.NetworkOfTopology(w.topology(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := plan.Simulate(p, net, plan.SimOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Makespan
}

// What phases are for: on a network without delay a fully synchronised plan takes as
// long as the most loaded link needs for what crosses it, and none can take less.
func TestSimulatedTimeIsTheBound(t *testing.T) {
	for seed := range uint64(100) {
		w := randomTree(rand.New(rand.NewPCG(seed, 10)), 8, 12)
		for _, sync := range []Sync{Receiver, Barrier} {
			p := mustSchedule(t, w, Options{Sync: sync})
			if got, want := simulate(t, w, p), 1e-3*float64(p.Phases); math.Abs(got-want) > 1e-9 {
				t.Fatalf("seed %d: %v: %v: %v s, want %v s", seed, w, sync, got, want)
			}
		}
	}
}

func TestTooManyEdges(t *testing.T) {
	w := tree{switches: 1, home: make([]int, 330)}
	_, err := Schedule(w.topology(t), plan.AlltoallSizes{}, Options{Sync: Barrier})
	if err == nil || !strings.Contains(err.Error(), "more than 33554432 synchronisations among 108570 messages") {
		t.Error(err)
	}
}
