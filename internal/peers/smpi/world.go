package smpi

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/planner"
	"github.com/gridagent/gridagent/pools"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// A World is one network in our terms and in SimGrid's.
type World struct {
	Name     string          // of the file, without its folders
	Problem  planner.Problem // without a collective
	Platform *Platform
}

// LoadGrid reads a grid file in the human form.
func LoadGrid(path string) (*World, error) {
	g, err := gridfile.Load(path)
	if err != nil {
		return nil, err
	}
	w := &World{Name: filepath.Base(path)}
	if w.Platform, err = ofGrid(g); err != nil {
		return nil, err
	}
	if w.Problem.Snapshot, err = g.Snapshot(); err != nil {
		return nil, err
	}
	w.Problem.Tree, err = pools.Build(w.Problem.Snapshot, pools.Config{})
	return w, err
}

// LoadTopology reads a switch-tree file with a rate.
func LoadTopology(path string) (*World, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := plan.ReadTopology(path, data)
	if err != nil {
		return nil, err
	}
	w := &World{Name: filepath.Base(path), Problem: *planner.OnTopology(t)}
	if w.Problem.Snapshot == nil {
		return nil, errors.New(path + ": " + planner.ErrNoRates.Error())
	}
	// The file does not tell latencies; the planner's are the same for all pairs.
	latency := w.Problem.Snapshot.Estimate(0, len(t.Hosts())-1).Latency
	w.Platform, err = ofTopology(t, latency)
	return w, err
}
