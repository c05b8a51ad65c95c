// Package beat lets what a host does now and again fall on the same instants.
//
// An agent that has nothing to do sleeps, and each timer that wakes its process costs several context switches, however little is done then: of
// ten things that are done once a second at instants of their own, waking up is most of the cost. Hosts beat at instants that differ, so
// that those of one machine do not all wake at once.
package beat

import (
	"hash/fnv"
	"time"
)

// A Beat is the instants at which a host does what is to be done now and again. The zero value is a beat like any other.
type Beat struct{ phase time.Duration }

// Of returns the beat of the host called name.
func Of(name string) Beat {
	h := fnv.New64a()
	h.Write([]byte(name))
	return Beat{time.Duration(h.Sum64() % uint64(time.Hour))}
}

// Next returns how long it is from now to the next instant of those that are every apart: more than an eighth of every, since a timer may fire
// early by the wall clock, and at most nine eighths. Where one time divides another, each instant of the longer one is one of the shorter.
func (b Beat) Next(now time.Time, every time.Duration) time.Duration {
	into := (time.Duration(now.UnixNano()) + b.phase) % every
	if into < 0 { // before 1970
		into += every
	}
	d := every - into
	if d <= every/8 {
		d += every
	}
	return d
}
