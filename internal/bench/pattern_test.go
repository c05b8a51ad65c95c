package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestUnmix(t *testing.T) {
	for seed := range uint64(1000) {
		z := rand.New(rand.NewPCG(seed, 0)).Uint64()
		if got := unmix(mix(z)); got != z {
			t.Fatalf("seed %d: unmix(mix(%#x)) = %#x", seed, z, got)
		}
	}
}

// made returns a block of n bytes.
func made(n int, b blockID) []byte {
	data := make([]byte, n)
	fill(data, b)
	return data
}

// TestDiffersAtEveryByte changes each byte of blocks of all small sizes.
func TestDiffersAtEveryByte(t *testing.T) {
	id := blockID{op: 3, from: 1, to: 2}
	for n := range 40 {
		data := made(n, id)
		if at := differs(data, id); at >= 0 {
			t.Fatalf("%d bytes: byte %d is said to differ", n, at)
		}
		for i := range data {
			data[i] ^= 0x10
			if at := differs(data, id); at != i {
				t.Errorf("%d bytes: byte %d was changed, byte %d is said to differ", n, i, at)
			}
			data[i] ^= 0x10
		}
	}
}

// TestTrace puts what can go wrong into a block, from a byte of no alignment on, and reads
// what is said of it.
func TestTrace(t *testing.T) {
	const n, at = 4096, 1001
	own := blockID{op: 5, from: 2, to: 1}
	whole := func(id blockID) []byte { return made(2*n, id)[at:n] }
	for _, tt := range []struct {
		name string
		put  []byte
		want string
	}{
		{"another source", whole(blockID{5, 0, 1}), "it holds the block from rank 0"},
		{"another destination", whole(blockID{5, 2, 3}), "it holds the block from rank 2 for rank 3"},
		{"swapped", whole(blockID{5, 1, 2}), "it holds the block from rank 1 for rank 2"},
		{"stale", whole(blockID{4, 2, 1}), "it holds the block from rank 2, of the operation 1 before"},
		{"shifted", made(2*n, own)[at+3 : n], "it holds bytes of its own, which belong at 3 bytes from there"},
		{"shifted back", made(n, own)[at-1000 : n-1000], "it holds bytes of its own, which belong at -1000 bytes from there"},
		{"too old to be known", whole(blockID{5 - stale, 2, 1}), "it holds what no rank has sent"},
		{"nothing", make([]byte, n-at), "it holds zeros"},
		{"noise", []byte(strings.Repeat("x", n-at)), "it holds what no rank has sent"},
	} {
		got := made(n, own)
		copy(got[at:], tt.put)
		first := differs(got, own)
		if first < at || first > at+8 { // a byte may be right by chance
			t.Errorf("%s: byte %d is said to differ, want about %d", tt.name, first, at)
			continue
		}
		if says := trace(got, first, own, 4); says != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, says, tt.want)
		}
	}
}

// TestBlocksDiffer checks that no two blocks of two operations begin alike.
func TestBlocksDiffer(t *testing.T) {
	seen := make(map[string]blockID)
	for op := range uint64(4) {
		for from := range 20 {
			for to := toAll; to < 20; to++ {
				id := blockID{op, from, to}
				data := string(made(8, id))
				if other, ok := seen[data]; ok {
					t.Fatalf("%v and %v begin alike", id, other)
				}
				seen[data] = id
			}
		}
	}
}

func BenchmarkFill(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		fill(data, blockID{1, 2, 3})
	}
}

func BenchmarkDiffers(b *testing.B) {
	id := blockID{1, 2, 3}
	data := made(1<<20, id)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if differs(data, id) >= 0 {
			b.Fatal("differs")
		}
	}
}
