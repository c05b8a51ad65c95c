package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gridagent/gridagent/internal/bubble"
)

// measure measures cells in a test binary, since synctest bubbles want one, and prints each as it comes.
func (raw *Raw) measure(ctx context.Context, cells []Cell) error {
	begin := time.Now()
	err := bubble.Run(ctx, "internal/accuracy", "TestMeasure", cells, func(x Reading) {
		raw.Readings = append(raw.Readings, x)
		fmt.Fprintf(os.Stderr, "%3d of %d  %5.1f s  %v\n", len(raw.Readings), len(cells), x.Seconds, x.Cell)
	})
	raw.Date, raw.Seconds = time.Now().UTC().Format("2006-01-02 15:04 UTC"), time.Since(begin).Seconds()
	if err != nil && len(raw.Readings) == len(cells) { // the readings say what failed, the test why
		fmt.Fprintln(os.Stderr, err)
	}
	return ended(ctx, err, len(cells)-len(raw.Readings))
}

// ended says whether a run is whole that ended with err and without some of its cells: an interrupted one is not, whatever it has measured.
func ended(ctx context.Context, err error, missing int) error {
	switch {
	case missing == 0:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%d cells are missing: %w", missing, context.Cause(ctx))
	}
	return err
}
