package main

// Faraj, Patarasuk & Yuan, §5. The sizes are those of the ranges in the text.
var ringSizes = []int64{4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10, 96 << 10, 128 << 10}

var ringContenders = []string{"lr1", "mpich", "lam"}

var ringsExperiments = []experiment{ringsFig9, ringsFig10, ringsTable1, ringsFig11}

func ringSweep(arena string, contenders []string, sizes []int64) sweep {
	return allgatherSweep(arena, contenders, Simulated, sizes, sizes)
}

// ratioText is a time over the bound, as in ×1.10.
func ratioText(raw *Raw, s Source, arena, name string, size int64) string {
	r, _ := raw.find(s, arena, name, size)
	return times(r.ratio())
}
