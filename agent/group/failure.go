package group

import "fmt"

// FailureKind says what ended a group.
type FailureKind string

// The kinds of failures.
const (
	NotFormed  FailureKind = "not_formed"  // ranks have not come in time
	RankLost   FailureKind = "rank_lost"   // a rank's client or host is gone
	RankFailed FailureKind = "rank_failed" // a rank said why it cannot go on
	HostLost   FailureKind = "host_lost"   // a host's agent was told to stop
	Mismatch   FailureKind = "mismatch"    // ranks disagree on what to do, or on who they are
	Cancelled  FailureKind = "cancelled"   // a rank gave up or ran out of time
	Internal   FailureKind = "internal"    // planning or the exchange failed
)

// A Failure ended a group. Every rank gets the same one.
type Failure struct {
	Kind  FailureKind `json:"kind"`
	Rank  int         `json:"rank"` // the lowest of those to blame; -1 where none is
	Host  string      `json:"host,omitempty"`
	Cause string      `json:"cause"`
}

func (f *Failure) Error() string {
	switch {
	case f.Kind == RankLost:
		return fmt.Sprintf("rank %d on host %s is lost: %s", f.Rank, f.Host, f.Cause)
	case f.Kind == RankFailed:
		return fmt.Sprintf("rank %d on host %s failed: %s", f.Rank, f.Host, f.Cause)
	case f.Kind == HostLost:
		return fmt.Sprintf("host %s is shutting down: %s", f.Host, f.Cause)
	case f.Kind == Cancelled:
		return fmt.Sprintf("rank %d on host %s gave up: %s", f.Rank, f.Host, f.Cause)
	case f.Kind == Mismatch:
		return "ranks disagree: " + f.Cause
	case f.Host != "":
		return fmt.Sprintf("host %s: %s", f.Host, f.Cause)
	}
	return f.Cause
}

// stopped is the failure of a group with ranks on a host whose agent stops: the same at
// that host and at all others.
func stopped(host string) *Failure {
	return &Failure{Kind: HostLost, Rank: -1, Host: host, Cause: ErrClosed.Error()}
}

// taken is the failure of a client that asks for a rank which holder, a host, has.
// Who holds it goes on.
func taken(job string, rank int, host, holder string) *Failure {
	if holder == host {
		holder = "another client of that host"
	} else {
		holder = "host " + holder
	}
	return &Failure{Kind: Mismatch, Rank: rank, Host: host, Cause: fmt.Sprintf(
		"host %s asks for rank %d of job %q, which %s holds", host, rank, job, holder)}
}
