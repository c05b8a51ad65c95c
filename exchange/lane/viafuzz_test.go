package lane

import (
	"bytes"
	"testing"
)

// FuzzReadViaName: a name is what its length says, no more is read, and no deadline stays.
func FuzzReadViaName(f *testing.F) {
	for _, seed := range []string{"", "\x00", "\x02b0rest", "\x05b0", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &slowReader{data: in}
		name, err := readViaName(r)
		if len(in) == 0 || in[0] == 0 || len(in) <= int(in[0]) {
			if err == nil {
				t.Fatalf("%q: name %q", in, name)
			}
			return
		}
		n := int(in[0])
		if err != nil || name != string(in[1:1+n]) || !bytes.Equal(r.data, in[1+n:]) || !r.deadline.IsZero() {
			t.Fatalf("%q: name %q, %v, %q left, deadline %v", in, name, err, r.data, r.deadline)
		}
	})
}

// A host carries so many streams for one member, and so many for all, and no count stays.
func TestCarriedIsBounded(t *testing.T) {
	var c carried
	begun := make(map[string]int)
	for i := range 10 * maxCarried {
		member := string(rune('a' + i%7))
		if !c.begin(member) {
			continue
		}
		if begun[member]++; begun[member] > maxCarriedFor {
			t.Fatalf("%d for %s", begun[member], member)
		}
	}
	if c.all != maxCarried {
		t.Errorf("%d for 7 members, want %d", c.all, maxCarried)
	}
	for member, n := range begun {
		for range n {
			c.end(member)
		}
	}
	if c.all != 0 || len(c.owing) != 0 {
		t.Errorf("left: %d, %v", c.all, c.owing)
	}
	for i := range 2 * maxCarriedFor {
		if c.begin("a") != (i < maxCarriedFor) {
			t.Fatalf("stream %d for one member", i)
		}
	}
}
