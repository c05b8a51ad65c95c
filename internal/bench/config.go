package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gridagent/gridagent/agent/client"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// MaxResult bounds what one rank gets in an operation, in bytes.
const MaxResult = 1 << 40

// Config says what is measured. All ranks give the same, but for Rank, Site, Options.Plan,
// Options.Timeout and Progress.
type Config struct {
	Collective plan.Collective
	// Rank is this rank.
	Rank int
	// Site is the label of this rank's host; empty where it has none.
	Site string
	// Sizes are measured one after the other: bytes of the block that each rank contributes
	// to an allgather, or has for each rank in an alltoall. 0 is a size like any other.
	Sizes []int64
	// Shape says what blocks have beside the largest, which has the size.
	Shape Shape
	// Iterations count, at least one; Warmup operations before them do not.
	Iterations, Warmup int
	// Apart has each rank begin an operation when it leaves the barrier before it, and not all at the same moment.
	Apart bool
	// Options are those of each operation. Sizes, Overwrite and Progress are not looked
	// at; of an allgather only the embedded [client.Options] are. A Plan is for one size, and
	// not every rank must give it.
	Options client.AlltoallOptions
	// Progress, if not nil, is told which operation of a size begins: done of total are over.
	Progress func(size int64, done, total int)
}

func (c *Config) check(ranks int) error {
	if c.Collective != plan.Allgather && c.Collective != plan.Alltoall {
		return fmt.Errorf("no collective %q to measure: want %s or %s", c.Collective, plan.Allgather, plan.Alltoall)
	}
	if err := c.Shape.Check(c.Collective); err != nil {
		return err
	}
	if c.Rank < 0 || c.Rank >= ranks {
		return fmt.Errorf("rank %d of a group of %d", c.Rank, ranks)
	}
	if c.Iterations < 1 || c.Warmup < 0 {
		return fmt.Errorf("%d iterations after %d to warm up: want at least one after 0 or more", c.Iterations, c.Warmup)
	}
	if len(c.Sizes) == 0 {
		return errors.New("no size to measure")
	}
	if c.Options.Plan != nil && len(c.Sizes) > 1 {
		return fmt.Errorf("%d sizes to measure by one plan, which is for blocks of one size", len(c.Sizes))
	}
	for _, n := range c.Sizes {
		if n < 0 || n > MaxResult/int64(ranks) {
			return fmt.Errorf("size of %d bytes: want at most %d with %d ranks", n, MaxResult/int64(ranks), ranks)
		}
	}
	return nil
}

// terms are what all ranks must have in common, by the names that users have for them.
func (c *Config) terms() [][2]string {
	sizes := make([]string, len(c.Sizes))
	for i, n := range c.Sizes {
		sizes[i] = gridfile.FormatSize(n)
	}
	o := c.Options
	return [][2]string{
		{"collective", string(c.Collective)},
		{"--sizes", strings.Join(sizes, ",")},
		{"--shape", c.shape()},
		{"--iterations", strconv.Itoa(c.Iterations)},
		{"--warmup", strconv.Itoa(c.Warmup)},
		{"--together", strconv.FormatBool(!c.Apart)},
		{"--algorithm", c.algorithm()},
		{"--sync", o.Sync},
		{"--sync-block", strconv.Itoa(o.SyncBlock)},
		{"--within", o.Within},
		{"--sync-strict", strconv.FormatBool(o.SyncStrict)},
		{"--fanout", strconv.Itoa(o.Fanout)},
	}
}

func (c *Config) algorithm() string {
	if c.Options.Algorithm == "" {
		return "auto"
	}
	return c.Options.Algorithm
}

func (c *Config) shape() string {
	if c.Shape.Even() {
		return string(Even)
	}
	return string(c.Shape)
}
