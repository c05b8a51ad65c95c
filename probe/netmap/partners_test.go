package netmap

import (
	"fmt"
	"math/rand/v2"
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
