package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gridagent/gridagent/internal/lab"
)

// A testbed is the lab that the tools run in.
type testbed struct {
	*config
	net        *network
	congestion string // of TCP, set socket by socket (see bench/congestion.c); "" is the system's
	mark       mark
	dir        string // for programs and state; it is emptied by the caller
	client     *lab.Client
	addr       map[string]string // of a host
}

// errLeft means that a lab of this run is still there.
var errLeft = errors.New("the lab was not taken down")

// setUp makes the lab. Where it fails there is none, unless the error is errLeft as well.
func setUp(ctx context.Context, c *config, net *network, congestion, dir string, m mark) (*testbed, error) {
	t := &testbed{config: c, net: net, congestion: congestion, dir: dir, mark: m, addr: make(map[string]string)}
	// One that is there already is not ours to take down.
	_, err := lab.Read(c.Lab)
	free := errors.Is(err, lab.ErrNoLab)
	// Without a mark: the lab's supervisor outlives the command.
	if _, err := (command{argv: t.upArgs(), limit: time.Minute}).run(ctx); err != nil {
		err = fmt.Errorf("lab: %w", err)
		if _, now := lab.Read(c.Lab); free && !errors.Is(now, lab.ErrNoLab) { // it was ended in the middle
			err = errors.Join(err, t.down())
		}
		return nil, err
	}
	if t.client, err = lab.Dial(c.Lab); err != nil {
		return nil, errors.Join(err, t.down())
	}
	for _, h := range t.client.State.Hosts {
		t.addr[h.Name] = h.Addr
	}
	for _, h := range net.hosts {
		if t.addr[h.Name] == "" {
			return nil, errors.Join(fmt.Errorf("lab %s has no host %s", c.Lab, h.Name), t.down())
		}
	}
	return t, nil
}

func (t *testbed) upArgs() []string {
	args := []string{t.Binary, "lab", "up", t.Grid + t.Topology, "--name", t.Lab, "--seed", fmt.Sprint(t.Seed)}
	if t.LinkRate != "" {
		args = append(args, "--link-rate", t.LinkRate)
	}
	return args
}

// down takes the lab away, also when the program is told to end.
func (t *testbed) down() error {
	if t.client != nil {
		t.client.Close()
	}
	t.mark.sweep()
	_, err := command{argv: []string{t.Binary, "lab", "down", "--name", t.Lab}, limit: time.Minute}.run(context.Background())
	if err != nil {
		return fmt.Errorf("%w: %w", errLeft, err)
	}
	return nil
}

// in is the command line that runs another one in a host.
func (t *testbed) in(host string, args ...string) []string {
	return append([]string{t.Binary, "lab", "exec", "--name", t.Lab, host, "--"}, args...)
}

// launcher writes a script that stands in for ssh: options, a host, and words that are a command line of a shell.
func (t *testbed) launcher() (string, error) {
	path := filepath.Join(t.dir, "rsh")
	text := fmt.Sprintf(`#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec '%s' lab exec --name '%s' "$host" -- sh -c "$*"
`, t.Binary, t.Lab)
	return path, os.WriteFile(path, []byte(text), 0o700)
}
