package netmap

import (
	"testing"

	"github.com/gridagent/gridagent/probe/logp"
)

// A host without a label is a site of its own, which probers call by its name behind an @: the models towards it are found, and
// nobody else's stand in for those of another such host. A file may leave out all labels and means one LAN.
func TestLogPOfUnlabelledHosts(t *testing.T) {
	a, b, c := newMap(t, "a"), newMap(t, "b"), newMap(t, "c")
	mod := *testModel(t)
	set := func(m *Map, site string, mod logp.Model) {
		t.Helper()
		if err := m.SetLogP(site, mod, t0); err != nil {
			t.Fatal(err)
		}
	}
	set(a, "@d", mod)
	set(a, "S", mod)
	set(b, "@a", mod)
	set(c, "@d", mod)
	pull(t, a, b, t0)
	pull(t, a, c, t0)
	hosts := []Host{{Name: "a"}, {Name: "b"}, {Name: "c", Site: "S"}, {Name: "d"}, {Name: "e", Site: "S"}}
	s := a.Snapshot(hosts, t0)
	for _, tt := range []struct {
		from, to int
		want     bool
	}{
		{0, 3, true}, {0, 2, true}, {0, 4, true}, {1, 0, true}, {2, 3, true}, {4, 3, true}, // e is of the site of c
		{0, 1, false}, {1, 3, false}, {1, 2, false}, {2, 0, false}, {3, 0, false}, {2, 4, false},
	} {
		if _, ok := s.LogP(tt.from, tt.to); ok != tt.want {
			t.Errorf("model of %s→%s: %v", hosts[tt.from].Name, hosts[tt.to].Name, ok)
		}
	}
	set(a, "", mod)
	lan := a.Snapshot([]Host{{Name: "a"}, {Name: "b"}, {Name: "d"}}, t0)
	for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 1}} {
		if _, ok := lan.LogP(pair[0], pair[1]); !ok {
			t.Errorf("no model of a LAN without labels for %v", pair)
		}
	}
}
