package client

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/ends"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

// What a line says of the agent's end is what Connect says of it.
func TestLineSaysThatTheAgentStops(t *testing.T) {
	for code, want := range map[connect.Code]bool{connect.CodeUnavailable: true, connect.CodeAborted: false, connect.CodeInvalidArgument: false} {
		if got := ends.Says(wireError(&apiv1.LineError{Code: uint32(code), Message: "m"})); got != want {
			t.Errorf("%v: %v, want %v", code, got, want)
		}
	}
}
