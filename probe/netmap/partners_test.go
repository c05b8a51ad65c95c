package netmap

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Whom a host compares maps with: few hosts, who stay for a while, and all sites.
func TestPartners(t *testing.T) {
	for _, tt := range []struct{ sites, hosts int }{{1, 2}, {1, 50}, {3, 1}, {3, 7}, {10, 100}, {2, 1}} {
		var peers []Host
		for s := range tt.sites {
			for h := range tt.hosts {
				if s+h > 0 {
					peers = append(peers, Host{Name: fmt.Sprintf("s%d-%d", s, h), Site: fmt.Sprint(s)})
				}
			}
		}
		p := NewPartners("0", rand.New(rand.NewPCG(1, uint64(tt.sites))))
		short, all, crossed := map[string]bool{}, map[string]bool{}, 0
		const rounds = 4000
		for i := range rounds {
			name, _, ok := p.Pick(peers, false, t0.Add(time.Duration(i)*5*time.Second))
			if !ok {
				t.Fatalf("%+v: nobody in round %d", tt, i)
			}
			if i < 50 {
				short[name] = true
			}
			all[name] = true
			if name[1] != '0' {
				crossed++
			}
		}
		if len(short) > nearPartners+farPartners {
			t.Errorf("%+v: %d partners within four minutes", tt, len(short))
		}
		if want := min(len(peers), 30); len(all) < want {
			t.Errorf("%+v: %d partners within five hours, want %d", tt, len(all), want)
		}
		if want := 2 * rounds / tt.hosts; tt.sites > 1 && tt.hosts > 4 && (crossed < want/2 || crossed > want*2) {
			t.Errorf("%+v: %d of %d rounds cross, want about %d", tt, crossed, rounds, want)
		}
	}
}

func TestPartnersComeAndGo(t *testing.T) {
	p := NewPartners("", rand.New(rand.NewPCG(1, 1)))
	if name, _, ok := p.Pick(nil, false, t0); ok {
		t.Errorf("of nobody: %s", name)
	}
	two := []Host{{Name: "x"}, {Name: "y"}}
	p.Pick(two, false, t0)
	p.Drop("y")
	for range 3 {
		if name, _, ok := p.Pick(two[:1], false, t0); !ok || name != "x" {
			t.Errorf("x alone is left, picked %q", name)
		}
	}
	// Who calls is called, too; a stranger is not, however often it calls.
	var many []Host
	for i := range 200 {
		many = append(many, Host{Name: fmt.Sprintf("h%d", i)})
	}
	for i := range 100 {
		p.Called(fmt.Sprintf("stranger%d", i), "")
	}
	p.Called("h7", "")
	seen := map[string]bool{}
	for range 30 {
		name, _, _ := p.Pick(many, false, t0)
		seen[name] = true
	}
	if !seen["h7"] || len(seen) > nearPartners+1 {
		t.Errorf("turned to %v", seen)
	}
}

// TestFarPartnersAreSpread: partners elsewhere are of two sites, mostly, but the only host of a small site is not the partner of
// everybody: each partner is a connection, and gets all news of those whose partner it is. And of large sites not all hosts tell at once.
func TestFarPartnersAreSpread(t *testing.T) {
	if raceDetector {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for _, tt := range []struct {
		sizes []int // of sites; the last one's hosts are looked at, those of the first choose
		apart float64
		most  int // how many may choose a host of the last site
	}{
		{[]int{500, 490, 1}, 0, 25},
		{[]int{500, 245, 245, 1}, 0.9, 25},
		{[]int{100, 10, 10}, 0.9, 35}, // 20 each, were all alike
		{[]int{5, 4, 3}, 0.9, 5},
		{[]int{3, 5, 1}, 0.7, 3},
	} {
		var all []Host
		for k, n := range tt.sizes {
			for i := range n {
				all = append(all, Host{Name: fmt.Sprintf("%c%03d", 'a'+k, i), Site: string(rune('a' + k))})
			}
		}
		last := string(rune('a' + len(tt.sizes) - 1))
		chosen, apart, tellers := map[string]int{}, 0, 0
		for i := range tt.sizes[0] {
			peers := slices.Delete(slices.Clone(all), i, i+1)
			p := NewPartners("a", rand.New(rand.NewPCG(uint64(i), 3)))
			if told := p.Far(peers, t0); len(told) > 0 {
				tellers++
			}
			far := p.far.own
			if len(far) != farPartners || far[0][0] == 'a' || far[1][0] == 'a' || far[0] == far[1] {
				t.Fatalf("%v: partners %v", tt.sizes, far)
			}
			if far[0][0] != far[1][0] {
				apart++
			}
			for _, name := range far {
				chosen[name]++
			}
		}
		if share := float64(apart) / float64(tt.sizes[0]); share < tt.apart {
			t.Errorf("%v: %.2f of the hosts have partners at two sites, want %.2f", tt.sizes, share, tt.apart)
		}
		if all := tt.sizes[0]; tellers < min(all, farTellers/2) || tellers > min(all, 2*farTellers) || all <= farTellers && tellers < all {
			t.Errorf("%v: %d hosts would tell their partners at once", tt.sizes, tellers)
		}
		for name, n := range chosen {
			if name[:1] == last && n > tt.most {
				t.Errorf("%v: %s is the partner of %d hosts", tt.sizes, name, n)
			}
		}
	}
}
