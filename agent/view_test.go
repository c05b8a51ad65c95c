package agent

import (
	"errors"
	"maps"
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

// What is predicted comes of live hosts, and a link is as wide as there are live pairs at its ends.
func TestPredictionsAreOfLiveHosts(t *testing.T) {
	now := time.Now()
	member := func(name, site string, state membership.State) membership.Member {
		return membership.Member{Name: name, State: state, Since: now, Meta: membership.Meta{Site: site}}
	}
	labels, hosts := liveSites([]membership.Member{member("a0", "A", membership.Unseen), member("a1", "A", membership.Failed), member("a2", "A", membership.Alive),
		member("b0", "B", membership.Left), member("b1", "B", membership.Alive), member("b2", "B", membership.Alive), member("c0", "", membership.Alive), member("c1", "", membership.Stopped)}, "a0", "A")
	if want := map[string]string{"a0": "A", "a2": "A", "b1": "B", "b2": "B", "c0": ""}; !maps.Equal(labels, want) {
		t.Errorf("labels %v, want %v", labels, want)
	}
	if want := map[string]int{"A": 2, "B": 2, "": 1}; !maps.Equal(hosts, want) {
		t.Errorf("hosts %v, want %v", hosts, want)
	}
}

// Nobody waits for what predictions are made from to be gathered anew, but who asks when nobody has for long.
func TestGuessesAreRenewedAside(t *testing.T) {
	t.Parallel()
	a := startHost(t, newCluster(t, "a"), nil)
	first, _ := a.like()
	age := func(by time.Duration) {
		a.guesses.mu.Lock()
		defer a.guesses.mu.Unlock()
		a.guesses.at = time.Now().Add(-by)
	}
	if again, _ := a.like(); again != first {
		t.Error("made anew at once")
	}
	age(guessEvery)
	if old, _ := a.like(); old != first {
		t.Error("made anew while somebody waited")
	}
	eventually(t, 5*time.Second, "new guesses", func() error {
		if now, _ := a.like(); now == first {
			return errors.New("still the old ones")
		}
		return nil
	})
	second, _ := a.like()
	age(guessOld)
	if third, _ := a.like(); third == second {
		t.Errorf("after %v the old ones are handed out", guessOld)
	}
}
