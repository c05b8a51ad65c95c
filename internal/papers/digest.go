package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/gridagent/gridagent/exchange/plan"
)

// A digest tells plans apart: results outlive the code that made them, and the plan of a name may change.

// digestOf returns a short digest of what p does. The times that an algorithm expects are not in it: their last
// digits are the processor's.
func digestOf(p *plan.Plan) (string, error) {
	q := *p
	q.Makespan, q.Bound = 0, 0
	q.Transfers = slices.Clone(p.Transfers)
	for i := range q.Transfers {
		q.Transfers[i].Start, q.Transfers[i].End = 0, 0
	}
	text, err := q.AppendJSON(nil)
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", p.Algorithm, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6]), nil
}

// hasPlan reports whether r is the time of a plan, and not of a formula, another program or a paper.
func (r *Record) hasPlan() bool {
	return slices.Contains([]Source{Simulated, ModelHalf, ModelFull, Emulated}, r.Source)
}

// outdated reports whether r is of another plan than the code makes now, or of one that nobody knows, or of switches
// whose ports hold another number of packets.
func (r *Record) outdated() bool {
	if !r.hasPlan() {
		return false
	}
	if r.Plan == "" {
		return true
	}
	a, err := arenaOf(r.Grid)
	if err != nil || r.Source == Emulated && r.Ports != a.ports {
		return true
	}
	now, err := digestNow(digestKey{plan.Collective(r.Collective), r.Grid, r.name(), r.SizeBytes})
	return err != nil || now != r.Plan // there may be no such contender any more
}

type digestKey struct {
	collective       plan.Collective
	arena, contender string
	size             int64
}

var digests struct {
	sync.Mutex // guards known
	known      map[digestKey]string
}

// digestNow returns the digest of the plan that the code makes now.
func digestNow(k digestKey) (string, error) {
	digests.Lock()
	defer digests.Unlock()
	if d, ok := digests.known[k]; ok {
		return d, nil
	}
	a, err := arenaOf(k.arena)
	if err != nil {
		return "", err
	}
	c, err := contenderOf(k.collective, k.contender)
	if err != nil {
		return "", err
	}
	p, err := c.make(a, k.size)
	if err != nil {
		return "", err
	}
	d, err := digestOf(p)
	if err != nil {
		return "", err
	}
	if digests.known == nil {
		digests.known = make(map[digestKey]string)
	}
	digests.known[k] = d
	return d, nil
}

// dated returns r with its outdated records marked.
func (r *Raw) dated() *Raw {
	out := *r
	out.Records = slices.Clone(r.Records)
	for i := range out.Records {
		out.Records[i].old = out.Records[i].outdated()
	}
	return &out
}

// outdatedText says what is old of the records that e is made of, "" if nothing is.
func (r *Raw) outdatedText() string {
	var names []string
	all := true
	for i := range r.Records {
		x := &r.Records[i]
		if x.hasPlan() && !x.old {
			all = false
		}
		if name := shown(x.name()); x.old && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case names == nil:
		return ""
	case all:
		return "Measured with older plans or other ports than the code has now, or with ones that nobody knows: everything."
	}
	return "Measured with an older plan or other ports than the code has now, or ones that nobody knows, at some size at least: " + list(names) + "."
}
