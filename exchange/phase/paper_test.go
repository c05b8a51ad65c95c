package phase

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// phases prints a schedule, a line for each phase: "0: n0>n3 n1>n0", in rank order.
func phases(t *testing.T, w tree) string {
	t.Helper()
	p := mustSchedule(t, w, Options{})
	lines := make([]string, p.Phases)
	for i := range lines {
		lines[i] = fmt.Sprintf("%d:", i)
	}
	for _, x := range p.Transfers {
		lines[x.Phase] += fmt.Sprintf(" n%d>n%d", x.Src, x.Dst)
	}
	return strings.Join(lines, "\n")
}

// Figure 1 of the journal version, from its path of n0 to n1 and its bottleneck links.
// n0 – s0 – s4 – n1, s0 – s1 – s2 – s3, s3 – n2, s3 – s5, s5 – n3, s5 – n4.
var journal = tree{switches: 6, links: [][2]int{{0, 4}, {0, 1}, {1, 2}, {2, 3}, {3, 5}}, home: []int{0, 4, 3, 5, 5}}

// Figure 1 of the conference version: three machines on s0 (one of them over a further
// switch changes nothing), two on s3, one on s1 itself, which is the root.
var conference = tree{switches: 4, links: [][2]int{{0, 1}, {0, 2}, {1, 3}}, home: []int{0, 0, 2, 3, 3, 1}}

func TestExamplesRoots(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    tree
		want Analysis
	}{
		{"journal", journal, Analysis{Root: 3, Subtrees: [][]int{{0, 1}, {3, 4}, {2}}, Phases: 6}},
		{"conference", conference, Analysis{Root: 1, Subtrees: [][]int{{0, 1, 2}, {3, 4}, {5}}, Phases: 9}},
	} {
		if got := Analyze(tt.w.topology(t)); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Table 4 of the journal version, with m0 = n0 n1, m1 = n3 n4, m2 = n2. It prints the
// receivers of T_1 → T_0 in phases 2 and 3 (here n3>n1 and n3>n0) the other way round,
// against its own table 3. Both are free of contention.
func TestJournalTable4(t *testing.T) {
	const want = `0: n0>n3 n1>n0 n2>n1 n3>n2
1: n0>n1 n1>n4 n2>n0 n4>n2
2: n1>n3 n3>n1
3: n0>n4 n3>n0 n4>n3
4: n0>n2 n2>n3 n3>n4 n4>n1
5: n1>n2 n2>n4 n4>n0`
	if got := phases(t, journal); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Table 4 of the conference version, with t0 = n0 n1 n2, t1 = n3 n4, t2 = n5.
func TestConferenceTable4(t *testing.T) {
	const want = `0: n0>n4 n1>n0 n3>n5 n5>n1
1: n1>n3 n2>n1 n4>n5 n5>n2
2: n0>n2 n2>n4 n5>n0
3: n0>n3 n2>n0 n3>n2
4: n0>n1 n1>n4 n3>n0 n4>n3
5: n1>n2 n2>n3 n3>n1
6: n0>n5 n4>n0
7: n1>n5 n3>n4 n4>n1 n5>n3
8: n2>n5 n4>n2 n5>n4`
	if got := phases(t, conference); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Figure 3: where T_i → T_j starts, in both versions' examples.
func TestFigure3(t *testing.T) {
	for _, tt := range []struct {
		w    tree
		want [3][3]int
	}{
		{journal, [3][3]int{{-1, 0, 4}, {2, -1, 0}, {0, 4, -1}}},
		{conference, [3][3]int{{-1, 0, 6}, {3, -1, 0}, {0, 7, -1}}},
	} {
		v := newView(tt.w.topology(t))
		for i, row := range tt.want {
			for j, want := range row {
				if i != j && v.start(i, j) != want {
					t.Errorf("%v: T%d→T%d starts at %d, want %d", tt.w, i, j, v.start(i, j), want)
				}
			}
		}
	}
}

// Table 1 of the conference version: ring scheduling of subtrees of one machine each.
func TestRingScheduling(t *testing.T) {
	for k := 3; k <= 9; k++ {
		p := mustSchedule(t, tree{switches: 1, home: make([]int, k)}, Options{})
		for _, x := range p.Transfers {
			want := x.Dst - x.Src - 1
			if x.Src > x.Dst {
				want = k - 1 - (x.Src - x.Dst)
			}
			if x.Phase != want {
				t.Errorf("k=%d: t%d→t%d in phase %d, want %d", k, x.Src, x.Dst, x.Phase, want)
			}
		}
	}
}

// Table 1 of the journal version (table 2 of the conference version): the rotate pattern for
// |M_i| = 6 and |M_j| = 4.
func TestRotatePattern(t *testing.T) {
	want := [24][2]int{
		{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 0}, {5, 1},
		{0, 2}, {1, 3}, {2, 0}, {3, 1}, {4, 2}, {5, 3},
		{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 0}, {0, 1},
		{1, 2}, {2, 3}, {3, 0}, {4, 1}, {5, 2}, {0, 3},
	}
	for q, message := range want {
		if got := rotate(q, 6, 4); got != message[0] || q%4 != message[1] {
			t.Errorf("phase %d: %d→%d, want %v", q, got, q%4, message)
		}
	}
}

// The text's own recipe: after each lcm(m, n) phases search for the least rotation whose
// first message is new.
func TestRotateIsTheSearch(t *testing.T) {
	for m := 1; m <= 20; m++ {
		for n := 1; n <= 20; n++ {
			seen := make(map[[2]int]bool)
			rotation := 0
			for q := range m * n {
				if q%(m/gcd(m, n)*n) == 0 {
					for rotation = 0; seen[[2]int{(q + rotation) % m, q % n}]; rotation++ {
					}
				}
				message := [2]int{(q + rotation) % m, q % n}
				if got := rotate(q, m, n); got != message[0] {
					t.Fatalf("%d×%d, phase %d: sender %d, want %d", m, n, q, got, message[0])
				}
				if seen[message] {
					t.Fatalf("%d×%d, phase %d: %v again", m, n, q, message)
				}
				seen[message] = true
			}
		}
	}
}

// Table 3 for |M_0| = 4: rounds 0, 1, 2 and 3, and round 4 as round 0.
func TestTable3(t *testing.T) {
	for round, want := range [][4]int{{1, 2, 3, 0}, {2, 3, 0, 1}, {3, 0, 1, 2}, {0, 1, 2, 3}, {1, 2, 3, 0}} {
		for sender, receiver := range want {
			if got := partner(sender, round, 4); got != receiver {
				t.Errorf("round %d: %d sends and %d receives, want %d", round, sender, got, receiver)
			}
		}
	}
}
