package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A Lab is a running lab, in the supervisor.
type Lab struct {
	id     string
	spec   *Spec
	fabric *fabric
	wan    *forwarder // nil for a switch tree
	begun  time.Time

	checking sync.Mutex // held by the check that runs

	mu  sync.Mutex    // guards cut and the rates in fabric; held over the kernel's answer to a change, so that changes come one by one
	cut map[Link]bool // what is cut: ports, and each direction of links and trunks
}

// parse reads a grid or switch-tree file as a Spec.
func (r *Request) parse() (*Spec, error) {
	if isTopology(r.Data) {
		t, err := plan.ReadTopology(r.File, r.Data)
		if err != nil {
			return nil, err
		}
		if r.LinkRate > 0 {
			t = t.WithBandwidth(netmap.BytesPerSec(r.LinkRate))
		}
		s, err := fromTopology(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.File, err)
		}
		return s, nil
	}
	if r.LinkRate > 0 {
		return nil, fmt.Errorf("%s: a link rate is for switch trees; a grid file says the rate of each link", r.File)
	}
	g, err := gridfile.Parse(r.File, r.Data)
	if err != nil {
		return nil, err
	}
	s, err := fromGrid(g)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	return s, nil
}

// isTopology tells the two kinds of file apart: only one has switches. A broken one is taken for what
// it looks like, so that the error is of that kind.
func isTopology(data []byte) bool {
	var v struct {
		Switches json.RawMessage `json:"switches"`
	}
	if json.Unmarshal(data, &v) == nil {
		return v.Switches != nil
	}
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && bytes.Contains(data, []byte(`"switches"`))
}

// newLab makes the lab in the network namespace of this process.
func newLab(req *Request, log func(string, ...any)) (*Lab, error) {
	spec, err := req.parse()
	if err != nil {
		return nil, err
	}
	l := &Lab{id: req.ID, spec: spec, begun: time.Now(), cut: make(map[Link]bool)}
	if l.fabric, err = build(spec, req.ID, req.Congestion); err != nil {
		return nil, err
	}
	if spec.WAN != nil {
		cfg := *spec.WAN
		cfg.Seed = req.Seed
		if l.wan, err = forward(cfg, l.fabric.taps, log); err != nil {
			l.fabric.close()
			return nil, err
		}
	}
	return l, nil
}

// Close ends the processes in the hosts and takes everything down.
func (l *Lab) Close() error {
	m := &members{id: l.id, hosts: make(map[uint64]bool)} // the namespaces are open here: no others can have their numbers
	for _, h := range l.fabric.hosts {
		m.hosts[h.ns.inode] = true
	}
	var err error
	if left := endProcesses(context.Background(), m.processes); len(left) > 0 {
		err = fmt.Errorf("processes %v do not end", left)
	}
	if l.wan != nil {
		err = errors.Join(err, l.wan.close())
	}
	l.fabric.close()
	return err
}
