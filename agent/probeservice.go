package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/membership"
	"github.com/gridagent/gridagent/probe"
)

// An asker measures one pair of hosts on request; *probe.Prober is the one of production.
// It calls progress from the goroutine of its caller, and gives up if that fails.
type asker interface {
	Ask(ctx context.Context, q probe.Question, progress func(probe.Progress) error) (probe.Answer, error)
}

func (s *service) Probe(ctx context.Context, req *connect.Request[apiv1.ProbeRequest], stream *connect.ServerStream[apiv1.ProbeEvent]) error {
	return probeOnRequest(ctx, s.a.prober, s.a.name, s.a.states, req.Msg, stream.Send)
}

// states returns the state of every member by name.
func (a *Agent) states() map[string]string {
	hosts := make(map[string]string)
	for _, m := range a.members.Members() {
		if m.State != membership.Left {
			hosts[m.Name] = m.State.String()
		}
	}
	hosts[a.name] = membership.Alive.String()
	return hosts
}

// probeOnRequest answers r with events. states returns the state of every member by name; it is asked
// again while another host measures.
func probeOnRequest(ctx context.Context, by asker, self string, states func() map[string]string, r *apiv1.ProbeRequest, send func(*apiv1.ProbeEvent) error) error {
	timeout, err := duration("timeout of the probe", r.GetTimeoutSeconds())
	if err != nil {
		return err
	}
	q := probe.Question{From: cmp.Or(r.GetFrom(), self), To: r.GetTo(), Kind: cmp.Or(r.GetKind(), probe.AskKinds[0]), Timeout: timeout}
	switch {
	case !slices.Contains(probe.AskKinds, q.Kind):
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("probe of kind %.40q: want %s", q.Kind, strings.Join(probe.AskKinds, ", ")))
	case timeout > probe.MaxAskTime:
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("timeout of the probe of %v: want at most %v", timeout, probe.MaxAskTime))
	case q.From == q.To:
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("probe of %.80q and itself: name two hosts", q.To))
	}
	hosts := states()
	for _, name := range []string{q.From, q.To} {
		if err := isAlive(name, hosts); err != nil {
			return err
		}
	}
	if q.From != self {
		var stop func()
		ctx, stop = whileAlive(ctx, q.From, states)
		defer stop()
	}
	a, err := by.Ask(ctx, q, func(p probe.Progress) error {
		return send(&apiv1.ProbeEvent{Event: &apiv1.ProbeEvent_Progress{Progress: &apiv1.ProbeProgress{Step: p.Step, Bytes: uint64(max(p.Bytes, 0))}}})
	})
	if err != nil {
		return probeError(ctx, q, err)
	}
	return send(&apiv1.ProbeEvent{Event: &apiv1.ProbeEvent_Result{Result: probeResult(q, a)}})
}

func probeResult(q probe.Question, a probe.Answer) *apiv1.ProbeResult {
	r := &apiv1.ProbeResult{
		From: q.From, To: q.To, Kind: q.Kind,
		RttSeconds: a.RTT.Seconds(), RttVariationSeconds: a.Variation.Seconds(),
		BandwidthMbps: a.Bandwidth.Mbps(), Spread: a.Spread,
		CapacityMbps: a.Capacity.Mbps(), Lanes: uint32(a.Lanes), Loss: a.Loss,
		Bytes: uint64(a.Bytes), Seconds: a.Took.Seconds(), Notes: a.Notes,
	}
	for _, c := range a.Curve {
		r.Curve = append(r.Curve, &apiv1.LaneRate{Lanes: uint32(c.Lanes), Mbps: c.Rate.Mbps()})
	}
	for _, p := range a.LogP {
		r.Logp = append(r.Logp, &apiv1.LogPPoint{SizeBytes: uint64(p.Size), SendOverheadSeconds: p.Send.Seconds(),
			ReceiveOverheadSeconds: p.Receive.Seconds(), GapSeconds: p.Gap.Seconds()})
	}
	return r
}

// probeError gives err the code that says what a caller can do, and words for a person.
func probeError(ctx context.Context, q probe.Question, err error) error {
	var busy *probe.BusyError
	var refused *probe.RefusedError
	var capped *probe.CapError
	var lost *connect.Error
	switch {
	case errors.As(context.Cause(ctx), &lost):
		return lost
	case ctx.Err() != nil:
		return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
	case errors.As(err, &busy):
		return connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("%s → %s cannot be measured now (%s): try again in %v or later", q.From, q.To, busyReason(busy.Why), max(busy.Retry.Round(time.Second), time.Second)))
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("probe of %s → %s: %w: its turn has not come or the link is slow; give more with --timeout", q.From, q.To, err))
	case errors.As(err, &capped):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.As(err, &refused):
		return connect.NewError(connect.CodeAborted, err)
	}
	return connect.NewError(connect.CodeUnavailable, err) // says of which pair
}

// lookEvery is how soon it is noticed that membership has lost a host that measures.
const lookEvery = time.Second

// whileAlive returns a context that ends when host is no live member any more, with the error that says
// so as its cause. A host that was killed says nothing, and its question has minutes. The caller must
// call stop, which waits for the goroutine.
func whileAlive(ctx context.Context, host string, states func() map[string]string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			if err := isAlive(host, states()); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// busyReason words what probers tell each other for a person.
func busyReason(why string) string {
	switch why {
	case "exchange":
		return "an exchange runs on one of them"
	case "another probe":
		return "one of them takes part in another measurement"
	case "budget of the link":
		return "the link between their sites has had its share of probes"
	case "exchange of this site":
		return "an exchange runs over the link between their sites"
	case "queue for the link":
		return "others wait for the link between their sites"
	case "you have held this link for long", "you have held this host for long", "held for long":
		return "one host has measured there for long, and others come first"
	}
	return why
}

// isAlive returns nil for a host that is a live member, and else what name is instead.
func isAlive(name string, hosts map[string]string) error {
	switch state, ok := hosts[name]; {
	case ok && state == membership.Alive.String():
		return nil
	case ok:
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("host %s is %s: it must be alive to be measured; see gridagent members", name, state))
	}
	near := nearNames(name, hosts)
	hint := fmt.Sprintf("gridagent members lists the %d that there are", len(hosts))
	if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	}
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("no host %.80q in this cluster: %s", name, hint))
}

// maxNear is how many names an error suggests.
const maxNear = 4

// nearNames returns the hosts whose names a person may have meant by name, nearest first: those a
// third of it or one letter away, and those that begin or end alike.
func nearNames(name string, hosts map[string]string) []string {
	if len(name) > 80 {
		return nil // a host's name is at most 63 letters, and the distance costs their product
	}
	type near struct {
		name     string
		distance int
	}
	var found []near
	for h := range hosts {
		d := editDistance(strings.ToLower(name), strings.ToLower(h))
		alike := name != "" && (strings.Contains(h, name) || strings.Contains(name, h))
		if d <= max(1, len(name)/3) || alike {
			found = append(found, near{h, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	out := make([]string, 0, maxNear)
	for _, n := range found[:min(len(found), maxNear)] {
		out = append(out, n.name)
	}
	return out
}

// editDistance is Levenshtein's: how many bytes must be inserted, dropped or replaced.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
