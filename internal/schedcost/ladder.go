package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limits say which sizes are left out.
type limits struct {
	time  time.Duration // of one run
	bytes float64       // allocated by one run
}

// Repeats of a size, fewer where they would take too long together.
const (
	repeats    = 3
	repeatTime = 2 // seconds, of all repeats
)

// errStopped is returned by a bench that took far more time than was expected of it.
var errStopped = errors.New("stopped")

// A refusal is what an algorithm says that returns an error for a size.
type refusal string

func (r refusal) Error() string { return "refused: " + string(r) }

// refusalLine is what bench_test.go logs of it. A panic looks otherwise.
var refusalLine = regexp.MustCompile(`(?m)^\s+bench_test\.go:[0-9]+: (.*)$`)

// A bench measures one size, count times.
type bench func(n, count int) (point, error)

// climb measures size after size as long as they keep within the limits, the first one in any
// case. left says why the rest, if any, was left out.
func climb(sizes []int, lim limits, measure bench) (points []point, left string, err error) {
	for _, n := range sizes {
		count := repeats
		if len(points) > 0 {
			t, b := expect(points, n, seconds), expect(points, n, allocated)
			if t > lim.time.Seconds() {
				return points, fmt.Sprintf("n ≥ %d: about %s s expected", n, digits(t)), nil
			}
			if b > lim.bytes {
				return points, fmt.Sprintf("n ≥ %d: about %s GB expected", n, digits(b/1e9)), nil
			}
			count = max(1, min(repeats, int(repeatTime/t)))
		}
		p, err := measure(n, count)
		var no refusal
		if len(points) > 0 && (errors.Is(err, errStopped) || errors.As(err, &no)) {
			if no != "" {
				err = no
			}
			return points, fmt.Sprintf("n ≥ %d: %v", n, err), nil
		}
		if err != nil {
			return nil, "", err
		}
		points = append(points, p)
	}
	return points, "", nil
}

// A tool is this package's test binary.
type tool struct {
	path, dir string
	benchTime string // go test's -benchtime
	patience  time.Duration
	config    map[string]string // of the last run
}

// build makes the tool below tmp. It runs in dir, this package's folder.
func build(ctx context.Context, dir, tmp string) (*tool, error) {
	t := &tool{path: filepath.Join(tmp, "schedcost.test"), dir: dir}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", t.path, ".")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go test -c in %s: %w", dir, err)
	}
	return t, nil
}

// run runs the benchmarks whose name matches path, one regular expression for each level.
func (t *tool) run(ctx context.Context, path []string, count int) (output, error) {
	pattern := "^" + strings.Join(path, "$/^") + "$"
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.path, "-test.run=^$", "-test.bench="+pattern, "-test.benchmem",
		"-test.benchtime="+t.benchTime, fmt.Sprintf("-test.count=%d", count))
	cmd.Dir = t.dir
	text, err := cmd.CombinedOutput()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return output{}, fmt.Errorf("%w after %v", errStopped, t.patience)
	}
	if err != nil {
		if m := refusalLine.FindSubmatch(text); m != nil {
			return output{}, fmt.Errorf("benchmark %s: %w", pattern, refusal(m[1]))
		}
		return output{}, fmt.Errorf("benchmark %s: %w\n%s", pattern, err, text)
	}
	out, err := parse(text)
	if err != nil {
		return output{}, err
	}
	if len(out.results) == 0 {
		return output{}, fmt.Errorf("benchmark %s printed no result:\n%s", pattern, text)
	}
	t.config = out.config
	return out, nil
}

// of returns the bench of a series.
func (t *tool) of(ctx context.Context, s series) bench {
	return func(n, count int) (point, error) {
		out, err := t.run(ctx, []string{"BenchmarkCost", regexp.QuoteMeta(s.group), regexp.QuoteMeta(s.name), fmt.Sprintf("n=%d", n)}, count)
		if err != nil {
			return point{}, err
		}
		p, ok := out.pointOf("Cost/"+s.path(), n)
		if !ok {
			return point{}, fmt.Errorf("no result of %s at n=%d", s.path(), n)
		}
		return p, nil
	}
}
