package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// A bulkRun is the sending side of one session.
type bulkRun struct {
	o    bulkOptions
	open func(ctx context.Context, lane int) (dataStream, error)

	asked time.Time // before the receiver's clock began to run
	id    string

	written atomic.Int64 // user bytes handed to the lanes
	writers sync.WaitGroup

	mu      sync.Mutex // guards the fields below; never held over I/O
	streams []dataStream
	ended   bool
}

// run asks for the session over s, drives it and ends it.
func (r *bulkRun) run(ctx context.Context, s control) (res bulkResult, err error) {
	r.asked = time.Now()
	s.SetDeadline(r.asked.Add(askTime))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, s.Abort)()
	if err := writeMessage(s, message{Op: opBulk, Glance: r.o.glance, Count: r.o.lanes, Bytes: r.o.bytes, SpanNS: int64(r.o.time)}); err != nil {
		return res, err
	}
	m, err := readMessage(s, opGo)
	if err != nil {
		return res, err
	}
	if _, err := m.trainID(); err != nil {
		return res, err
	}
	r.id = m.ID
	start := time.Now()
	s.SetDeadline(start.Add(r.o.time + askTime))
	watched := make(chan struct{})
	go func() { // ends with ctx; waited for below
		defer close(watched)
		r.watch(ctx, cancel)
	}()
	drive := r.drive
	if r.o.glance {
		drive = r.look
	} else if r.o.joint != nil {
		drive = r.beside
	}
	err = drive(ctx, s, start, &res)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	<-watched
	r.end()
	r.writers.Wait()
	r.account(&res)
	res.Took = time.Since(start)
	if errors.Is(err, errBulkLate) {
		err = nil // what was seen until then counts
	}
	if res.Limited && r.o.lanes == 1 { // a host that is slow may be so evenly
		res.Spread = max(res.Spread, unsure)
	}
	if err == nil && res.Rate == 0 && res.Lanes == 0 && !r.o.glance && r.o.joint == nil {
		err = errNoRate
	}
	if err != nil {
		s.Abort()
		return res, err
	}
	finish(s)
	return res, nil
}

// watch cancels the session when it must not or need not go on.
func (r *bulkRun) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	t := time.NewTicker(bulkWatch)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !r.o.more() {
				cancel(errYielded)
				r.end() // at once: the lanes must be quiet before anything else is done
			}
		}
	}
}

// drive measures one number of lanes after the other and writes down what it sees.
func (r *bulkRun) drive(ctx context.Context, s control, start time.Time, res *bulkResult) error {
	var ss []sample
	var curve []lanePoint
	search := kneeSearch{most: r.o.lanes, line: r.o.line}
	if r.o.lanes > 1 && r.o.one.Rate > 0 && r.o.line > 0 {
		if search.begin = filling(r.o.one.Rate / r.o.line); search.begin > 1 {
			curve = append(curve, r.o.one)
		}
	}
	for k := search.next(curve); k > 0; k = search.next(curve) {
		r.o.progress(fmt.Sprintf("%d lanes", k), r.written.Load())
		if err := r.lanes(ctx, k); err != nil {
			// Where those that there are fill the link a handshake may not get through. What they got it carries.
			if ctx.Err() == nil && res.gained(curve) {
				return nil
			}
			return err
		}
		pt, st, err := r.step(ctx, s, start, k, curve, &ss, res)
		if st.Rate > 0 {
			curve = append(curve, pt)
			r.note(res, curve, st)
		}
		if err != nil {
			if res.Knee = search.flat(curve); res.Knee {
				_, res.Lanes = knee(curve)
			} else if errors.Is(err, errBulkLate) {
				res.gained(curve)
			}
			return err
		}
	}
	res.Knee = search.met(curve) || search.flat(curve)
	if r.o.lanes > 1 { // one that comes this far was not cut short
		_, res.Lanes = knee(curve)
	}
	return nil
}

// gained puts into the result what a search that was cut short has found for sure, and reports whether there is any.
func (r *bulkResult) gained(curve []lanePoint) bool {
	sure := gained(curve)
	if sure == nil {
		return false
	}
	c, lanes := knee(sure)
	r.Capacity, r.Lanes = netmap.BytesPerSec(c), lanes
	return true
}

// note puts what is known by now into the result.
func (r *bulkRun) note(res *bulkResult, curve []lanePoint, st steady) {
	if len(curve) == 1 {
		res.Rate, res.Spread, res.Enough, res.Shaped = netmap.BytesPerSec(st.Rate), st.Spread, st.Enough, st.Shaped
		if st.lossy {
			res.Steady, res.Lost = st.Rate*st.Span.Seconds()/userPayload, float64(st.Lost)
		}
	}
	if r.o.lanes > 1 {
		c, _ := knee(curve)
		res.Curve, res.Capacity = curve, netmap.BytesPerSec(c)
	}
}

// step reads reports until k lanes have reached a steady state, or a cap.
func (r *bulkRun) step(ctx context.Context, s control, start time.Time, k int, curve []lanePoint, all *[]sample, res *bulkResult) (lanePoint, steady, error) {
	p := bulkPath{lanes: k, packet: userPayload, after: -1, want: r.o.spread, line: r.o.link}
	until := r.o.time
	if r.o.lanes > 1 {
		// A point of a curve is worth less than the search's end: where losses decide, few
		// lanes may take minutes to be read well, and many are what is looked for.
		p.want = max(p.want, searchSpread)
		until = min(until, time.Since(start)+max(r.o.time/searchSteps, searchTrips*max(r.o.rtt, res.RTT)))
	}
	first := len(*all)
	var last steady
	point := func() lanePoint {
		res.Limited = last.limited(p)
		return lanePoint{k, last.Rate, last.Spread, last.Enough, last.queued(p)}
	}
	for {
		m, err := readMessage(s, opProgress)
		if err != nil {
			return point(), last, err
		}
		now := time.Since(start)
		if err := r.plausible(m, time.Since(r.asked), *all); err != nil {
			return lanePoint{}, steady{}, err
		}
		lost, window := r.state(res)
		*all = append(*all, sample{time.Duration(m.SpanNS), m.Bytes, lost, res.Loaded, window})
		if m.Count < k {
			continue
		}
		if p.rtt = res.RTT; r.o.rtt > 0 {
			p.rtt = min(p.rtt, r.o.rtt)
		}
		if p.after < 0 {
			p.after = time.Duration(m.SpanNS) + settling(curve, k, res.RTT)
		}
		if st := readSteady((*all)[first:], p); st.Rate > 0 {
			last = st
		}
		if k < r.o.lanes && !last.Enough {
			if st, ok := readGain((*all)[first:], last, p, curve); ok {
				last = st
			}
		}
		r.o.progress(fmt.Sprintf("%d lanes: %.3g Mbit/s", k, last.Rate*8/1e6), m.Bytes)
		switch {
		case last.Enough, now > until && until < r.o.time && last.Rate > 0:
			return point(), last, nil
		case now > r.o.time || r.written.Load() > r.o.bytes:
			return point(), last, errBulkLate
		}
	}
}

// settling is how long k lanes need to get under way beside those that are at full speed,
// which hide the others' slow start in the sum: doublings from the first window up.
func settling(curve []lanePoint, k int, rtt time.Duration) time.Duration {
	if len(curve) == 0 {
		return 0
	}
	last := curve[len(curve)-1]
	trips := 2
	for w := float64(32 * trainPayload); w < last.Rate/float64(last.Lanes)*rtt.Seconds(); w *= 2 {
		trips++
	}
	return time.Duration(trips) * rtt
}
