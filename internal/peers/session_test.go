package main

import "testing"

// A run of a plan that auto made is not told as the agents' own auto, which chose the same.
func TestRanAs(t *testing.T) {
	for _, tt := range []struct{ variant, name, ran, want string }{
		{"", "ring", "ring", ""},
		{"", "auto", "lr3", "lr3"},
		{"plan", "auto", "lr3", "plan lr3"},
		{"plan --sync sender", "aapc", "aapc", "plan --sync sender"},
		{"plan --links shared", "auto", "min3", "plan --links shared min3"},
	} {
		if got := ranAs(tt.variant, tt.name, tt.ran); got != tt.want {
			t.Errorf("%q by %s, which ran %s: %q, want %q", tt.variant, tt.name, tt.ran, got, tt.want)
		}
	}
}
