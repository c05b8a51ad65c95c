package main

import (
	"fmt"
	"slices"

	"github.com/gridagent/gridagent/exchange/plan"
)

// Gupta & Vadhiyar, §6. The sizes of figure 8 and 10 are lost with the figures; the text names 64,
// 256 and 512 KB.
var (
	gridSizes         = []int64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20}
	gridEmulatedSizes = []int64{4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10}

	fullContenders = []string{"min3", "clustered", "mateescu", "magpie", "mpich-g2"}
	halfContenders = []string{"min3 half", "clustered half", "mateescu half", "magpie", "mpich-g2"}
)

var min3Experiments = []experiment{min3Table3, min3Fig8, min3Fig9, min3Fig10, min3Fig11}

// improvement is by how much of their time name is faster than others, on average over the sizes
// and the others: the mean of 1 − own/other.
func improvement(raw *Raw, s Source, arena, name string, others []string) (mean float64, faster, of int) {
	sum := 0.0
	for _, n := range sizesOf(raw, s, arena, name) {
		own := raw.mean(s, arena, name, n)
		for _, o := range others {
			if t := raw.mean(s, arena, o, n); t > 0 {
				sum += 1 - own/t
				of++
				if own < t {
					faster++
				}
			}
		}
	}
	if of == 0 {
		return 0, 0, 0
	}
	return sum / float64(of), faster, of
}

// tie is by how much a time may be longer and still count as the fastest.
const tie = 0.02

// wins reports whether name is the fastest at a size, or as fast as the fastest.
func wins(raw *Raw, s Source, arena, name string, others []string, size int64) bool {
	own := raw.mean(s, arena, name, size)
	for _, o := range others {
		if t := raw.mean(s, arena, o, size); t > 0 && own > t*(1+tie) {
			return false
		}
	}
	return own > 0
}

// firstWin returns the least size from which on name wins at every larger one; ok is false if it
// does not at the largest.
func firstWin(raw *Raw, s Source, arena, name string, others []string) (size int64, ok bool) {
	sizes := sizesOf(raw, s, arena, name)
	slices.Reverse(sizes)
	for _, n := range sizes {
		if !wins(raw, s, arena, name, others, n) {
			break
		}
		size, ok = n, true
	}
	return size, ok
}

// winsBetween judges a first win: it agrees from a size of least to most on, which a paper says, and
// partly from another one.
func winsBetween(size int64, ok bool, least, most int64) verdict {
	return judge(ok && least <= size && size <= most, ok)
}

func others(names []string, own string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == own || n == "min3 shared links" })
}

func allgatherSweep(arena string, contenders []string, predict Source, predicted, emulated []int64) sweep {
	return sweep{arena: arena, collective: plan.Allgather, contenders: contenders, predict: predict, predicted: predicted, emulated: emulated}
}

// where says how a win reads: from which size on.
func winsFrom(size int64, ok bool) string {
	if !ok {
		return "it is not the fastest at the largest size"
	}
	return fmt.Sprintf("from %s on it is the fastest, or within %s of it", inBytes(size), percent(tie))
}
