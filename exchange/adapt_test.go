package exchange

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPaceFalls: a fall to a quarter is seen within paceSpan, and what follows is still compared with what was before.
func TestPaceFalls(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rate := math.Exp(rng.Float64()*12) * 1e3 // bytes a second
		step := func() int64 { return int64(rate * paceEvery.Seconds() * (0.8 + 0.4*rng.Float64())) }
		var p pace
		var got int64
		for range 20 + rng.IntN(100) {
			got += step()
			p.look(got, true)
			if p.fell() {
				t.Fatalf("seed %d: a rate that swings by a fifth counts as fallen: %.0f, was %.0f", seed, p.rate(), p.usual())
			}
		}
		for i := range 200 {
			got += step() / 4
			p.look(got, true)
			if i >= paceSlots-1 && !p.fell() {
				t.Fatalf("seed %d: not seen after %v: %.0f, was %.0f", seed, time.Duration(i+1)*paceEvery, p.rate(), p.usual())
			}
		}
		for range paceSlots {
			got += step()
			p.look(got, true)
		}
		if p.suspect() {
			t.Errorf("seed %d: recovered, and counts as slow: %.0f, was %.0f", seed, p.rate(), p.usual())
		}
	}
}

// TestPaceStarved: nothing to send is no fall, and neither is the time after.
func TestPaceStarved(t *testing.T) {
	var p pace
	var got int64
	for i := range 400 {
		busy := i%17 > 3
		if busy {
			got += 1000
		}
		p.look(got, busy)
		if p.suspect() {
			t.Fatalf("look %d: %.0f, was %.0f", i, p.rate(), p.usual())
		}
	}
	if p.usual() == 0 {
		t.Error("there was something to send for three quarters of the time, and no usual rate")
	}
}

// TestPaceEnding: who has nothing left to hand out sends less, which is no fall; that what is under way does not arrive is one.
func TestPaceEnding(t *testing.T) {
	var p pace
	var got int64
	for range 40 {
		got += 1000
		p.look(got, true)
	}
	tell := func(under int64) stand {
		st := stand{hosts: 1}
		st.rate, st.usual = p.ending(under)
		return st
	}
	for i := range 3 * paceSlots {
		got += max(0, 1000-100*int64(i)) // the last ones arrive
		p.look(got, false)
		if st := tell(500); i < 8 && st.fell(fallShare) {
			t.Errorf("look %d: 500 bytes are under way, and it has fallen: %+v", i, st)
		}
		if st := tell(0); st.fell(1) || st.rate > 4000 {
			t.Errorf("look %d: nothing is under way, and it has fallen, or grown: %+v", i, st)
		}
	}
	if st := tell(500); !st.fell(fallShare) || st.usual > 500/paceSpan.Seconds() {
		t.Errorf("500 bytes have not arrived in %v: %+v", paceSpan, st)
	}
	if st := tell(1 << 40); st.usual != p.usual() {
		t.Errorf("more is expected than is usual: %+v, was %v", st, p.usual())
	}
}

// TestRelieve: whoever takes part ends at one time, nobody takes what he would deliver later, and no more is given than
// there is, whatever others claim.
func TestRelieve(t *testing.T) {
	some := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		draw := func() float64 {
			switch rng.IntN(6) {
			case 0:
				return 0
			case 1:
				return maxNumber
			}
			return math.Floor(math.Exp(rng.Float64() * 20))
		}
		own := stand{backlog: int64(draw()), rate: draw(), hosts: 1}
		others := make([]stand, rng.IntN(6))
		for i := range others {
			others[i] = stand{backlog: int64(draw()), rate: draw(), hosts: 1}
		}
		take, _ := relieve(own, others)
		if take == nil {
			continue
		}
		some++
		var sum int64
		for _, n := range take {
			if n < 0 {
				t.Fatalf("seed %d: takes %v", seed, take)
			}
			sum += n
		}
		if slack := int64(len(take)) + own.backlog/1e6; sum > own.backlog+slack {
			t.Fatalf("seed %d: %d of %d bytes are taken", seed, sum, own.backlog)
		}
		end := float64(own.backlog-sum) / own.rate
		if own.rate == 0 {
			continue
		}
		for i, n := range take {
			if n == 0 {
				continue
			}
			if e := float64(others[i].backlog+n) / others[i].rate; e > end*1.001+2/own.rate+2/others[i].rate {
				t.Fatalf("seed %d: %d would end after %.3f s, the rest after %.3f s", seed, i, e, end)
			}
		}
	}
	if some < 200 {
		t.Errorf("something was given in %d of 2000 worlds only", some)
	}
	if got, _ := relieve(stand{backlog: 1000, rate: 1000}, []stand{{rate: 1e9}}); got != nil {
		t.Errorf("a second is left, and %v is given away", got)
	}
}
