package agent

import (
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent/membership"
)

// What a host has said counts while it is alive, and some hours longer if it has not left for good: hosts that join meanwhile do not hear of it, and maps
// would differ as long as anybody remembers it.
func TestWhoseReportsCount(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		state membership.State
		gone  time.Duration
		want  bool
	}{
		{membership.Alive, 0, true},
		{membership.Alive, 100 * time.Hour, true}, // for so long
		{membership.Failed, time.Hour, true},
		{membership.Failed, 7 * time.Hour, false},
		{membership.Stopped, time.Hour, true},
		{membership.Stopped, 7 * time.Hour, false},
		{membership.Unseen, time.Hour, true},
		{membership.Unseen, 7 * time.Hour, false},
		{membership.Left, time.Second, false},
	} {
		if got := heeded(membership.Member{State: tt.state, Since: now.Add(-tt.gone)}, now); got != tt.want {
			t.Errorf("%v for %v: %v", tt.state, tt.gone, got)
		}
	}
}
