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

// Links says what the transfers between two pools share.
type Links uint8

const (
	// Separate is the paper's model: every pair of hosts has a link of its own, so any
	// number of transfers cross between two pools at full speed each (§3, principle 2).
	Separate Links = iota
	// Shared gives every ordered pair of leaf pools one link, whose capacity its transfers
	// share, and every host one port out. See the package documentation.
	Shared
)

// ParseLinks reads the values of --links: separate or shared.
func ParseLinks(s string) (Links, error) {
	switch s {
	case "separate":
		return Separate, nil
	case "shared":
		return Shared, nil
	}
	return 0, fmt.Errorf("links %q: want separate or shared", s)
}

// String returns "separate" or "shared", as the flag --links has it.
func (l Links) String() string {
	switch l {
	case Separate:
		return "separate"
	case Shared:
		return "shared"
	}
	return fmt.Sprintf("links(%d)", uint8(l))
}

// Options are the choices of one schedule.
type Options struct {
	// Duplex is the host model; zero means Full. Half makes plans that are slower on hosts
	// whose ports do both, and right for those (or those links) that do not.
	Duplex plan.Duplex
	// Links is the link model; zero means Separate, the paper's. Shared makes plans that fit
	// links whose capacity transfers share, which is what the simulator and the bound assume.
	Links Links
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
