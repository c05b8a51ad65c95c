package group

import "fmt"

// FailureKind says what ended a group.
type FailureKind string

// The kinds of failures.
const (
	RankLost  FailureKind = "rank_lost" // a rank's client or host is gone
	HostLost  FailureKind = "host_lost" // a host without a rank to blame
	Mismatch  FailureKind = "mismatch"  // ranks disagree on what to do
	Cancelled FailureKind = "cancelled" // a rank gave up or ran out of time
	Internal  FailureKind = "internal"  // planning or the exchange failed
)

// A Failure ended a group. Every rank gets the same one.
type Failure struct {
	Kind  FailureKind `json:"kind"`
	Rank  int         `json:"rank"` // -1 where no rank is to blame
	Host  string      `json:"host,omitempty"`
	Cause string      `json:"cause"`
}

func (f *Failure) Error() string {
	switch {
	case f.Kind == RankLost:
		return fmt.Sprintf("rank %d on host %s is lost: %s", f.Rank, f.Host, f.Cause)
	case f.Kind == HostLost:
		return fmt.Sprintf("host %s is lost: %s", f.Host, f.Cause)
	case f.Kind == Cancelled:
		return fmt.Sprintf("rank %d on host %s gave up: %s", f.Rank, f.Host, f.Cause)
	case f.Kind == Mismatch:
		return "ranks disagree: " + f.Cause
	case f.Host != "":
		return fmt.Sprintf("host %s: %s", f.Host, f.Cause)
	}
	return f.Cause
}
