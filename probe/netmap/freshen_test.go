package netmap

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// world makes a snapshot of two sites of n hosts each; rate says what was measured of a pair,
// and how long ago.
func world(n int, rate func(from, to int) (BytesPerSec, time.Duration)) *Snapshot {
	now := time.Unix(1e6, 0)
	var hosts []Host
	for i := range 2 * n {
		site := "A"
		if i >= n {
			site = "B"
		}
		hosts = append(hosts, Host{Name: fmt.Sprintf("h%02d", i), Site: site})
	}
	est := make([]Estimate, 4*n*n)
	for i := range hosts {
		for j := range hosts {
			if i == j {
				continue
			}
			r, age := rate(i, j)
			est[i*2*n+j] = Estimate{Known: FieldBandwidth | FieldLatency, Bandwidth: r, Latency: 1e7, Source: SourceProbed, Measured: now.Add(-age)}
		}
	}
	return NewSnapshot(7, hosts, est)
}

// TestFreshenChangedLink: the link from A to B changes, and a few pairs of different hosts have shown
// it since. All others follow, but for those that were slow before.
func TestFreshenChangedLink(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 3 + rng.IntN(6)
		old, link := BytesPerSec(1e6), BytesPerSec(1e6)
		for differ(old, link) < 0.4 {
			link = BytesPerSec(1e5 * (1 + 40*rng.Float64()))
		}
		slow := rng.IntN(n) // a host of A with a port slower than any link
		noise := func(r BytesPerSec) BytesPerSec { return r * BytesPerSec(0.97+0.06*rng.Float64()) }
		seen := map[[2]int]bool{{(slow + 1) % n, n}: true, {(slow + 2) % n, n + 1}: true}
		s := world(n, func(i, j int) (BytesPerSec, time.Duration) {
			age := 60*time.Second + time.Duration(rng.Int64N(int64(10*time.Minute)))
			switch {
			case i >= n || j < n:
				return noise(2e6), age // not from A to B
			case i == slow:
				return noise(5e4), age
			case seen[[2]int{i, j}]:
				return noise(link), time.Duration(rng.Int64N(int64(20 * time.Second)))
			}
			return noise(old), age
		})
		f := Freshen(s)
		for i := range 2 * n {
			for j := range 2 * n {
				before, e := s.Estimate(i, j), f.Estimate(i, j)
				switch {
				case i == j:
				case i >= n || j < n || i == slow || seen[[2]int{i, j}]:
					if e != before {
						t.Fatalf("seed %d: %d→%d became %+v", seed, i, j, e)
					}
				case differ(e.Bandwidth, link) > 0.1 || e.Source != SourcePredicted || !e.Measured.Equal(before.Measured):
					t.Fatalf("seed %d: %d→%d is %+v on a link of %.0f", seed, i, j, e, link)
				}
			}
		}
	}
}

// TestFreshenLeavesAlone: no link has changed where the newest pairs are of one host, where they
// disagree, where hosts have ports of their own rate, or where everything agrees but for noise.
func TestFreshenLeavesAlone(t *testing.T) {
	const n = 6
	falseAlarms := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		noise := func(r BytesPerSec) BytesPerSec { return r * BytesPerSec(0.95+0.1*rng.Float64()) }
		age := func() time.Duration { return time.Minute + time.Duration(rng.Int64N(int64(10*time.Minute))) }
		ports := make([]BytesPerSec, 2*n)
		for i := range ports {
			ports[i] = BytesPerSec(1e5 * (1 + 9*rng.Float64()))
		}
		for what, rate := range map[string]func(i, j int) (BytesPerSec, time.Duration){
			"noise": func(i, j int) (BytesPerSec, time.Duration) { return noise(1e6), age() },
			"one sender": func(i, j int) (BytesPerSec, time.Duration) {
				if i == 2 && j >= n {
					return noise(2e5), time.Second
				}
				return noise(1e6), age()
			},
			"one receiver": func(i, j int) (BytesPerSec, time.Duration) {
				if j == n+1 && i < n {
					return noise(2e5), time.Second
				}
				return noise(1e6), age()
			},
			"ports": func(i, j int) (BytesPerSec, time.Duration) { return min(ports[i], ports[j], 9e5), age() },
			"one new pair": func(i, j int) (BytesPerSec, time.Duration) {
				if i == 1 && j == n {
					return 2e5, time.Second
				}
				return noise(1e6), age()
			},
		} {
			s := world(n, rate)
			f := Freshen(s)
			wrong := 0
			for i := range 2 * n {
				for j := range 2 * n {
					if i != j && f.Estimate(i, j) != s.Estimate(i, j) {
						wrong++
					}
				}
			}
			// Hosts with ports of their own can look like a change by chance, seldom.
			if wrong > 0 && what != "ports" {
				t.Fatalf("seed %d, %s: %d pairs were changed", seed, what, wrong)
			}
			if what == "ports" {
				falseAlarms += min(wrong, 1)
			}
		}
	}
	if falseAlarms > 10 {
		t.Errorf("in %d of 200 worlds of hosts with ports of their own rate a link was taken for changed", falseAlarms)
	}
}
