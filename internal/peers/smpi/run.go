package smpi

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gridagent/gridagent/exchange/mpic"
	"github.com/gridagent/gridagent/exchange/plan"
)

// ErrMissing is returned, wrapped with the name of the program, where SimGrid is not installed.
var ErrMissing = errors.New("SimGrid is not installed (Debian: apt-get install simgrid libsimgrid-dev)")

//go:embed program/bench.c
var benchSource []byte

// A Tool is an installed SimGrid.
type Tool struct {
	compiler, runner string // paths of smpicc and smpirun
	version          string // as in "3.32"
}

// Version returns SimGrid's version.
func (t *Tool) Version() string { return t.version }

// Find looks for smpicc and smpirun on the path. It returns [ErrMissing], wrapped, if one is not there.
func Find(ctx context.Context) (*Tool, error) {
	t := &Tool{}
	for _, p := range []struct {
		name string
		path *string
	}{{"smpicc", &t.compiler}, {"smpirun", &t.runner}} {
		path, err := exec.LookPath(p.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, ErrMissing)
		}
		*p.path = path
	}
	out, err := command(ctx, "", t.runner, "-version")
	if err != nil {
		return nil, fmt.Errorf("smpirun -version: %w", err)
	}
	if t.version, err = parseVersion(out); err != nil {
		return nil, err
	}
	return t, nil
}

// A Bench times collectives on one platform. It is not for concurrent use.
type Bench struct {
	tool     *Tool
	platform *Platform
	grid     string // name for records
	dir      string
	plans    int
}

// NewBench makes a bench for w in dir, which must exist and be the caller's to remove: there are the
// programs, the platform files, and what SimGrid leaves.
func (t *Tool) NewBench(ctx context.Context, dir string, w *World) (*Bench, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	p := w.Platform
	b := &Bench{tool: t, platform: p, grid: w.Name, dir: dir}
	if err := b.write("bench.c", benchSource); err != nil {
		return nil, err
	}
	if err := b.write("hosts", []byte(strings.Join(p.hosts, "\n")+"\n")); err != nil {
		return nil, err
	}
	for _, m := range []Model{Even, TCP} {
		var xml bytes.Buffer
		if err := p.writeXML(&xml, m == Even); err != nil {
			return nil, err
		}
		if err := b.write(string(m)+".xml", xml.Bytes()); err != nil {
			return nil, err
		}
	}
	return b, b.compile(ctx, "bench", "bench.c")
}

func (b *Bench) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(b.dir, name), data, 0o644)
}

func (b *Bench) compile(ctx context.Context, program string, args ...string) error {
	if _, err := command(ctx, b.dir, b.tool.compiler, slices.Concat([]string{"-o", program}, args)...); err != nil {
		return fmt.Errorf("smpicc: %w", err)
	}
	return nil
}

// Collective times SMPI's own algorithm (its name, such as "bruck", or that of a library's
// selection, such as "mpich") for blocks of size bytes. What SimGrid refuses is an error, which the
// record holds as well.
func (b *Bench) Collective(ctx context.Context, m Model, c plan.Collective, algorithm string, size int64) (Record, error) {
	r := b.record(m, c, algorithm, size)
	var err error
	if r.Seconds, err = b.run(ctx, m, "bench", c, size, fmt.Sprintf("--cfg=smpi/%s:%s", c, algorithm)); err != nil {
		r.Error = err.Error()
	}
	return r, err
}

// Plan times p, whose hosts must be those of the platform in their order and whose blocks must be of one
// size, as the MPI routine that package mpic writes.
func (b *Bench) Plan(ctx context.Context, m Model, p *plan.Plan) (Record, error) {
	r := b.record(m, p.Collective, p.Algorithm, p.MessageBytes)
	r.Plan = true
	if !slices.Equal(p.Hosts, b.platform.hosts) {
		return r, fmt.Errorf("smpi: the %d hosts of plan %s are not the %d of the platform, in their order", len(p.Hosts), p.Algorithm, len(b.platform.hosts))
	}
	if p.Sizes != nil || p.Matrix != nil {
		return r, fmt.Errorf("smpi: plan %s has blocks of different sizes", p.Algorithm)
	}
	var text bytes.Buffer
	if err := mpic.Write(&text, p, mpic.Options{Name: "planned"}); err != nil {
		return r, err
	}
	b.plans++
	name := fmt.Sprintf("plan%d", b.plans)
	if err := b.write(name+".c", text.Bytes()); err != nil {
		return r, err
	}
	if err := b.compile(ctx, name, "-DROUTINE=planned", "bench.c", name+".c"); err != nil {
		return r, err
	}
	var err error
	r.Seconds, err = b.run(ctx, m, name, p.Collective, p.MessageBytes)
	return r, err
}

func (b *Bench) record(m Model, c plan.Collective, algorithm string, size int64) Record {
	return Record{Tool: "simgrid", Version: b.tool.version, Model: m, Grid: b.grid, Collective: c, Algorithm: algorithm, Bytes: size}
}

// maxBlock is what bench.c counts in an int, and what a simulation of all hosts in one process can hold.
const maxBlock = 1 << 30

// run runs one program and returns the seconds that it says.
func (b *Bench) run(ctx context.Context, m Model, program string, c plan.Collective, size int64, flags ...string) (float64, error) {
	if size < 0 || size > maxBlock {
		return 0, fmt.Errorf("smpi: blocks of %d bytes are not in 0 … %d", size, maxBlock)
	}
	args := []string{"-np", fmt.Sprint(len(b.platform.hosts)), "-platform", string(m) + ".xml", "-hostfile", "hosts"}
	args = slices.Concat(args, m.settings(), flags, []string{"./" + program, string(c), fmt.Sprint(size)})
	out, err := command(ctx, b.dir, b.tool.runner, args...)
	if err != nil {
		return 0, fmt.Errorf("smpirun: %w", err)
	}
	return parseSeconds(out, len(b.platform.hosts))
}

// command runs a program in dir and returns what it prints. An error ends with the last lines of it. When ctx
// ends, so do the program and what it has started: smpirun is a shell script.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if dir != "" {
		// smpirun copies the program once per rank. Its own -tmpdir takes the next argument for the
		// program (3.32).
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%w: %s", err, reason(string(out)))
	}
	return string(out), nil
}
