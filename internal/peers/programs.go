package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

//go:embed bench/*.c bench/*.h
var sources embed.FS

// programs are the files that MPI runs need.
type programs struct {
	dir      string
	preload  string // library for MPI programs
	launcher string
}

// compileTimeout is enough for the largest generated routine, of an alltoall of 32 ranks, on a slow machine.
const compileTimeout = 2 * time.Minute

// newPrograms writes the sources to dir and compiles what is no MPI program.
func newPrograms(ctx context.Context, dir string) (*programs, error) {
	p := &programs{dir: dir, preload: filepath.Join(dir, "preload.so")}
	names, err := fs.Glob(sources, "bench/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600); err != nil {
			return nil, err
		}
	}
	return p, p.compile(ctx, "gcc", p.preload, "-std=gnu99", "-shared", "-fPIC", "idle.c", "congestion.c", "-ldl")
}

// compile makes output of the arguments, in the folder of the sources.
func (p *programs) compile(ctx context.Context, cc, output string, args ...string) error {
	argv := []string{cc, "-O2", "-Wall", "-Wextra", "-I", p.dir, "-o", output}
	for _, a := range args {
		if ext := filepath.Ext(a); ext == ".c" && !filepath.IsAbs(a) {
			a = filepath.Join(p.dir, a)
		}
		argv = append(argv, a)
	}
	_, err := command{argv: argv, limit: compileTimeout}.run(ctx)
	return err
}

// benchmark compiles mpibench with the library's own collectives.
func (p *programs) benchmark(ctx context.Context, l library) (string, error) {
	out := filepath.Join(p.dir, "mpibench."+l.tool)
	return out, p.compile(ctx, l.cc, out, "-std=c99", "mpibench.c")
}

// variables compiles the program that asks a library for its variables.
func (p *programs) variables(ctx context.Context, l library) (string, error) {
	out := filepath.Join(p.dir, "variables."+l.tool)
	return out, p.compile(ctx, l.cc, out, "-std=c99", "variables.c")
}

// routineName finds the function of a generated file.
var routineName = regexp.MustCompile(`(?m)^int (\w+)\(`)

// generated compiles mpibench with a routine that gridagent plan makes for blocks of size bytes.
func (t *testbed) generated(ctx context.Context, p *programs, l library, c plan.Collective, word string, size int64) (string, error) {
	text, err := t.plan(ctx, c, word, size, "mpi-c")
	if err != nil {
		return "", err
	}
	function := routineName.FindStringSubmatch(text)
	if function == nil {
		return "", errors.New("gridagent plan -o mpi-c: no function in what it printed")
	}
	source := filepath.Join(p.dir, "routine.c")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(p.dir, "routine."+l.tool)
	return out, p.compile(ctx, l.cc, out, "-std=c99", "-DROUTINE="+function[1], "mpibench.c", source)
}

// planned makes a plan for live agents and returns its file.
func (t *testbed) planned(ctx context.Context, c plan.Collective, word string, size int64) (string, error) {
	text, err := t.plan(ctx, c, word, size, "json")
	if err != nil {
		return "", err
	}
	file := filepath.Join(t.dir, "plan.json")
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// plan runs gridagent plan for a word of --generated.
func (t *testbed) plan(ctx context.Context, c plan.Collective, word string, size int64, form string) (string, error) {
	name, flags := routine(word)
	argv := append([]string{t.Binary, "plan", string(c), "--algorithm", name, "--size", fmt.Sprintf("%dB", size), "-o", form}, t.networkFlags()...)
	return command{argv: append(argv, flags...), limit: compileTimeout}.run(ctx)
}

// networkFlags say to gridagent plan what the lab is made from.
func (c *config) networkFlags() []string {
	if c.Grid != "" {
		return []string{"--grid", c.Grid}
	}
	args := []string{"--topology", c.Topology}
	if c.LinkRate != "" {
		args = append(args, "--link-rate", c.LinkRate)
	}
	return args
}
