package netmap

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// predictSlowly is Predict as its comment says it, pair by pair.
func predictSlowly(s *Snapshot, i, j int) (BytesPerSec, bool) {
	e := s.Estimate(i, j)
	if !e.Has(FieldLatency) {
		return 0, false
	}
	var like []BytesPerSec
	for a := range s.N() {
		for b := range s.N() {
			o := s.Estimate(a, b)
			if a == b || !o.Has(FieldLatency|FieldBandwidth) || o.Source == SourcePredicted ||
				s.Host(a).Site != s.Host(i).Site || s.Host(b).Site != s.Host(j).Site {
				continue
			}
			reach := max(2*time.Millisecond, time.Duration(0.3*float64(e.Latency)))
			if o.Latency <= e.Latency+reach && (o.Latency >= e.Latency-reach || float64(o.Latency) >= 0.25*float64(e.Latency)) {
				like = append(like, o.Bandwidth)
			}
		}
	}
	if len(like) == 0 {
		return 0, false
	}
	slices.Sort(like)
	k := len(like)
	return like[(k-1)/2] + (like[k/2]-like[(k-1)/2])/2, true
}

func TestPredictAgreesWithThePlainVersion(t *testing.T) {
	filled, left := 0, 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(14)
		s := randomSnapshot(rng, n)
		for i := range s.est { // latencies that do resemble each other, bandwidths that repeat
			s.est[i].Latency = time.Duration(rng.IntN(30)) * time.Millisecond // on the edge of alike, too
			s.est[i].Bandwidth = BytesPerSec(1+rng.IntN(5)) * Mbps
			if rng.IntN(8) == 0 {
				s.est[i].Source = SourcePredicted
			}
			s.est[i] = s.est[i].clean()
		}
		before := slices.Clone(s.est)
		p := Predict(s)
		if !slices.Equal(before, s.est) {
			t.Fatalf("seed %d: Predict changed its input", seed)
		}
		for i := range n {
			for j := range n {
				got, was := p.Estimate(i, j), s.Estimate(i, j)
				if i == j || was.Has(FieldBandwidth) {
					if got != was {
						t.Fatalf("seed %d: %d→%d was known: %+v became %+v", seed, i, j, was, got)
					}
					continue
				}
				want := was
				if b, ok := predictSlowly(s, i, j); ok {
					want.Bandwidth, want.Source = b, SourcePredicted
					want.Known |= FieldBandwidth
					filled++
				} else {
					left++
				}
				if got != want {
					t.Fatalf("seed %d: %d→%d is %+v, want %+v", seed, i, j, got, want)
				}
			}
		}
	}
	if filled < 1000 || left < 1000 {
		t.Fatalf("only %d filled and %d left: the test tries too little", filled, left)
	}
}

func BenchmarkPredict256(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 4))
	s := randomSnapshot(rng, 256)
	b.ReportAllocs()
	for b.Loop() {
		Predict(s)
	}
}
