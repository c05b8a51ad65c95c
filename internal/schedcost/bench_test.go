package main

import (
	"fmt"
	"testing"
)

// BenchmarkCost is every series at every size. Run it through scripts/cost: all at once it takes
// minutes and gigabytes.
func BenchmarkCost(b *testing.B) {
	all, err := allSeries()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range all {
		b.Run(s.path(), func(b *testing.B) {
			for _, n := range sizes {
				b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
					once, err := s.prepare(n)
					if err != nil {
						b.Fatal(err)
					}
					measure(b, once)
				})
			}
		})
	}
}

// BenchmarkPaper is table 3 of Gupta & Vadhiyar on the grid of their tables 1 and 2.
func BenchmarkPaper(b *testing.B) {
	for _, s := range setups {
		snapshot, err := s.snapshot(paperGrid)
		if err != nil {
			b.Fatal(err)
		}
		for _, duplex := range duplexes {
			b.Run(fmt.Sprintf("%s/%v/n=%d", s.name, duplex, snapshot.N()), func(b *testing.B) {
				measure(b, func() (int, error) { return transfers(buildAndSchedule(snapshot, duplex)) })
			})
		}
	}
}

func measure(b *testing.B, once run) {
	b.ReportAllocs()
	made := 0
	for b.Loop() {
		n, err := once()
		if err != nil {
			b.Fatal(err)
		}
		made = n
	}
	b.ReportMetric(float64(made), "transfers")
}
