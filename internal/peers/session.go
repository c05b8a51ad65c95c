package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A session is one lab and all that runs in it, one after the other.
type session struct {
	*testbed
	print    *printer
	progress func(format string, args ...any)
	tools    *programs
	known    algorithms
	// broken counts runs that ended with an error or wrong data.
	broken int
}

// links lets iperf3 check the links.
func (s *session) links(ctx context.Context) error {
	for _, l := range s.net.links {
		s.progress("iperf3 over %s", l.name)
		check := s.iperf(ctx, l)
		if err := ctx.Err(); err != nil {
			return err
		}
		if check.Error != "" {
			s.broken++
		}
		if err := s.print.link(check); err != nil {
			return err
		}
	}
	return nil
}

// show prints a record and counts it where it is bad.
func (s *session) show(r Record) error {
	if r.Error != "" || !r.Verified {
		s.broken++
	}
	return s.print.record(r)
}

// mpi runs all that is asked of one library.
func (s *session) mpi(ctx context.Context, l library) error {
	text, err := command{argv: l.version, limit: grace}.run(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w; scripts/mpi install installs it", l.tool, err)
	}
	version := ""
	if m := l.found.FindStringSubmatch(text); m != nil {
		version = m[1]
	}
	program, err := s.tools.benchmark(ctx, l)
	if err != nil {
		return err
	}
	for _, c := range s.Collectives {
		for _, a := range s.chosen(l.tool, c, s.known[l.tool][c]) {
			j := job{lib: l, collective: c, algorithm: a, program: program, sizes: s.Sizes}
			if err := s.job(ctx, j, version, ""); err != nil {
				return err
			}
		}
		for _, word := range s.Generated {
			if err := s.generatedRuns(ctx, l, c, word, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// algorithms are those of each tool and collective.
type algorithms map[string]map[plan.Collective][]algorithm

// algorithms asks who takes part for theirs, and refuses a word of --algorithms that none of them has.
func (c *config) algorithms(ctx context.Context, tools *programs, m mark) (algorithms, error) {
	known, names := make(algorithms), make(map[string][]string)
	for _, l := range libraries {
		if !slices.Contains(c.Tools, l.tool) {
			continue
		}
		ask, err := tools.variables(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; scripts/mpi install installs it", l.tool, err)
		}
		if known[l.tool], err = forcible(ctx, l, ask, m+".variables"); err != nil {
			return nil, err
		}
	}
	if slices.Contains(c.Tools, toolGridagent) {
		known[toolGridagent] = make(map[plan.Collective][]algorithm)
		for _, op := range c.Collectives {
			for _, name := range own(op) {
				known[toolGridagent][op] = append(known[toolGridagent][op], algorithm{name: name})
			}
		}
	}
	for tool, of := range known {
		for _, op := range c.Collectives {
			for _, a := range of[op] {
				names[tool] = append(names[tool], a.name)
			}
		}
	}
	return known, c.Algorithms.check(names)
}

// chosen returns the algorithms of a library that are to run; it says why one is left out.
func (s *session) chosen(tool string, c plan.Collective, known []algorithm) []algorithm {
	var names []string
	for _, a := range known {
		names = append(names, a.name)
	}
	names = s.Algorithms.of(tool, names)
	var out []algorithm
	for _, a := range known {
		if !slices.Contains(names, a.name) {
			continue
		}
		if !s.Shape.Even() && a.name != byDefault && tool != toolGridagent {
			s.progress("left out: %s's %s: what forces it is not for MPI_Allgatherv and MPI_Alltoallv", tool, a.name)
			continue
		}
		if ok, why := applies(tool, c, a.name, len(s.net.hosts)); !ok {
			s.progress("left out: %s's %s for %s %s", tool, a.name, c, why)
			continue
		}
		out = append(out, a)
	}
	return out
}

// job runs one program for its sizes and prints a record for each. The error is that of the
// session; that of the run is in the records.
func (s *session) job(ctx context.Context, j job, version, variant string) error {
	s.progress("%s %s by %s %s", j.lib.tool, j.collective, j.algorithm.name, variant)
	left := slices.Clone(j.sizes)
	var printed error
	wrong := false
	said, err := s.runMPI(ctx, j, s.tools, func(line sizeLine, before, after reading) {
		rec := s.record(j.lib.tool, version, j.collective, j.algorithm.name, variant, line.Bytes)
		if len(left) == 0 || left[0] != line.Bytes || line.Ranks != len(s.net.hosts) || len(line.Seconds) != s.Iterations {
			printed = errors.Join(printed, fmt.Errorf("mpibench reports %d ranks, %d bytes, %d times: not what it was asked for",
				line.Ranks, line.Bytes, len(line.Seconds)))
			return
		}
		rec.Verified = line.Wrong == 0
		wrong = wrong || !rec.Verified
		left = left[1:]
		printed = errors.Join(printed, s.show(rec.measured(line.Seconds, before, after)))
	})
	if wrong {
		s.progress("%s", said)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case printed != nil:
		return printed
	case errors.Is(err, errRefused):
		s.progress("left out: %v", err)
		return nil
	case err == nil && len(left) > 0:
		err = errors.New("it ended before this size")
	case err != nil && len(left) == 0:
		s.progress("all sizes are measured, then: %v", err)
	}
	for _, size := range left {
		if err := s.show(s.record(j.lib.tool, version, j.collective, j.algorithm.name, variant, size).failed(err)); err != nil {
			return err
		}
	}
	return nil
}

// generatedRuns runs a routine that gridagent makes for each size.
func (s *session) generatedRuns(ctx context.Context, l library, c plan.Collective, word, version string) error {
	name, flags := routine(word)
	if !makes(c, name) {
		return nil // it is for the other collective
	}
	variant := strings.Join(append([]string{"generated"}, flags...), " ")
	for _, size := range s.Sizes {
		s.progress("compile %s's %s of %d bytes with %s", l.tool, c, size, name)
		program, err := s.generated(ctx, s.tools, l, c, word, size)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			j := job{lib: l, collective: c, algorithm: algorithm{name: name}, program: program, sizes: []int64{size}}
			err = s.job(ctx, j, version, variant)
		} else {
			err = s.show(s.record(l.tool, version, c, name, variant, size).failed(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gridagent runs the agents and their benchmark.
func (s *session) gridagent(ctx context.Context) error {
	version, err := command{argv: []string{s.Binary, "version"}, limit: grace}.run(ctx)
	if err != nil {
		return err
	}
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "gridagent "), "\n")
	s.progress("start %d agents", len(s.net.hosts))
	a, err := startAgents(ctx, s.testbed)
	if err != nil {
		return fmt.Errorf("agents: %w", err)
	}
	defer a.close()
	for _, c := range s.Collectives {
		for _, alg := range s.chosen(toolGridagent, c, s.known[toolGridagent][c]) {
			for _, size := range s.Sizes {
				if err := s.benched(ctx, a, c, alg.name, []string{"--algorithm", alg.name}, "", size, version); err != nil {
					return err
				}
			}
		}
		for _, word := range s.Generated {
			if err := s.plannedRuns(ctx, a, c, word, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// plannedRuns has the agents run what MPI programs run as generated routines. They know
// no switches, so the plan is made outside.
func (s *session) plannedRuns(ctx context.Context, a *agents, c plan.Collective, word, version string) error {
	name, flags := routine(word)
	if !makes(c, name) {
		return nil
	}
	variant := strings.Join(append([]string{"plan"}, flags...), " ")
	for _, size := range s.Sizes {
		file, err := s.planned(ctx, c, word, size)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = s.benched(ctx, a, c, name, []string{"--plan", file}, variant, size, version)
		} else {
			err = s.show(s.record(toolGridagent, version, c, name, variant, size).failed(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// benched runs one benchmark of the agents and prints its record.
func (s *session) benched(ctx context.Context, a *agents, c plan.Collective, name string, how []string, variant string, size int64, version string) error {
	s.progress("gridagent %s by %s, %d bytes", c, name, size)
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	idle, err := a.used()
	if err != nil {
		return err
	}
	report, err := a.bench(ctx, c, how, size)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return s.show(s.record(toolGridagent, version, c, name, variant, size).failed(err))
	}
	after, err := s.count(ctx)
	if err != nil {
		return err
	}
	used, err := a.used()
	if err != nil {
		return err
	}
	variant = ranAs(variant, name, report.Sizes[0].Algorithm)
	var seconds []float64
	for _, it := range report.Sizes[0].Iterations {
		seconds = append(seconds, it.Seconds)
	}
	if len(seconds) == 0 {
		return errors.New("report of gridagent bench: no iterations")
	}
	r := s.record(toolGridagent, version, c, name, variant, size).measured(seconds, before, after)
	r.Agents = usage(idle, used, s.Iterations+s.Warmup)
	r.Verified = true // wrong data are an error of the benchmark
	return s.show(r)
}

// ranAs is the variant of a run by the algorithm called name that a rule chose: what ran comes behind what the
// variant was. A plan made by auto is not the agents' own auto.
func ranAs(variant, name, ran string) string {
	if ran == name {
		return variant
	}
	return strings.TrimSpace(variant + " " + ran)
}
