package main

import (
	"strings"
	"testing"

	"github.com/gridagent/gridagent/agent/identity"
)

// TestSeedHint checks what init tells the operator to give to the other hosts: an address
// that can be reached, or where to find it.
func TestSeedHint(t *testing.T) {
	for _, tt := range []struct{ bind, advertise, want string }{
		{"127.0.0.1:7001", "", "127.0.0.1:7001 --token TOKEN"},
		{"0.0.0.0:7001", "", "ADDRESS-OF-THIS-HOST:7001 --token TOKEN"},
		{"[::]:7001", "", "ADDRESS-OF-THIS-HOST:7001 --token TOKEN"},
		{"0.0.0.0:7001", "192.0.2.1:7002", "192.0.2.1:7002 --token TOKEN"},
		{"0.0.0.0:0", "192.0.2.1:7002", "192.0.2.1:7002 --token TOKEN"},
		{"0.0.0.0:7001", "192.0.2.1:0", "192.0.2.1:7001 --token TOKEN"},
		{"0.0.0.0:0", "192.0.2.1:0", "take ADDRESS from gridagent status --dir DIR"},
		{"", "", "ADDRESS-OF-THIS-HOST:7946 --token TOKEN"},
		{"127.0.0.1:0", "", "ADDRESS --token TOKEN; the system picks the port at each start"},
		{"0.0.0.0:0", "", "take ADDRESS from gridagent status --dir DIR"},
	} {
		got := seedHint(identity.Settings{Bind: tt.bind, Advertise: tt.advertise}, "DIR")
		if !strings.Contains(got, tt.want) || strings.Contains(got, ":0") {
			t.Errorf("bind %q, advertise %q: %q, want %q", tt.bind, tt.advertise, got, tt.want)
		}
	}
}
