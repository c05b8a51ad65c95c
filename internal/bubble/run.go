package bubble

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Names of the environment variables by which [Run] tells [Serve] where its two files are.
const (
	jobsVariable    = "GRIDAGENT_BUBBLE_JOBS"
	resultsVariable = "GRIDAGENT_BUBBLE_RESULTS"
)

// Run runs test, the name of a test in folder (relative to the working directory, which is the module's
// root), over jobs, and calls done for each result as it comes. When ctx ends the binary is killed and
// Run returns its cause; the results until then are done.
//
// Its other errors say what the build or the test printed last.
func Run[J, R any](ctx context.Context, folder, test string, jobs []J, done func(R)) error {
	dir, err := os.MkdirTemp("", "bubble")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bubble.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+folder).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", folder, err, out)
	}
	list, err := json.Marshal(jobs)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "jobs.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^"+test+"$", "-test.timeout", "6h")
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = folder, &output, &output, []*os.File{w}
	cmd.Env = append(os.Environ(), jobsVariable+"="+file, resultsVariable+"=/dev/fd/3")
	err = cmd.Start()
	w.Close() // the child has its own
	if err != nil {
		return err
	}
	n, readErr := read(r, done)
	r.Close() // a child that still writes shall not wait for us
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || readErr != nil:
		return fmt.Errorf("%s: %w\n%s", test, errors.Join(err, readErr), tail(output.Bytes()))
	case n < len(jobs):
		return fmt.Errorf("%s: %d results of %d jobs\n%s", test, n, len(jobs), tail(output.Bytes()))
	}
	return nil
}

func read[R any](r *os.File, done func(R)) (n int, err error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	for dec.More() {
		var x R
		if err := dec.Decode(&x); err != nil {
			return n, err
		}
		done(x)
		n++
	}
	return n, nil
}

// tail returns the end of what a test has printed.
func tail(text []byte) []byte { return text[max(0, len(text)-4000):] }
