package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
	"github.com/gridagent/gridagent/probe"
)

func (a *app) probeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "probe [FROM] TO",
		Short: "Measure a pair of hosts now",
		Long: fmt.Sprintf(`Measure the way from host FROM to host TO now, and print what was found; the network map learns
it too. Without FROM this host measures; another host is asked to by this host's agent. Without
one of the flags the round trip and what one flow gets are measured:

  --rtt        the round trip and its variation; some hundred bytes
  --bandwidth  what one flow gets, by short trains and a bulk transfer
  --capacity   what 1, 2, 4, … lanes get together, and how many of them fill the link
  --logp       overheads and gap of parametrised LogP, for message sizes from 1 byte up

A measurement on request waits for its turn: a host measures one pair at a time, and a link
between two sites carries one probe at a time. It does not start while an exchange runs on
one of the hosts. What is spent beyond the share that probing may take is missing later, when the agent
measures by itself. --capacity loads the link fully for some seconds. Ctrl-C ends the
measurement at once, on whichever host it runs; --timeout is for all of it, at most %v.
Lines that begin with note say what limits a result.

What the numbers mean and how to check them: docs/measurement.md.`, shortDuration(probe.MaxAskTime)),
		Example: `  gridagent probe paris3
  gridagent probe london0 paris3 --capacity --timeout 5m
  gridagent probe paris3 --rtt --logp -o json | jq .logp`,
		Args: pairArgs,
	}
	at := placeFlags(cmd)
	cmd.ValidArgsFunction = a.completeMembers(at, 2)
	usage := map[string]string{
		"rtt": "measure the round trip", "bandwidth": "measure what one flow gets",
		"capacity": "measure what several lanes get together", "logp": "measure parametrised LogP",
	}
	wanted := make(map[string]*bool)
	for _, kind := range probe.AskKinds {
		wanted[kind] = cmd.Flags().Bool(kind, false, usage[kind])
	}
	timeout := cmd.Flags().Duration("timeout", 2*time.Minute, "give up after this time")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		if *timeout <= 0 || *timeout > probe.MaxAskTime {
			return usagef("--timeout %v: want a time above 0 and at most %v", *timeout, shortDuration(probe.MaxAskTime))
		}
		var kinds []string
		for _, kind := range probe.AskKinds {
			if *wanted[kind] {
				kinds = append(kinds, kind)
			}
		}
		if kinds == nil {
			kinds = []string{"rtt", "bandwidth"}
		}
		from, to := "", args[len(args)-1]
		if len(args) == 2 {
			from = args[0]
		}
		if from == to {
			return usagef("probe %.80s %.80s: name two hosts", from, to)
		}
		agent, err := at.dial()
		if err != nil {
			return err
		}
		results, probeErr := a.probeAll(cmd.Context(), agent, from, to, kinds, *timeout)
		if len(results) == 0 {
			return probeErr
		}
		// What was measured before another part failed is shown all the same.
		report := probeReport(results)
		if output.value == "json" {
			err = a.printJSON(report)
		} else {
			err = a.printProbe(report)
		}
		return errors.Join(probeErr, err)
	})
	return cmd
}

// pairArgs wants the names of one host or two.
func pairArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("name the host to measure: probe [FROM] TO")
	case len(args) > 2:
		return fmt.Errorf("%d hosts are named: want one or two, probe [FROM] TO", len(args))
	case slices.Contains(args, ""):
		return errors.New("a host with an empty name: probe [FROM] TO")
	}
	return nil
}

// probeAll asks for one kind after the other, all within timeout. It returns the results that
// there are beside an error.
func (a *app) probeAll(ctx context.Context, agent apiv1connect.AgentServiceClient, from, to string, kinds []string, timeout time.Duration) ([]*apiv1.ProbeResult, error) {
	line := a.probeLine()
	defer line.stop()
	end := time.Now().Add(timeout)
	var results []*apiv1.ProbeResult
	for _, kind := range kinds {
		left := time.Until(end)
		if left <= 0 {
			return results, fmt.Errorf("no time is left for %s of %v: give more with --timeout", kind, timeout)
		}
		r, err := probeOne(ctx, agent, &apiv1.ProbeRequest{From: from, To: to, Kind: kind, TimeoutSeconds: left.Seconds()}, line.show)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

// probeOne returns the result of one measurement, which ends with ctx on the host that measures.
func probeOne(ctx context.Context, agent apiv1connect.AgentServiceClient, r *apiv1.ProbeRequest, progress func(*apiv1.ProbeProgress)) (*apiv1.ProbeResult, error) {
	stream, err := agent.Probe(ctx, connect.NewRequest(r))
	if err != nil {
		return nil, rpcError(err)
	}
	defer stream.Close()
	for stream.Receive() {
		if p := stream.Msg().GetProgress(); p != nil {
			progress(p)
		}
		if result := stream.Msg().GetResult(); result != nil {
			return result, nil
		}
	}
	if err := stream.Err(); err != nil {
		return nil, rpcError(err)
	}
	return nil, errors.New("the agent ended the measurement without a result: see its log")
}

// A probeLine shows on a terminal what a measurement is at. Without a terminal it shows nothing.
type probeLine struct {
	terminal *os.File // nil shows nothing
	begin    time.Time
	bars     *mpb.Progress
	bar      *mpb.Bar

	mu   sync.Mutex // guards text, which mpb's goroutine reads
	text string
}

func (a *app) probeLine() *probeLine {
	l := &probeLine{begin: time.Now()}
	if isTerminal(a.err) {
		l.terminal = a.err.(*os.File)
	}
	return l
}

func (l *probeLine) show(p *apiv1.ProbeProgress) {
	if l.terminal == nil || time.Since(l.begin) < progressDelay {
		return
	}
	l.mu.Lock()
	l.text = oneLine(p.GetStep()) + ", " + formatBytes(p.GetBytes()) + " sent, "
	l.mu.Unlock()
	if l.bar != nil {
		return
	}
	l.bars = mpb.New(mpb.WithOutput(l.terminal), mpb.WithRefreshRate(200*time.Millisecond))
	l.bar = l.bars.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.text + shortDuration(time.Since(l.begin).Truncate(time.Second)) + " "
		})))
}

// stop takes the line away.
func (l *probeLine) stop() {
	if l.bar != nil {
		l.bar.Abort(true)
		l.bars.Wait()
		l.bar = nil
	}
}
