package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What waits where, in the emulation of a switch tree.
const (
	// portPackets is what each port of a switch holds. Those of small switches, as the papers have them, hold 32 to 64.
	portPackets = 48
	// deepPortPackets is what they hold for the shuffles, whose packets have an order that plans do not keep.
	deepPortPackets = 256
	// hostQueue is how many bytes wait in a host's own port, 6 packets: about what the driver of a
	// network card holds.
	hostQueue = 8000
)

// portsText says on pages what waits where.
var portsText = fmt.Sprintf(`In the emulation every port of a switch holds %d packets, which is what small switches hold, and drops what comes above that;
a host's own port holds %d bytes. What deeper ports change is in [switches.md](../switches.md), whose table has both depths.`, portPackets, hostQueue)

// A job is one contender to be emulated with blocks of one size.
type job struct {
	Arena      string          `json:"arena"`
	Collective plan.Collective `json:"collective"`
	Contender  string          `json:"contender"`
	Size       int64           `json:"size"`
	Warmup     int             `json:"warmup"` // runs before those that count
	Repeats    int             `json:"repeats"`
	Timeline   bool            `json:"timeline,omitempty"` // transfers between sites are wanted
}

// group tells jobs apart that do not run over the same connections.
func (j job) group() string { return j.Arena + "/" + string(j.Collective) + "/" + j.Contender }

// An emulation is what came of a job.
type emulation struct {
	Record
	Timeline []span `json:"timeline,omitempty"` // of the last repetition
}

// A span is when a transfer between sites ran, in seconds from the start.
type span [2]float64

// groupJobs parts jobs by group, in the order of the first job of each.
func groupJobs(jobs []job) [][]job {
	var groups [][]job
	index := make(map[string]int)
	for _, j := range jobs {
		i, ok := index[j.group()]
		if !ok {
			i = len(groups)
			index[j.group()] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], j)
	}
	return groups
}

func readJobs(path string) ([]job, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var jobs []job
	if err := json.Unmarshal(data, &jobs); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return jobs, nil
}

// repeats is how often an exchange of so many bytes is run: first to warm up, since connections that lost
// packets in the run before begin with small windows, then to count. Small ones are cheap and vary more.
func repeats(volume int64) (warmup, counted int) {
	switch {
	case volume <= 16<<20:
		return 1, 3
	case volume <= 64<<20:
		return 1, 1
	}
	return 0, 1
}

// An emulator runs jobs in virtual time, in a test binary that it builds when it is first used.
type emulator struct {
	dir    string // scratch
	binary string
}

// run runs jobs and hands each emulation to done as it comes. The order is not that of jobs.
func (e *emulator) run(ctx context.Context, jobs []job, done func(emulation)) error {
	if e.binary == "" {
		binary := filepath.Join(e.dir, "papers.test")
		if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./internal/papers").CombinedOutput(); err != nil {
			return fmt.Errorf("build the emulation: %w\n%s", err, out)
		}
		e.binary = binary
	}
	list, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	file := filepath.Join(e.dir, "jobs.json")
	if err := os.WriteFile(file, list, 0o644); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, e.binary, "-test.run", "^TestEmulate$", "-test.timeout", "60m",
		"-papers.jobs", file, "-papers.records", "/dev/fd/3")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &output, &output, []*os.File{w}
	err = cmd.Start()
	w.Close() // the child has its own
	if err != nil {
		return err
	}
	came, readErr := readEmulations(bufio.NewReaderSize(r, 1<<20), done)
	r.Close() // a child that still writes shall not wait for us
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("emulation: %w\n%s", err, tail(output.Bytes(), 4000))
	}
	if readErr != nil {
		return fmt.Errorf("emulation: %w", readErr)
	}
	if came != len(jobs) {
		return fmt.Errorf("emulation: %d results of %d jobs", came, len(jobs))
	}
	return nil
}

func readEmulations(r *bufio.Reader, done func(emulation)) (n int, err error) {
	dec := json.NewDecoder(r)
	for dec.More() {
		var e emulation
		if err := dec.Decode(&e); err != nil {
			return n, err
		}
		done(e)
		n++
	}
	return n, nil
}

// tail returns the last n bytes of text.
func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
