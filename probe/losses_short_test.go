package probe

import (
	"math/rand/v2"
	"testing"
	"time"
)

// train is a session of one train of so many packets over a link of 100 packets a second, of which so many arrived.
func train(count, arrived int) (res result) {
	span := time.Duration(arrived) * 10 * time.Millisecond
	res.take(reading{Rate: 100, Received: arrived, Span: span, Points: arrived}, count, time.Millisecond)
	return res
}

// Short trains of a path that loses 2 % say so or nothing, and what was counted before stays.
func TestShortTrainsTellNoLosses(t *testing.T) {
	const share, trains = 0.02, 1000
	for _, count := range []int{slowTrain, watchTrain, 11, firstTrain, 40, maxTrain} {
		for _, before := range []float64{0, 20_000} {
			rng := rand.New(rand.NewPCG(uint64(count), 7))
			var f lossFilter
			f.add(before, share*before)
			for range trains {
				arrived := 0
				for range count {
					if rng.Float64() >= share {
						arrived++
					}
				}
				if arrived < fewArrivals {
					continue
				}
				res := train(count, arrived)
				f.add(float64(res.sent), float64(res.lost))
			}
			got, ok := f.value()
			if ok && (got < 0.8*share || got > 1.2*share) || !ok && (before > 0 || count >= firstTrain) {
				t.Errorf("%d trains of %d packets, %.0f packets before: %.4f were lost, %t, want %g", trains, count, before, got, ok, share)
			}
		}
	}
}

// A short queue that overflows with each train is no loss of the path.
func TestShortQueueIsNoLoss(t *testing.T) {
	for _, queue := range []int{4, 5, 6, 7} {
		for _, count := range []int{slowTrain, watchTrain, firstTrain, maxTrain} {
			var f lossFilter
			for range 1000 {
				res := train(count, min(count, queue))
				f.add(float64(res.sent), float64(res.lost))
			}
			if got, _ := f.value(); got > 0 {
				t.Errorf("trains of %d packets into a queue of %d: %g of the path were lost", count, queue, got)
			}
		}
	}
}

// A second opinion of 6 packets, which may lose none, does not make 6 what watches the pair. It does say that a long train need
// not be as long any more.
func TestSecondOpinionKeepsTheLength(t *testing.T) {
	for _, tt := range []struct{ before, enough, want int }{
		{8, 6, 8}, {0, 6, 8}, {100, 8, 8}, {100, 6, 8}, {8, 60, 60}, {20, 0, 20},
	} {
		peer := Peer{"b0", "b"}
		p := &Prober{cfg: Config{Self: Peer{"a0", "a"}}, peers: map[string]*peerState{"b0": {length: tt.before}}}
		p.note(peer, urgent, result{Bandwidth: 1e5, Enough: tt.enough})
		if got := p.peers["b0"].length; got != tt.want {
			t.Errorf("after %d packets and a second opinion that says %d: %d, want %d", tt.before, tt.enough, got, tt.want)
		}
		p.note(peer, watch, result{Bandwidth: 1e5, Enough: tt.enough})
		if got := p.peers["b0"].length; got != tt.enough {
			t.Errorf("a train that watches says %d: %d", tt.enough, got)
		}
	}
}
