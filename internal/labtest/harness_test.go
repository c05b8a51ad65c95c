package labtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// A lab is one that is up.
type lab struct {
	name  string
	as    *syscall.Credential // who made it, nil for the one who runs the tests
	hosts []host
	pid   int // of its supervisor
}

// A host is one of lab status.
type host struct {
	Name, Site, Addr string
	Inode            uint64
}

// mustBePossible skips t where no labs can be made.
func mustBePossible(t *testing.T) {
	t.Helper()
	if impossible != "" {
		t.Skip(impossible)
	}
}

// up makes a lab, see newLab.
func up(t *testing.T, what, file string) *lab {
	t.Helper()
	mustBePossible(t)
	l := newLab(t, what, nil)
	l.must(t, "up", file)
	l.find(t)
	return l
}

// newLab names a lab to be, which the end of t takes down.
func newLab(t *testing.T, what string, as *syscall.Credential) *lab {
	t.Helper()
	l := &lab{name: labName(what), as: as}
	t.Cleanup(func() {
		p := l.command(t, "down")
		if got := p.Wait(t, time.Minute); got != 0 && !strings.Contains(p.Stderr.String(), "no such lab") {
			t.Errorf("%v: status %d: %s", p, got, p.Stderr.String())
		}
	})
	return l
}

// find notes what lab status says of a lab that has come up.
func (l *lab) find(t *testing.T) {
	t.Helper()
	var s struct {
		PID   int
		Hosts []host
	}
	l.json(t, &s, "status")
	l.hosts, l.pid = s.Hosts, s.PID
}

// command starts gridagent lab VERB for this lab.
func (l *lab) command(t *testing.T, verb string, args ...string) *e2etest.Process {
	t.Helper()
	return e2etest.Start(t, command(l.as, append([]string{"lab", verb, "--name", l.name}, args...)...))
}

// must runs gridagent lab VERB to its end and returns what it prints.
func (l *lab) must(t *testing.T, verb string, args ...string) string {
	t.Helper()
	return succeed(t, l.command(t, verb, args...))
}

// json is must for a command that prints JSON.
func (l *lab) json(t *testing.T, v any, verb string, args ...string) {
	t.Helper()
	decode(t, l.must(t, verb, append(args, "-o", "json")...), v)
}

func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// patience is how long a command may take that waits for nothing but the machine.
const patience = 90 * time.Second

func succeed(t *testing.T, p *e2etest.Process) string {
	t.Helper()
	if got := p.Wait(t, patience); got != 0 {
		t.Fatalf("%v: status %d: %s%s", p, got, p.Stdout.String(), p.Stderr.String())
	}
	return p.Stdout.String()
}

// gridagent starts the program under test in a host.
func (l *lab) gridagent(t *testing.T, host string, args ...string) *e2etest.Process {
	t.Helper()
	return l.exec(t, host, append([]string{binary}, args...)...)
}

// exec starts any program in a host.
func (l *lab) exec(t *testing.T, host string, args ...string) *e2etest.Process {
	t.Helper()
	return l.command(t, "exec", append([]string{host, "--"}, args...)...)
}

// stats are what lab stats says of the links between sites.
type stats struct {
	Seconds float64
	WAN     []struct {
		From, To  string
		Delivered struct{ Bytes uint64 }
	}
	Missed uint64 `json:"missed_packets"`
	Late   struct {
		Packets uint64
		Over    uint64  `json:"over_1ms"`
		Worst   float64 `json:"worst_s"`
	}
}

func (l *lab) stats(t *testing.T) *stats {
	t.Helper()
	s := new(stats)
	l.json(t, s, "stats")
	return s
}

// into returns the IP bytes that have come into a site from others.
func (s *stats) into(site string) (bytes float64) {
	for _, w := range s.WAN {
		if w.To == site {
			bytes += float64(w.Delivered.Bytes)
		}
	}
	return bytes
}

// String says how well the machine kept up.
func (s *stats) String() string {
	return fmt.Sprintf("the lab missed %d packets and was over 1 ms late with %d of %d, the worst by %.1f ms",
		s.Missed, s.Late.Over, s.Late.Packets, 1000*s.Late.Worst)
}
