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
	raw.Missing = len(cells) - len(raw.Readings)
	switch {
	case ctx.Err() != nil && len(raw.Readings) > 0: // what was measured until then is worth having
		fmt.Fprintf(os.Stderr, "interrupted: %d of %d cells are missing\n", raw.Missing, len(cells))
		return nil
	case err != nil && len(raw.Readings) == len(cells): // the readings say what failed, the test why
		fmt.Fprintln(os.Stderr, err)
		return nil
	}
	return err
}
