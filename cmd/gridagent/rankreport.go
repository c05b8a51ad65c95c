package main

import (
	"fmt"
	"time"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/group"
)

func (a *app) printReport(f *rankFlags, r *apiv1.Report) error {
	seconds := time.Duration(r.GetSeconds() * float64(time.Second))
	from := ""
	switch {
	case r.GetPlanGiven() && f.plan != "":
		from = fmt.Sprintf(" (from %s)", f.plan)
	case r.GetPlanGiven():
		from = " (from a plan that another rank gave)"
	}
	if f.collective == group.Barrier {
		_, err := fmt.Fprintf(a.out, "barrier of %d ranks on %d hosts in %s\n", r.GetRanks(), r.GetHosts(), formatDuration(seconds))
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s%s %s of %d ranks on %d hosts in %s%s; this host received %s and sent %s\n",
		r.GetAlgorithm(), from, f.collective, r.GetRanks(), r.GetHosts(), formatDuration(seconds), ratios(r),
		formatBytes(r.GetBytesReceived()), formatBytes(r.GetBytesSent()))
	if text := replanned(r); err == nil && text != "" {
		_, err = fmt.Fprintln(a.out, text)
	}
	if err == nil && f.explain {
		_, err = fmt.Fprintln(a.out, reason(r))
	}
	return err
}

// replanned says for people what changed while an operation ran, nothing if nothing did.
func replanned(r *apiv1.Report) string {
	switch {
	case r.GetBytesGiven() > 0:
		return fmt.Sprintf("a link fell: other hosts sent %s in place of this one", formatBytes(r.GetBytesGiven()))
	case r.GetBytesHelped() > 0:
		return fmt.Sprintf("a link fell: this host sent %s in place of others", formatBytes(r.GetBytesHelped()))
	}
	return ""
}

// ratios says for people how many times its bounds an operation took.
func ratios(r *apiv1.Report) string {
	text := ratio(r.GetSeconds(), r.GetBoundSeconds())
	if direct := r.GetDirectBoundSeconds(); text != "" && direct > 0 {
		text += fmt.Sprintf(" (%.2f x that without relays)", r.GetSeconds()/direct)
	}
	return text
}

// reason says for people how the plan of an operation came about.
func reason(r *apiv1.Report) string {
	switch why := r.GetPlanReason(); {
	case r.GetAlgorithm() == "eager":
		return "eager: small enough to travel with the call, without a plan"
	case r.GetPlanGiven():
		return "the plan was given"
	case why == "":
		return r.GetAlgorithm() + ": the agent gives no reason"
	case r.GetPlanCached():
		return fmt.Sprintf("%s: %s (the plan was made for an operation before)", r.GetAlgorithm(), oneLine(why))
	default:
		return fmt.Sprintf("%s: %s", r.GetAlgorithm(), oneLine(why))
	}
}
