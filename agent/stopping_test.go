package agent

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/gridagent/gridagent/agent/api/ends"
	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/client"
)

// Clients that wait for something else than a group's operation can tell that it is the agent that ends.
func TestAgentSaysThatItStops(t *testing.T) {
	t.Parallel()
	h := startHost(t, newCluster(t, "solo"), nil)
	api := h.client(t).API()
	ended := make(map[string]chan error)
	wait := func(what string, f func(in chan<- struct{}) error) {
		in, end := make(chan struct{}, 1), make(chan error, 1)
		go func() { end <- f(in) }()
		<-in
		ended[what] = end
	}
	wait("Join", func(in chan<- struct{}) error {
		_, err := h.client(t).Join(t.Context(), "never", 0, 2, client.JoinOptions{Waiting: func(int, string) {
			select {
			case in <- struct{}{}:
			default:
			}
		}})
		return err
	})
	wait("WatchPools", func(in chan<- struct{}) error {
		stream, err := api.WatchPools(t.Context(), connect.NewRequest(&apiv1.WatchPoolsRequest{}))
		if err != nil {
			in <- struct{}{}
			return err
		}
		defer stream.Close()
		for stream.Receive() {
			select {
			case in <- struct{}{}:
			default:
			}
		}
		return stream.Err()
	})
	h.cancel()
	for what, end := range ended {
		if err := <-end; !ends.Says(err) {
			t.Errorf("%s: %v, which is not marked as the agent's end", what, err)
		}
	}
	if err := h.wait(); err != nil {
		t.Error(err)
	}
}
