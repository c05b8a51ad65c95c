package main

import (
	"testing"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// TestCompleteHosts: the shell offers hosts that are alive and not named yet, also where a variable
// says which agent, and nothing without an agent.
func TestCompleteHosts(t *testing.T) {
	f := &fakeAgent{members: func(int64) []*apiv1.Member {
		ms := alive("a", "b", "c")
		ms[1].State = "failed"
		return ms
	}}
	socket := f.serve(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--socket", socket, ""}, "a\tsite X\nc\tsite X\n:4\n"},
		{[]string{"--socket", socket, "c"}, "c\tsite X\n:4\n"},
		{[]string{"--socket", socket, "a", ""}, "c\tsite X\n:4\n"},
		{[]string{"--socket", socket, "a", "c", ""}, ":4\n"},
		{[]string{"--socket", socket + "-none", ""}, ":4\n"},
	} {
		status, out, _ := gridagent(t, append([]string{"__complete", "probe"}, tt.args...)...)
		if status != exitOK || out != tt.want {
			t.Errorf("%q: status %d, %q; want %q", tt.args, status, out, tt.want)
		}
	}
	t.Setenv("GRIDAGENT_SOCKET", socket)
	if _, out, _ := gridagent(t, "__complete", "probe", ""); out != "a\tsite X\nc\tsite X\n:4\n" {
		t.Errorf("by the variable: %q", out)
	}
}
