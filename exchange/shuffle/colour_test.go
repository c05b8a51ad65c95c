package shuffle

import (
	"slices"
	"testing"
)

// TestColouring: the rounds 1 … χ′ are a proper edge colouring of the complete graph: in
// each everybody's partner agrees, and over all of them everybody meets everybody once.
func TestColouring(t *testing.T) {
	for p := 2; p <= 130; p++ {
		idled := make([]int, p)
		met := make([]int, p*p) // the round in which two met
		for round := 1; round <= colours(p); round++ {
			for id := range p {
				v := partner(round, id, p)
				if v == idle {
					idled[id]++
					continue
				}
				if v < 0 || v >= p || v == id || partner(round, v, p) != id {
					t.Fatalf("p=%d round %d: %d meets %d, who meets %d", p, round, id, v, partner(round, v, p))
				}
				if met[id*p+v] != 0 {
					t.Fatalf("p=%d: %d meets %d in rounds %d and %d", p, id, v, met[id*p+v], round)
				}
				met[id*p+v] = round
			}
		}
		for id := range p {
			if idled[id] != p%2 {
				t.Errorf("p=%d: %d idles %d times, want %d", p, id, idled[id], p%2)
			}
			for v := range p {
				if (met[id*p+v] == 0) != (id == v) {
					t.Errorf("p=%d: %d meets %d in round %d", p, id, v, met[id*p+v])
				}
			}
		}
	}
}

// TestSmallColourings holds what figure 1 gives by hand.
func TestSmallColourings(t *testing.T) {
	tests := []struct {
		p      int
		rounds [][]int // partner of each host
	}{
		{1, nil},
		{2, [][]int{{1, 0}}},
		{3, [][]int{{1, 0, idle}, {2, idle, 0}, {idle, 2, 1}}},
		{4, [][]int{{1, 0, 3, 2}, {2, 3, 0, 1}, {3, 2, 1, 0}}},
		{5, [][]int{
			{1, 0, 4, idle, 2},
			{2, idle, 0, 4, 3},
			{3, 2, 1, 0, idle},
			{4, 3, idle, 1, 0},
			{idle, 4, 3, 2, 1},
		}},
	}
	for _, tt := range tests {
		if got := colours(tt.p); got != len(tt.rounds) {
			t.Errorf("p=%d: %d rounds, want %d", tt.p, got, len(tt.rounds))
		}
		for i, want := range tt.rounds {
			var got []int
			for id := range tt.p {
				got = append(got, partner(i+1, id, tt.p))
			}
			if !slices.Equal(got, want) {
				t.Errorf("p=%d round %d: %v, want %v", tt.p, i+1, got, want)
			}
		}
	}
}

// TestPrintedGroups shows why [Group] differs from algorithm 3 as printed, which runs
// ⌈(p−1)/ω⌉ groups of ω rounds each: partners come again exactly where that goes past
// χ′, and some never meet exactly where it ends before, for odd p with ω dividing p−1.
func TestPrintedGroups(t *testing.T) {
	for p := 2; p <= 40; p++ {
		for fanout := 1; fanout <= p; fanout++ {
			printed := (p - 2 + fanout) / fanout * fanout
			again, met := false, make(map[[2]int]bool)
			for round := 1; round <= printed; round++ {
				for id := range p {
					if v := partner(round, id, p); v != idle {
						again = again || met[[2]int{id, v}]
						met[[2]int{id, v}] = true
					}
				}
			}
			if want := printed > colours(p); again != want {
				t.Errorf("p=%d ω=%d: partners repeated: %v, want %v", p, fanout, again, want)
			}
			if want := p%2 == 1 && (p-1)%fanout == 0; (len(met) < p*(p-1)) != want {
				t.Errorf("p=%d ω=%d: %d of %d pairs meet, want all: %v", p, fanout, len(met), p*(p-1), !want)
			}
		}
	}
}
