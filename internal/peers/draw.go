package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gridagent/gridagent/internal/accuracy/random"
)

// draw writes the grid file of --drawn to dir, where it is as good as one of --grid, and says what is in it.
func (c *config) draw(dir string) error {
	if c.Drawn == 0 {
		return nil
	}
	g := random.Draw(c.Drawn, random.Lab)
	c.Grid = filepath.Join(dir, fmt.Sprintf("drawn-lab-%d.yaml", c.Drawn))
	progress("--drawn %d: %v", c.Drawn, g)
	return os.WriteFile(c.Grid, []byte(g.YAML()), 0o600)
}
