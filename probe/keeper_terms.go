package probe

import "time"

// termsOf are the terms of a link for q.
func (k *keeper) termsOf(e *leased, q request, now time.Time) terms {
	t := k.terms
	t.late = now.Sub(e.began) >= youth
	if q.substitute {
		t.share *= substituteShare
	}
	return t
}

// watchGap returns the least time between two trains that watch the link: their answers take no more than what the way back
// has for them.
func (e *leased) watchGap(t terms) time.Duration {
	if e.reverse <= 0 || t.share <= 0 {
		return watchGap
	}
	gap := sessionCost / (e.reverse * t.share / accounted * answering)
	return max(watchGap, time.Duration(min(gap, time.Minute.Seconds())*float64(time.Second)))
}

// longCost returns what a long probe of so many bytes counts for: where its answers take more of what the way back has for them,
// as much more.
func (e *leased) longCost(bytes int64) int64 {
	if rate := e.rate.rate(); e.reverse > 0 && rate > 0 {
		return int64(float64(bytes) * max(1, rate/(e.reverse*mostBack)))
	}
	return bytes
}

// outdates reports whether what q's host last read of the link is not what was read since.
func (e *leased) outdates(q request) bool {
	return q.read > 0 && e.rate.newest > 0 && apart(float64(q.read), e.rate.newest) > outdated
}

// afford returns what q's probe is charged to, or a [BusyError] while the link's budget has
// nothing left for it. A host whose last reading is outdated gets a second opinion where there is
// budget for one, and else its turn: a host that lies about the link must not use up both. The first
// few that read the link need no budget, or one that says that it carries next to nothing would be the last.
func (e *leased) afford(now time.Time, q request, t terms) (use, error) {
	if q.use == operator {
		if !e.budget.granted(now, t) {
			return again, &BusyError{Retry: time.Minute, Why: "budget of the link"}
		}
		return again, nil
	}
	u, retry, why := q.use, time.Duration(0), ""
	if u == first && t.late && q.cost > firstCost { // the host's first long probe, and not the link's
		u = again
	}
	if u == searching && (t.late || e.budget.wait(now, searching, q.cost, t) > 0) { // a young link is worth one
		u = again
	}
	if u == glancing && t.late {
		return u, &BusyError{Retry: time.Minute, Why: "the link is not young"}
	}
	if d := e.watchGap(t) - now.Sub(e.watched); u == watch && d > 0 {
		retry, why = d, "the link was watched just now"
	} else if d := e.budget.wait(now, u, q.cost, t); d > 0 {
		retry, why = d, "budget of the link"
	}
	if u == watch && (q.busy || e.outdates(q)) {
		d := e.budget.wait(now, urgent, q.cost, t)
		switch {
		case d == 0:
			return urgent, nil
		case q.busy || retry > d:
			retry, why = d, "budget of the link"
		}
	}
	if retry > 0 && !((u == watch || u == first) && q.cost <= firstCost && e.rate.lacks(q.host, now)) {
		return u, &BusyError{Retry: retry, Why: why}
	}
	return u, nil
}
