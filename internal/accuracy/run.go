package main

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
	"time"
)

// measure measures cells in a test binary, since synctest bubbles want one, and prints each as it comes.
func (raw *Raw) measure(ctx context.Context, cells []Cell) error {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	const folder = "internal/accuracy"
	binary := filepath.Join(dir, "accuracy.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./"+folder).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	list, err := json.Marshal(cells)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "cells.json")
	if err := os.WriteFile(file, list, 0o644); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.run", "^TestMeasure$", "-test.timeout", "6h", "-accuracy.cells", file, "-accuracy.readings", "/dev/fd/3")
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = folder, &output, &output, []*os.File{w}
	err = cmd.Start()
	w.Close() // the child has its own
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bufio.NewReader(r))
	var readErr error
	for dec.More() {
		var x Reading
		if readErr = dec.Decode(&x); readErr != nil {
			break
		}
		raw.Readings = append(raw.Readings, x)
		fmt.Fprintf(os.Stderr, "%3d of %d  %5.1f s  %v\n", len(raw.Readings), len(cells), x.Seconds, x.Cell)
	}
	r.Close() // a child that still writes shall not wait for us
	err = cmd.Wait()
	raw.Date, raw.Seconds = time.Now().UTC().Format("2006-01-02 15:04 UTC"), time.Since(begin).Seconds()
	switch {
	case ctx.Err() != nil && len(raw.Readings) > 0: // what was measured until then is worth having
		raw.Missing = len(cells) - len(raw.Readings)
		fmt.Fprintf(os.Stderr, "interrupted: %d of %d cells are missing\n", raw.Missing, len(cells))
	case ctx.Err() != nil:
		return ctx.Err()
	case len(raw.Readings) < len(cells):
		return fmt.Errorf("%d readings of %d cells: %w\n%s", len(raw.Readings), len(cells), errors.Join(err, readErr), tail(output.Bytes(), 4000))
	case err != nil: // the readings say what failed, the test why
		fmt.Fprintf(os.Stderr, "%s\n", tail(output.Bytes(), 4000))
	}
	return nil
}

// tail returns the last n bytes of text.
func tail(text []byte, n int) []byte { return text[max(0, len(text)-n):] }
