package exchange

import (
	"reflect"
	"testing"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestRestamp: the part of another exchange is the same but for its id, and the original is untouched.
func TestRestamp(t *testing.T) {
	p := &Part{ID: ID{1, 2, 3}, Collective: plan.Allgather, Hosts: []string{"a", "b"}, Self: 1, Chunk: 4096}
	encoded := p.AppendTo(nil)
	before := string(encoded)
	want := *p
	want.ID = ID{9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6}
	again, err := Restamp(encoded, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := want.AppendTo(nil); !reflect.DeepEqual(got, again) || string(encoded) != before {
		t.Errorf("restamped %x, want %x; the original is now %x, was %x", again, got, encoded, before)
	}
	for _, bad := range [][]byte{nil, {partVersion}, append([]byte{crossingVersion + 1}, encoded[1:]...)} {
		if _, err := Restamp(bad, p.ID); err == nil {
			t.Errorf("restamped %x", bad)
		}
	}
}
