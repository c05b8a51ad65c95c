package probe

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/probe/logp"
)

const (
	// When its parts end at the latest, so that something is left for each: the opening of
	// the window, the bursts, the round trips. Only paths of 0.2 s and more come to that.
	logpWarmTime  = 3 * time.Second
	logpBurstTime = 5 * time.Second
	logpGapTime   = 8 * time.Second
	// pointTime bounds the round trips of one size. It decides how large messages get on
	// slow links: 64 KiB at 1.25 Mbit/s, all of them from 13 Mbit/s on.
	pointTime = 2 * time.Second
	// gapBytes ends the round trips, too. Where nothing bends they take 6 MB, on links fast enough.
	gapBytes = 12 << 20
	// A burst for g(0) starts with firstBurst messages and doubles until two agree within
	// gapSettled, at least once, at most up to maxBurst.
	firstBurst = 32
	maxBurst   = 4096
	gapSettled = 0.05
	// atOnce is what quic-go sends without pause on an idle lane (the pacer lets 10 packets
	// go). The write of a larger message waits for pacer and window: time, but not the sender's.
	atOnce   = 8 << 10
	heldTime = time.Second // of held messages on their way, at most
	// firstWindow is what quic-go sends before the first acknowledgement. Larger messages open the
	// window, as long as each is faster than the one before by warmGain.
	firstWindow = 32 * userPayload
	warmGain    = 0.03
	warmBytes   = gapBytes / 2
)

// A logpMeter is the initiator's side of a session.
type logpMeter struct {
	s        control
	progress func(string, int64)
	start    time.Time
	payload  []byte
	bytes    int64 // UDP payload sent, about

	base   time.Duration // RTT(0)
	noise  time.Duration // between round trips of one byte
	gap0   time.Duration // g(0)
	points []logp.Point  // sizes rising, with Gap
	send   []logp.Point  // with Send: how long the call took
}

// why returns what the peer said before it stopped this side's writing with err.
func (l *logpMeter) why(err error) error {
	var stopped *quic.StreamError
	if !errors.As(err, &stopped) || !stopped.Remote {
		return err
	}
	for {
		_, rerr := readMessage(l.s, opTook)
		var busy *BusyError
		if errors.As(rerr, &busy) {
			return busy
		} else if rerr != nil {
			return err
		}
	}
}

func (l *logpMeter) measure() (logp.Model, error) {
	base, err := l.rounds(1, pointRounds)
	if err == nil && base.trip < nearTrip {
		base, err = l.rounds(1, nearRounds)
	}
	if err != nil {
		return logp.Model{}, err
	}
	l.base, l.noise = base.trip, base.spread
	// First, as long as slow start has not met the acknowledgements of small messages, which come
	// late and look like a queue to it.
	most, err := l.warm()
	if err != nil {
		return logp.Model{}, err
	}
	if err := l.saturate(); err != nil {
		return logp.Model{}, err
	}
	l.note(1, base)
	// The largest first: the slope of g(m) is known from it, however little time is left.
	last, err := l.rounds(most, pointRounds)
	if err != nil {
		return logp.Model{}, err
	}
	l.note(most, last)
	if err := l.gaps(most); err != nil {
		return logp.Model{}, err
	}
	receive, err := l.receives(most)
	if err != nil {
		return logp.Model{}, err
	}
	return l.model(receive)
}

// A round is what a few round trips say: the medians of their times and of those of the
// writes, and how far the shortest and the longest trip are apart.
type round struct{ trip, call, spread time.Duration }

// rounds makes n round trips with messages of size bytes, the answers of a few bytes.
func (l *logpMeter) rounds(size int64, n int) (round, error) {
	trips, calls := make([]time.Duration, n), make([]time.Duration, n)
	if err := l.request(message{Op: opLogP, Batch: batchEach, Size: size, Messages: int64(n)}); err != nil {
		return round{}, err
	}
	for i := range n {
		start := time.Now()
		if err := l.write(size); err != nil {
			return round{}, err
		}
		calls[i] = time.Since(start)
		if _, err := readMessage(l.s, opTook); err != nil {
			return round{}, err
		}
		trips[i] = time.Since(start)
	}
	l.progress(fmt.Sprintf("round trips of %d bytes", size), l.bytes)
	trip := medianTime(trips)
	return round{trip, medianTime(calls), trips[n-1] - trips[0]}, nil
}

// request announces the messages that follow.
func (l *logpMeter) request(m message) error {
	if len(l.payload) < int(m.Size) { // here, and not where a call is timed
		l.payload = make([]byte, m.Size)
		rand.Read(l.payload) // a path that compresses must not gain; never fails since Go 1.24
	}
	l.bytes += wireBytes(80)
	return writeMessage(l.s, m)
}

// write sends one message.
func (l *logpMeter) write(size int64) error {
	l.bytes += wireBytes(size)
	_, err := l.s.Write(l.payload[:size])
	return err
}

// wireBytes returns the UDP payload that user bytes take, about.
func wireBytes(user int64) int64 { return user + (user/userPayload+1)*quicOverhead }

// saturate finds g(0): by how much each further message of a burst delays the answer to
// the last. A burst is compared with one of half its length, so that what all bursts pay cancels.
// Where no two agree it is the middle one of the last three: one that lost a packet spoils two
// of them, one upwards and one downwards.
func (l *logpMeter) saturate() error {
	half, trip := int64(1), l.base
	var rises []time.Duration
	for n := int64(firstBurst); n <= maxBurst; n *= 2 {
		if err := l.request(message{Op: opLogP, Batch: batchLast, Size: 1, Messages: n}); err != nil {
			return err
		}
		start := time.Now()
		for range n {
			if _, err := l.s.Write(l.payload[:1]); err != nil {
				return err
			}
		}
		l.bytes += wireBytes(n)
		if _, err := readMessage(l.s, opTook); err != nil {
			return err
		}
		took := time.Since(start)
		rise := max(took-trip, 0) / time.Duration(n-half)
		l.progress(fmt.Sprintf("burst of %d messages", n), l.bytes)
		rises = append(rises, rise)
		if k := len(rises); k > 1 && rise > 0 && float64((rise-rises[k-2]).Abs()) <= gapSettled*float64(rise) {
			l.gap0 = rise
			return nil
		}
		if time.Since(l.start) > logpBurstTime {
			break
		}
		half, trip = n, took
	}
	l.gap0 = medianTime(rises[max(0, len(rises)-3):])
	return nil
}

// warm sends messages of the sizes that will be measured, to open the congestion window: its
// growth is the lane's first messages', not every one's. Slow start may end early, where it took its own
// burst for a queue, and what follows is slow: a size is repeated as long as that makes it
// faster. It returns the largest size of which the round trips take no longer than pointTime.
func (l *logpMeter) warm() (int64, error) {
	most := int64(logp.LeastSize)
	var before time.Duration // the trip of the last message of this size
	for {
		r, err := l.rounds(most, 1)
		if err != nil {
			return 0, err
		}
		late := time.Since(l.start) > logpWarmTime || l.bytes > warmBytes
		faster := before == 0 || float64(r.trip) < (1-warmGain)*float64(before)
		if most > firstWindow && faster && !late {
			before = r.trip
			continue
		}
		if most <= atOnce {
			l.send = insert(l.send, logp.Point{Size: most, Send: r.call}) // time may be too short for more
		}
		// One round trip more than the answer's may be slow start's, and will not come again.
		wire := max(r.trip-2*l.base, 0)
		if pointRounds*(wire+l.base) > pointTime && most > logp.LeastSize {
			return most / 4, nil // slower than the size before let hope
		}
		if 4*most > logp.MostSize || pointRounds*(4*wire+l.base) > pointTime || late {
			return most, nil
		}
		most, before = 4*most, 0
	}
}

// gaps measures g(m) by single round trips, g(m) = RTT(m) − RTT(0) + g(0), at the sizes
// that [logp.NextSize] asks for, and how long the sender's call takes.
func (l *logpMeter) gaps(most int64) error {
	for len(l.points) < logp.MaxPoints-1 { // one more is the call of atOnce bytes
		size, ok := logp.NextSize(l.points, most, l.noise)
		if !ok {
			break
		}
		gap := logp.Model{Points: l.points}.At(size).Gap
		if time.Since(l.start)+pointRounds*(l.base+gap) > logpGapTime || l.bytes+pointRounds*size > gapBytes {
			break
		}
		r, err := l.rounds(size, l.repeats(size))
		if err != nil {
			return err
		}
		l.note(size, r)
	}
	if most <= atOnce || time.Since(l.start) > logpGapTime {
		return nil
	}
	r, err := l.rounds(atOnce, l.repeats(atOnce))
	l.send = insert(l.send, logp.Point{Size: atOnce, Send: r.call})
	return err
}

// repeats returns how many round trips of a size are made.
func (l *logpMeter) repeats(size int64) int {
	if l.base < nearTrip && size <= smallSize {
		return nearRounds
	}
	return pointRounds
}

func (l *logpMeter) note(size int64, r round) {
	l.points = insert(l.points, logp.Point{Size: size, Gap: max(r.trip-l.base, 0) + l.gap0})
	l.send = insert(l.send, logp.Point{Size: size, Send: r.call})
}

// insert puts p among points, by size, in place of one of the same size.
func insert(points []logp.Point, p logp.Point) []logp.Point {
	i, found := slices.BinarySearchFunc(points, p.Size, func(q logp.Point, size int64) int { return cmp.Compare(q.Size, size) })
	if found {
		points[i] = p
		return points
	}
	return slices.Insert(points, i, p)
}

// receives has the peer read messages that have arrived already, and returns how long that
// takes it. All sizes travel in one row, so that it waits for them only once. What it had
// to wait for all the same is measured again with more patience.
func (l *logpMeter) receives(most int64) ([]logp.Point, error) {
	gap := logp.Model{Points: l.points}
	var sizes []int64
	var total int64
	var wire time.Duration
	for size := int64(1); size <= most; size = max(4*size, logp.LeastSize) {
		w := pointRounds * gap.At(size).Gap
		if total += pointRounds * size; total > heldBytes || wire+w > heldTime && len(sizes) > 1 {
			break
		}
		wire += w
		sizes = append(sizes, size)
	}
	delay := min(l.base+wire*3/2+20*time.Millisecond, maxDelay)
	points, err := l.held(sizes, delay)
	if err != nil || len(points) == len(sizes) || time.Since(l.start)+3*delay > logpTime {
		return points, err
	}
	return l.held(sizes, min(2*delay, maxDelay))
}

// held sends one row of batches and returns, rising, the sizes that had all arrived in time.
func (l *logpMeter) held(sizes []int64, delay time.Duration) (points []logp.Point, err error) {
	for i, size := range sizes {
		m := message{Op: opLogP, Batch: batchHeld, Size: size, Messages: pointRounds}
		if i == 0 {
			m.DelayNS = int64(delay)
		}
		if err := l.request(m); err != nil {
			return nil, err
		}
		for range pointRounds {
			if err := l.write(size); err != nil {
				return nil, err
			}
		}
	}
	l.progress("messages that wait for their reader", l.bytes)
	for _, size := range sizes {
		m, err := readMessage(l.s, opTook)
		if err != nil {
			return nil, err
		}
		if m.Messages > 0 {
			points = append(points, logp.Point{Size: size, Receive: time.Duration(m.SpanNS)})
		}
	}
	return points, nil
}

// model joins what was measured. Beyond atOnce a call waits for the network, so os(m)
// goes on along the line up to there, and never exceeds what the call took. No message
// can follow another sooner than its sender or its receiver is done: g ≥ os, or.
func (l *logpMeter) model(receive []logp.Point) (logp.Model, error) {
	if len(receive) == 0 {
		return logp.Model{}, errors.New("no message was there when its reader was: the receive overhead is not known")
	}
	quick := slices.DeleteFunc(slices.Clone(l.send), func(p logp.Point) bool { return p.Size > atOnce })
	line, err := logp.New([]logp.Point{quick[0], quick[len(quick)-1]})
	if err != nil {
		return logp.Model{}, err
	}
	calls, err := logp.New(l.send)
	if err != nil {
		return logp.Model{}, err
	}
	if receive[0].Size > 1 { // the first came late, and says no more than the next
		receive = insert(receive, logp.Point{Size: 1, Receive: receive[0].Receive})
	}
	reads := logp.Model{Points: receive}
	if len(receive) > 1 {
		if reads, err = logp.New(receive); err != nil {
			return logp.Model{}, err
		}
	}
	points := slices.Clone(l.points)
	for i := range points {
		p := &points[i]
		if p.Send = calls.At(p.Size).Send; p.Size > atOnce {
			p.Send = min(p.Send, line.At(p.Size).Send)
		}
		p.Receive = reads.At(p.Size).Receive
		p.Gap = max(p.Gap, p.Send, p.Receive)
	}
	return logp.New(points)
}

// medianTime returns the middle one of values, the lower of two; it sorts them.
func medianTime(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
