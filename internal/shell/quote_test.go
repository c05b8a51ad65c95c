package shell

import (
	"os/exec"
	"testing"
)

// TestQuote: a shell reads each word as it was.
func TestQuote(t *testing.T) {
	for _, tc := range []struct{ word, want string }{
		{"/var/lib/grid-agent_1", "/var/lib/grid-agent_1"},
		{"größe", "größe"},
		{"my dir", "'my dir'"},
		{"it's", `'it'\''s'`},
		{"~x", "'~x'"},
		{"$HOME`id`\"\\*", "'$HOME`id`\"\\*'"},
		{"", "''"},
	} {
		got := Quote(tc.word)
		if got != tc.want {
			t.Errorf("%q: %s, want %s", tc.word, got, tc.want)
		}
		if out, err := exec.Command("sh", "-c", "printf %s "+got).Output(); err != nil || string(out) != tc.word {
			t.Errorf("a shell makes %q of %s (%v)", out, got, err)
		}
	}
}
