package agent

import "testing"

// TestWarningGist: numbers and times do not make a warning new, names of hosts do.
func TestWarningGist(t *testing.T) {
	names := map[string]bool{"a1": true, "a2": true, "7": true, "8": true, "1e3": true}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"host a1: map rows refused 3 times, last 1m5s ago: row of 12 bytes", "host a1: map rows refused 114 times, last 0s ago: row of 9 bytes", true},
		{"host a1: map rows refused 3 times, last 1m5s ago: x", "host a2: map rows refused 3 times, last 1m5s ago: x", false},
		{"host 7: map rows refused 3 times, last 2s ago: x", "host 8: map rows refused 3 times, last 2s ago: x", false},
		{"host 1e3: map rows refused 3 times", "host 1e4: map rows refused 3 times", false},
		{"host a1: what it reports contradicts a2 (a1→a2: the sender says 93.2 Mbit/s, the receiver 1.2e+04); theirs is believed",
			"host a1: what it reports contradicts a2 (a1→a2: the sender says 94 Mbit/s, the receiver 12); theirs is believed", true},
		{"a1⇄a2: half of the round trip is 1.25ms to a1 and 350µs to a2", "a1⇄a2: half of the round trip is 1.1s to a1 and 20ns to a2", true},
		{"host node-1.2 is there for 3s", "host node-1.3 is there for 3s", false},
		{"12MiB of 3KiB, 40%", "13.5MiB of 4KiB, 1%", true},
		{"probes to 10.0.0.1:7946", "probes to 10.0.0.2:7946", false},
	} {
		if same := gist(tc.a, names) == gist(tc.b, names); same != tc.same {
			t.Errorf("%q and %q: same %v\n%q\n%q", tc.a, tc.b, same, gist(tc.a, names), gist(tc.b, names))
		}
	}
}
