package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func randomPieces(rng *rand.Rand, n, slack int) []piece {
	pieces := make([]piece, n)
	for i := range pieces {
		a, b := rng.IntN(slack+1), rng.IntN(slack+1)
		if rng.IntN(3) == 0 {
			a, b = 0, 0
		}
		pieces[i] = piece{a, b}
	}
	return pieces
}

// joinable tries every order of pieces and every way to turn them.
func joinable(pieces []piece, slack int) bool {
	first := pieces[0]
	var extend func(end int, left []piece) bool
	extend = func(end int, left []piece) bool {
		if len(left) == 0 {
			return end+first.a <= slack
		}
		for i, p := range left {
			rest := append(slices.Clone(left[:i]), left[i+1:]...)
			if end+p.a <= slack && extend(p.b, rest) || end+p.b <= slack && extend(p.a, rest) {
				return true
			}
		}
		return false
	}
	return extend(first.b, pieces[1:])
}

// TestJoin compares with all sequences, and walks the cycle that was found.
func TestJoin(t *testing.T) {
	possible := 0
	for seed := range uint64(20000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		slack := rng.IntN(9)
		pieces := randomPieces(rng, 2+rng.IntN(5), slack)
		j, ok := join(pieces, slack)
		if want := joinable(pieces, slack); ok != want {
			t.Fatalf("seed %d: %v with slack %d: joined %v, want %v", seed, pieces, slack, ok, want)
		}
		if !ok {
			continue
		}
		possible++
		from := rng.IntN(2 * len(pieces))
		at := j.height(from)
		seen := []int{from / 2}
		steps := j.walk(from)
		for _, s := range append(steps, step{from / 2, from%2 == 0}) { // and back to where it began
			p := pieces[s.piece]
			if s.turned {
				p.a, p.b = p.b, p.a
			}
			if at+p.a > slack {
				t.Fatalf("seed %d: %v with slack %d: %v: heights %d and %d meet", seed, pieces, slack, steps, at, p.a)
			}
			at = p.b
			seen = append(seen, s.piece)
		}
		slices.Sort(seen)
		if seen = slices.Compact(seen); len(seen) != len(pieces) || len(steps) != len(pieces)-1 {
			t.Fatalf("seed %d: %v with slack %d: %v is not one cycle", seed, pieces, slack, steps)
		}
	}
	if possible < 2000 || possible > 18000 {
		t.Errorf("%d of 20000 could be joined: the pieces test one answer only", possible)
	}
}

// TestChoose compares with all choices. The ends are drawn such that high ones and those
// that suit them are about as many: then it matters which are picked.
func TestChoose(t *testing.T) {
	possible, seeds := 0, uint64(20000)
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 3))
		slack := 2 + rng.IntN(6)
		end := func() int {
			if rng.IntN(2) == 0 {
				return slack - rng.IntN(slack/2+1)
			}
			return rng.IntN(slack/2 + 1)
		}
		var fixed []piece
		for range 1 + rng.IntN(3) {
			fixed = append(fixed, piece{end(), end()})
		}
		offers := make([][]piece, 1+rng.IntN(5))
		for i := range offers {
			if i > 0 && rng.IntN(3) > 0 {
				offers[i] = offers[i-1]
				continue
			}
			// As arrays are offered: none is below another. Two, or where there is room three.
			for a, b := rng.IntN(slack/2), slack-rng.IntN(2); a <= b && len(offers[i]) < 3; {
				offers[i] = append(offers[i], piece{a, b})
				a, b = a+1+rng.IntN(2), b-1-rng.IntN(2)
			}
			if rng.IntN(2) == 0 {
				slices.Reverse(offers[i])
			}
		}
		want := false
		all := 1
		for _, o := range offers {
			all *= len(o)
		}
		for n := range all {
			pieces := slices.Clone(fixed)
			for _, o := range offers {
				pieces = append(pieces, o[n%len(o)])
				n /= len(o)
			}
			if _, ok := join(pieces, slack); ok {
				want = true
			}
		}
		chosen, ok := choose(fixed, offers, slack)
		if ok != want {
			t.Fatalf("seed %d: fixed %v, offers %v, slack %d: found a choice: %v, want %v", seed, fixed, offers, slack, ok, want)
		}
		if !ok {
			continue
		}
		possible++
		for i, k := range chosen {
			fixed = append(fixed, offers[i][k])
		}
		if _, ok := join(fixed, slack); !ok {
			t.Fatalf("seed %d: %v with slack %d cannot be joined", seed, fixed, slack)
		}
	}

	if share := float64(possible) / float64(seeds); share < 0.1 || share > 0.9 {
		t.Errorf("%.2f of the offers can be joined: they test one answer only", share)
	}
}
