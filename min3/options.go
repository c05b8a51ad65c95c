package min3

import (
	"fmt"

	"github.com/gridagent/gridagent/exchange/plan"
)

// The host models of §4.
const (
	// Full lets a host send one and receive one message at a time (equation 3).
	Full = plan.FullDuplex
	// Half lets a host send or receive one message at a time (equation 2).
	Half = plan.HalfDuplex
)

// ParseDuplex reads the values of --duplex: full or half.
func ParseDuplex(s string) (plan.Duplex, error) {
	switch s {
	case "full":
		return Full, nil
	case "half":
		return Half, nil
	}
	return 0, fmt.Errorf("duplex %q: want full or half", s)
}

// Options are the choices of one schedule.
type Options struct {
	// Duplex is the host model; zero means Full. Half makes plans that are slower on hosts
	// whose ports do both, and right for those (or those links) that do not.
	Duplex plan.Duplex
}

// duplex returns the host model of o.
func (o Options) duplex() (plan.Duplex, error) {
	switch o.Duplex {
	case plan.DuplexUnchecked, Full:
		return Full, nil
	case Half:
		return Half, nil
	}
	return 0, fmt.Errorf("host model %d: want full or half duplex", o.Duplex)
}
