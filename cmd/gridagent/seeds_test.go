package main

import (
	"errors"
	"strings"
	"testing"
)

func TestResolveSeeds(t *testing.T) {
	tests := []struct{ text, want string }{
		{"192.0.2.1:7001", "192.0.2.1:7001"},
		{"192.0.2.1", "192.0.2.1:7946"},
		{"192.0.2.1, 192.0.2.2:1,", "192.0.2.1:7946 192.0.2.2:1"},
		{"[2001:db8::1]:7001", "[2001:db8::1]:7001"},
		{"2001:db8::1", "[2001:db8::1]:7946"},
		{"[2001:db8::1]", "[2001:db8::1]:7946"},
	}
	for _, tt := range tests {
		addrs, err := resolveSeeds(t.Context(), tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		var got []string
		for _, a := range addrs {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v, want %v", tt.text, got, tt.want)
		}
	}
	for _, text := range []string{"", " , ", "192.0.2.1:none", "192.0.2.1:99999"} {
		addrs, err := resolveSeeds(t.Context(), text)
		var usage *usageError
		if !errors.As(err, &usage) {
			t.Errorf("%q: %v, %v, want a usage error", text, addrs, err)
		}
	}
}

func FuzzParseSeeds(f *testing.F) {
	f.Add("192.0.2.1:1,host-b")
	f.Add("[::1%lo]:7, ,")
	f.Fuzz(func(t *testing.T, text string) {
		seeds, err := parseSeeds(text)
		if (err == nil) != (len(seeds) > 0) {
			t.Errorf("%q: %v, %v", text, seeds, err)
		}
		for _, s := range seeds {
			if s.host == "" || s.port == 0 {
				t.Errorf("%q: seed %+v", text, s)
			}
		}
	})
}
