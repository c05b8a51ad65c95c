package probe

import (
	"errors"
	"fmt"
)

// errNoRate says that a bulk transfer went well and was too short to read a rate from.
var errNoRate = errors.New("bulk: no rate could be read in the bytes and the time allowed")

// What limits the values of an [Answer], for a person.
const (
	noteTrains    = "a bulk transfer read no rate in the bytes and the time allowed: one flow is what short trains read"
	noteUnsettled = "the bytes or the time were up before the rate had settled"
	noteNoKnee    = "the bytes or the time were up before twice the lanes gained nothing: the capacity is at least this"
	noteHost      = "neither a queue nor a loss was seen: a host was the limit, the path carries at least this"
	noteShaped    = "a token bucket ran empty: what came before that was faster"
)

// notes says what limits the rates that a bulk probe of kind k has read.
func (r bulkResult) notes(k Kind) []string {
	var out []string
	if k == KindCapacity && !r.Knee {
		out = append(out, noteNoKnee)
	} else if k == KindBandwidth && !r.Enough {
		out = append(out, noteUnsettled)
	}
	if r.Limited {
		out = append(out, noteHost)
	}
	if r.Shaped {
		out = append(out, noteShaped)
	}
	return out
}

// A CapError says that this host has sent what it may in an hour. It is no [BusyError], which a
// question waits out: the cap holds for up to an hour.
type CapError struct{ Sent, Cap int64 } // bytes of probes in the last hour

func (e *CapError) Error() string {
	return fmt.Sprintf("this host has sent %.4g MiB of probes in the last hour, and its cap is %.4g MiB: wait, or give it more with join --probe-cap",
		float64(e.Sent)/(1<<20), float64(e.Cap)/(1<<20))
}
