package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/bench"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// agents are those of gridagent, one on each host of the lab.
type agents struct {
	*testbed
	mark    mark
	jobs    int
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   chan error // takes the outcome of each agent
}

// agentPort is where all agents listen.
const agentPort = "7946"

// mapWait is how long the agents may take to find each other and to measure all pairs.
const mapWait = 3 * time.Minute

// startAgents makes a cluster on the first host, lets the others join with its token, and waits for a map
// of all pairs.
func startAgents(ctx context.Context, t *testbed) (*agents, error) {
	running, stop := context.WithCancel(ctx)
	a := &agents{testbed: t, mark: t.mark + ".agents", stop: stop, ended: make(chan error, len(t.net.hosts))}
	if err := a.start(ctx, running); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *agents) start(ctx, running context.Context) error {
	flags, err := a.flags()
	if err != nil {
		return err
	}
	first := a.net.hosts[0].Name
	token, err := command{argv: a.in(first, append([]string{a.Binary, "init"}, a.identity(0)...)...), limit: time.Minute}.run(ctx)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	for i := range a.net.hosts {
		args := []string{a.Binary, "join", "--dir", a.state(i)}
		if i > 0 {
			args = append([]string{a.Binary, "join", a.addr[first] + ":" + agentPort, "--token", strings.TrimSpace(token)}, a.identity(i)...)
		}
		a.join(running, i, append(args, flags...))
		if i > 0 {
			continue
		}
		// The others need it to answer.
		if _, err := a.ask(ctx, "members", "--wait", "1", "--timeout", "30s"); err != nil {
			return err
		}
	}
	if _, err := a.ask(ctx, "members", "--wait", fmt.Sprint(len(a.net.hosts)), "--timeout", mapWait.String()); err != nil {
		return err
	}
	if _, err := a.ask(ctx, "map", "--predict", "--wait", mapWait.String()); err != nil {
		return err
	}
	select {
	case <-time.After(a.Settle):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flags are those of join that say neither who nor where a host is.
func (a *agents) flags() ([]string, error) {
	flags := []string{"--log-level", "warn"}
	if !a.Declare {
		return flags, nil
	}
	data, err := read(a.Topology, configs.Topology)
	if err != nil {
		return nil, err
	}
	if a.LinkRate != "" {
		if data, err = withRate(data, a.LinkRate); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(a.dir, "switches.json")
	return append(flags, "--switches", file), os.WriteFile(file, data, 0o600)
}

// withRate returns a switch-tree file with another rate of all links.
func withRate(data []byte, rate string) ([]byte, error) {
	r, err := gridfile.ParseRate(rate)
	if err != nil {
		return nil, err
	}
	tree := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	if tree["bandwidth_mbps"], err = json.Marshal(r.Mbps()); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// state is the folder of a host's agent.
func (a *agents) state(i int) string { return filepath.Join(a.dir, "agents", a.net.hosts[i].Name) }

// markOf is the mark of a host's agent.
func (a *agents) markOf(i int) mark { return a.mark + mark(fmt.Sprintf(".%d", i)) }

// identity are the flags that say who a host is.
func (a *agents) identity(i int) []string {
	h := a.net.hosts[i]
	site := h.Site
	if a.Topology != "" {
		site = "cluster" // its switches are no sites
	}
	return []string{"--dir", a.state(i), "--name", h.Name, "--site", site, "--bind", a.addr[h.Name] + ":" + agentPort}
}

// join starts an agent, which runs until ctx ends; ended is told.
func (a *agents) join(ctx context.Context, i int, args []string) {
	a.running.Go(func() {
		name := a.net.hosts[i].Name
		_, err := command{argv: a.in(name, args...), mark: a.markOf(i)}.run(ctx)
		if err == nil {
			err = errors.New("status 0")
		}
		a.ended <- fmt.Errorf("the agent of %s has ended: %w", name, err)
	})
}

// ask runs a command of gridagent against the agent of the first host. It fails as soon as an agent ends.
func (a *agents) ask(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case err := <-a.ended:
			a.ended <- err // for who asks next
			cancel(err)
		case <-done:
		}
	}()
	argv := append([]string{a.Binary}, args...)
	out, err := command{argv: append(a.in(a.net.hosts[0].Name, argv...), "--dir", a.state(0)), limit: mapWait + time.Minute}.run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return "", cause
	}
	return out, err
}

// close ends the agents and returns when they have ended.
func (a *agents) close() {
	a.stop()
	a.running.Wait()
}

// bench runs gridagent bench on all hosts and returns the report of rank 0. how are the flags
// that name an algorithm or a plan.
func (a *agents) bench(ctx context.Context, c plan.Collective, how []string, size int64) (*bench.Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.TimeLimit, fmt.Errorf("%w of %v", errTimeLimit, a.TimeLimit))
	defer cancel()
	a.jobs++
	job := fmt.Sprintf("peers-%d", a.jobs)
	type outcome struct {
		rank int
		text string
		err  error
	}
	outcomes := make(chan outcome)
	for i, h := range a.net.hosts {
		argv := a.in(h.Name, a.Binary, "bench", string(c), "--dir", a.state(i), "--job", job,
			"--rank", fmt.Sprint(i), "--ranks", fmt.Sprint(len(a.net.hosts)), "--sizes", fmt.Sprintf("%dB", size),
			"--iterations", fmt.Sprint(a.Iterations), "--warmup", fmt.Sprint(a.Warmup), "-o", "json")
		if !a.Together {
			argv = append(argv, "--together=false")
		}
		if !a.Shape.Even() {
			argv = append(argv, "--shape", string(a.Shape))
		}
		argv = append(argv, how...)
		go func() {
			text, err := command{argv: argv, mark: a.mark + mark(fmt.Sprintf(".%s-%d", job, i))}.run(ctx)
			outcomes <- outcome{i, text, err}
		}()
	}
	var text string
	var failed error
	for range a.net.hosts {
		o := <-outcomes
		if o.rank == 0 {
			text = o.text
		}
		// All ranks say the same of what befell one; the first will do, and nobody waits for it again.
		if o.err != nil && failed == nil {
			failed = fmt.Errorf("rank %d: %w", o.rank, o.err)
			cancel()
		}
	}
	if failed != nil {
		return nil, failed
	}
	r := new(bench.Report)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("report of gridagent bench: %w", err)
	}
	if len(r.Sizes) != 1 || r.Sizes[0].Bytes != size {
		return nil, fmt.Errorf("report of gridagent bench: %d sizes, want %d bytes alone", len(r.Sizes), size)
	}
	return r, nil
}

// makeDirs makes the folders that the agents and MPI libraries fill.
func makeDirs(dir string) error {
	return errors.Join(os.MkdirAll(filepath.Join(dir, "agents"), 0o700), os.MkdirAll(filepath.Join(dir, "tmp"), 0o700))
}
