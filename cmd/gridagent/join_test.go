package main

import (
	"testing"

	"github.com/gridagent/gridagent/agent/identity"
)

// TestOverride checks what a later join takes from its flags and what from the folder.
func TestOverride(t *testing.T) {
	remembered := identity.Settings{Site: "x", Bind: "192.0.2.1:7001", Advertise: "192.0.2.1:7001"}
	tests := []struct {
		name string
		args []string
		from identity.Settings
		want identity.Settings
	}{
		{"nothing given", nil, remembered, remembered},
		{"a bind", []string{"--bind", "192.0.2.1:7002"}, remembered, identity.Settings{Site: "x", Bind: "192.0.2.1:7002", Advertise: "192.0.2.1:7001"}},
		{"the default, said aloud", []string{"--bind", "0.0.0.0:7946"}, remembered, identity.Settings{Site: "x", Bind: "0.0.0.0:7946", Advertise: "192.0.2.1:7001"}},
		{"an empty site", []string{"--site", "", "--advertise", "192.0.2.2:1"}, remembered, identity.Settings{Bind: "192.0.2.1:7001", Advertise: "192.0.2.2:1"}},
		{"a folder without a bind", nil, identity.Settings{}, identity.Settings{Bind: "0.0.0.0:7946"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := parent("join", "", "")
			host := addHostFlags(cmd)
			if err := cmd.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			got := tt.from
			host.override(cmd.Flags(), &got)
			if got != tt.want {
				t.Errorf("settings %+v, want %+v", got, tt.want)
			}
		})
	}
}
