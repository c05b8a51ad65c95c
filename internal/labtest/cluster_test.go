package labtest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// A node is a host with an agent.
type node struct {
	*e2etest.Process
	host
	dir   string
	label string   // the site that it is told to be of: host.Site, unless a test tells it a wrong one
	flags []string // of join
}

// A cluster is a lab with an agent on every host.
type cluster struct {
	*lab
	file  string // the lab's grid
	nodes []*node
}

// newCluster makes a lab of a grid, and a cluster in it: init and join on the first host, join with a
// token on the others, all with what an operator gets who sets nothing. It returns when every host
// sees all others.
func newCluster(t *testing.T, what, file string) *cluster {
	t.Helper()
	return newClusterWith(t, what, file, func(*node) {})
}

// newClusterWith is newCluster where set may give a node another label and flags.
func newClusterWith(t *testing.T, what, file string, set func(*node)) *cluster {
	t.Helper()
	return newClusterIn(t, up(t, what, file), file, set)
}

// newClusterIn is newClusterWith in a lab that is up.
func newClusterIn(t *testing.T, l *lab, file string, set func(*node)) *cluster {
	t.Helper()
	c := &cluster{lab: l, file: file}
	dir := t.TempDir()
	for _, h := range c.hosts {
		// The log is shown where a test fails, and then every measurement matters.
		n := &node{host: h, dir: filepath.Join(dir, h.Name), label: h.Site, flags: []string{"--log-level", "debug"}}
		set(n)
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(func() {
		t.Log(c.stats(t))
		if t.Failed() {
			for _, n := range c.nodes {
				if n.Process != nil {
					t.Logf("the log of %s:\n%s", n.Name, n.Stderr.String())
				}
			}
		}
	})
	first := c.nodes[0]
	token := strings.TrimSpace(succeed(t, c.gridagent(t, first.Name, "init", "--dir", first.dir, "--site", first.label)))
	c.restart(t, first.Name)
	c.waitMembers(t, 1, first.Name)
	for _, n := range c.nodes[1:] {
		// By the seed's name: a lab's hosts know each other's.
		n.Process = c.gridagent(t, n.Name, append([]string{"join", first.Name, "--token", token, "--dir", n.dir, "--site", n.label}, n.flags...)...)
	}
	// Before the agents end, which were started earlier.
	t.Cleanup(func() {
		if t.Failed() {
			c.show(t, "map")
			c.show(t, "pools")
			c.show(t, "status")
		}
	})
	c.waitMembers(t, len(c.nodes))
	return c
}

// show logs what a command prints at the first host, whether it goes well or not.
func (c *cluster) show(t *testing.T, verb string) {
	p := c.client(t, c.nodes[0].Name, verb)
	p.Wait(t, patience)
	t.Logf("gridagent %s at %s:\n%s%s", verb, c.nodes[0].Name, p.Stdout.String(), p.Stderr.String())
}

func (c *cluster) node(name string) *node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	panic("no host " + name + " in the test's own grid")
}

// of returns the names of the hosts of some sites, all of them without any.
func (c *cluster) of(sites ...string) []string {
	var names []string
	for _, n := range c.nodes {
		if len(sites) == 0 || slices.Contains(sites, n.Site) {
			names = append(names, n.Name)
		}
	}
	return names
}

// restart runs the agent of a host whose folder holds its cluster already.
func (c *cluster) restart(t *testing.T, name string) {
	t.Helper()
	n := c.node(name)
	n.Process = c.gridagent(t, name, append([]string{"join", "--dir", n.dir}, n.flags...)...)
}

// client starts a command against the agent of a host, in that host.
func (c *cluster) client(t *testing.T, name string, args ...string) *e2etest.Process {
	t.Helper()
	return c.gridagent(t, name, append(args, "--dir", c.node(name).dir)...)
}

// waitMembers waits until hosts, by default all, see want hosts alive.
func (c *cluster) waitMembers(t *testing.T, want int, hosts ...string) {
	t.Helper()
	if len(hosts) == 0 {
		hosts = c.of()
	}
	var waiting []*e2etest.Process
	for _, name := range hosts {
		waiting = append(waiting, c.client(t, name, "members", "--wait", fmt.Sprint(want), "--timeout", "1m"))
	}
	for i, p := range waiting {
		if p.Wait(t, patience) != 0 {
			t.Fatalf("%s sees\n%s%s", hosts[i], p.Stdout.String(), p.Stderr.String())
		}
	}
}

// waitMap waits until the map of a host's agent is whole. On an idle machine that takes 15 to 30 s.
func (c *cluster) waitMap(t *testing.T, at string) {
	t.Helper()
	p := c.client(t, at, "map", "--wait", "2m")
	if p.Wait(t, 2*time.Minute+patience) != 0 {
		t.Fatalf("%v: %s%s", p, p.Stdout.String(), p.Stderr.String())
	}
}

// states returns what a host believes of each host: alive, failed.
func (c *cluster) states(t *testing.T, at string) map[string]string {
	t.Helper()
	var list struct {
		Members []struct{ Name, State string }
	}
	decode(t, succeed(t, c.client(t, at, "members", "-o", "json")), &list)
	states := make(map[string]string)
	for _, m := range list.Members {
		states[m.Name] = m.State
	}
	return states
}

// ranks starts one command a rank: rank r at host at[r], with in[r] and out[r].
func (c *cluster) ranks(t *testing.T, command, job string, at, in, out []string, extra ...string) []*e2etest.Process {
	t.Helper()
	ps := make([]*e2etest.Process, len(at))
	for r, name := range at {
		args := []string{command, "--job", job, "--rank", fmt.Sprint(r), "--ranks", fmt.Sprint(len(at)), "--in", in[r], "--out", out[r]}
		ps[r] = c.client(t, name, append(args, extra...)...)
	}
	return ps
}

// A report is what a collective's command prints.
type report struct {
	Algorithm    string
	Seconds      float64
	BoundSeconds float64 `json:"bound_seconds"`
	Hosts, Ranks int
	Peers        []struct {
		Host     string
		Received int64 `json:"bytes_received"`
	}
}

// finish waits for ranks that must go well, compares what they wrote with want, a list of files for
// each rank, and returns their reports.
func finish(t *testing.T, what string, ps []*e2etest.Process, out []string, want [][]string) []*report {
	t.Helper()
	reports := make([]*report, len(ps))
	for r, p := range ps {
		if got := p.Wait(t, 2*time.Minute); got != 0 {
			t.Fatalf("%s: rank %d: status %d: %s", what, r, got, p.Stderr.String())
		}
		e2etest.SameBytes(t, out[r], want[r])
		reports[r] = new(report)
		decode(t, p.Stdout.String(), reports[r])
	}
	t.Logf("%s: %s took %.2f s, its bound by the agents' map %.2f s", what, reports[0].Algorithm, slowest(reports), reports[0].BoundSeconds)
	return reports
}

// slowest is the time of the rank that took longest.
func slowest(reports []*report) (seconds float64) {
	for _, r := range reports {
		seconds = max(seconds, r.Seconds)
	}
	return seconds
}

// allgather runs an allgather of one rank a host, which must go well, and returns the seconds of the slowest rank.
func (c *cluster) allgather(t *testing.T, job string, size int) float64 {
	t.Helper()
	const seed = 5
	at := c.of()
	in, out := e2etest.Random(t, seed, slices.Repeat([]int{size}, len(at))...), e2etest.Files(t, len(at))
	return slowest(finish(t, job, c.ranks(t, "allgather", job, at, in, out, "-o", "json"), out, repeat(in, len(at))))
}

// repeat is what every rank gets of an allgather.
func repeat(in []string, n int) [][]string { return slices.Repeat([][]string{in}, n) }

// underWay waits until rank of job at a host has received some and not all of its result.
func (c *cluster) underWay(t *testing.T, name, job string, rank int) {
	t.Helper()
	e2etest.UnderWay(t, filepath.Join(c.node(name).dir, "agent.sock"), job, rank)
}
