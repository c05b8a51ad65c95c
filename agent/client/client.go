package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

// A Client talks to the agent on this host. Its methods may be called concurrently.
type Client struct {
	api  apiv1connect.AgentServiceClient
	http *http.Client
	dial func(ctx context.Context) (net.Conn, error)
}

// New returns a client of the agent whose Unix socket is at path. Nothing is dialed yet.
func New(path string) *Client {
	return NewDialer(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	})
}

// NewDialer returns a client whose connections dial makes.
func NewDialer(dial func(ctx context.Context) (net.Conn, error)) *Client {
	h := &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true,
		// Where an agent has no lines, a rank's operations under way are each on a connection of its own.
		MaxIdleConnsPerHost: 8,
	}}
	return &Client{api: apiv1connect.NewAgentServiceClient(h, "http://gridagent"), http: h, dial: dial}
}

// API is the whole local API.
func (c *Client) API() apiv1connect.AgentServiceClient { return c.api }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A GroupError ended the rank's group. Every rank gets the same one.
type GroupError struct {
	Kind  string // not_formed, rank_lost, rank_failed, host_lost, mismatch, cancelled or internal
	Rank  int    // the lowest of those to blame; -1 where none is
	Host  string
	Cause string
	text  string
}

func (e *GroupError) Error() string { return e.text }

// asGroupError finds the failure that an error of the API carries.
func asGroupError(err error) error {
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return err
	}
	for _, d := range ce.Details() {
		v, valueErr := d.Value()
		if f, ok := v.(*apiv1.Failure); ok && valueErr == nil {
			return &GroupError{Kind: f.Kind, Rank: int(f.Rank), Host: f.Host, Cause: f.Cause, text: ce.Message()}
		}
	}
	return err
}

// A Rank is this program's place in a group.
type Rank struct {
	c       *Client
	job     string
	rank    uint32
	hosts   []string
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the stream has ended, after err is set
	err     error
	numbers *numbers
	lines   lines
}

// JoinOptions are the optional part of a Join.
type JoinOptions struct {
	// Limit is how long to wait for the other ranks: then all that wait get a
	// [*GroupError] of kind not_formed, which lists those that have not come. Zero means
	// 10 minutes, below zero without limit: a rank that never comes then goes unnoticed.
	Limit time.Duration
	// Waiting, if not nil, is told now and then how many ranks have joined so far, and
	// which have not, as in 2,5,7-9.
	Waiting func(present int, missing string)
}

// Join enters rank of ranks into the group of job and returns when all have joined.
// The rank is held until Close or Fail, or until ctx ends.
func (c *Client) Join(ctx context.Context, job string, rank, ranks int, opts ...JoinOptions) (*Rank, error) {
	var o JoinOptions
	if len(opts) > 0 {
		o = opts[len(opts)-1]
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.api.Join(ctx, connect.NewRequest(&apiv1.JoinRequest{
		Job: job, Rank: uint32(rank), Ranks: uint32(ranks), FormingTimeoutSeconds: o.Limit.Seconds(),
	}))
	if err != nil {
		cancel()
		return nil, asGroupError(err)
	}
	r := &Rank{c: c, job: job, rank: uint32(rank), cancel: cancel, ended: make(chan struct{}), numbers: newNumbers()}
	for stream.Receive() {
		switch e := stream.Msg().Event.(type) {
		case *apiv1.GroupEvent_Waiting:
			if o.Waiting != nil {
				o.Waiting(int(e.Waiting.RanksPresent), e.Waiting.Missing)
			}
		case *apiv1.GroupEvent_Formed:
			r.hosts = e.Formed.Hosts
			go r.watch(stream)
			return r, nil
		}
	}
	err = stream.Err()
	cancel()
	stream.Close()
	if err == nil {
		err = errors.New("the agent ended the call")
	}
	return nil, asGroupError(err)
}

// watch holds the stream that is the rank's life line. Close ends it.
func (r *Rank) watch(stream *connect.ServerStreamForClient[apiv1.GroupEvent]) {
	defer close(r.ended)
	for stream.Receive() {
	}
	r.err = asGroupError(stream.Err())
	stream.Close()
}

// Hosts returns the host of each rank. The caller must not modify it.
func (r *Rank) Hosts() []string { return r.hosts }

// Ended is closed when the group is over for this rank; Err then tells why.
func (r *Rank) Ended() <-chan struct{} { return r.ended }

// Err returns what ended the group, once Ended is closed.
func (r *Rank) Err() error {
	select {
	case <-r.ended:
		return r.err
	default:
		return nil
	}
}

// failGrace is how long Fail waits for the agent to take the cause.
const failGrace = 2 * time.Second

// Fail is Close of a rank that cannot go on: ranks that wait for it, or come to, are told
// the cause. It does nothing but close where the group is over.
func (r *Rank) Fail(cause error) error {
	select {
	case <-r.ended:
	default:
		ctx, cancel := context.WithTimeout(context.Background(), failGrace)
		defer cancel()
		// An agent that does not take it learns from Close that the rank is gone.
		_, _ = r.c.api.Fail(ctx, connect.NewRequest(&apiv1.FailRequest{Job: r.job, Rank: r.rank, Cause: cause.Error()}))
	}
	return r.Close()
}

// Close leaves the group. If an operation of the rank is running, the rank is lost to
// the others. It returns when all operations of the rank have ended.
func (r *Rank) Close() error {
	r.cancel()
	<-r.ended
	r.numbers.stop(errClosed)
	r.numbers.tasks.Wait()
	r.closeLine()
	return nil
}

var errClosed = errors.New("the rank has been closed")

// endGrace is how long a call that broke waits for the life line to say why: the agent
// ends both when the group ends, in any order.
const endGrace = 200 * time.Millisecond

// failure returns what ended the group, nil if nothing has within grace.
func (r *Rank) failure(grace time.Duration) *GroupError {
	select {
	case <-r.ended:
	case <-time.After(grace):
		return nil
	}
	var ge *GroupError
	errors.As(r.err, &ge)
	return ge
}

// lost prefers the group's failure over the broken call that it caused.
func (r *Rank) lost(err error) error {
	err = asGroupError(err)
	var ge *GroupError
	if errors.As(err, &ge) {
		return err
	}
	c := connect.CodeOf(err)
	gone := c == connect.CodeUnavailable || c == connect.CodeUnknown
	if gone || c == connect.CodeFailedPrecondition {
		if ge := r.failure(endGrace); ge != nil {
			return ge
		}
	}
	if gone {
		return fmt.Errorf("the agent on this host is gone: %w", err)
	}
	return err
}

// unopened is lost for a file of the spool that could not be opened: the agent takes
// the files of a rank away when its group ends.
func (r *Rank) unopened(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if ge := r.failure(endGrace); ge != nil {
			return ge
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}
