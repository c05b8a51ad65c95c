package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// How a check sends.
const (
	smallPayload = 64 - gridnet.HeaderBytes // a delay is that of a packet of 64 bytes
	delayPackets = 20
	lossPackets  = 2000             // at least; more where the loss is small, so that
	lossLost     = 16               // so many are lost, and none lost is an error
	lossRate     = 5000 * 64        // IP bytes/s at most, which is a packet each 0.2 ms
	lossTime     = 20 * time.Second // at most, on slow links
	overload     = 1.2              // of the declared rate
	// shapedOverload is that where a token bucket is to be emptied first, which takes maxDrain at most.
	shapedOverload = 2
	maxDrain       = 20 * time.Second
	ratePackets    = 250 // at least: 1 of 250 is 0.4 %
	minRateTime    = 500 * time.Millisecond
	maxRateTime    = 8 * time.Second
	warmUp         = 0.25 // of the time, in which queues and buckets fill
	payloadMin     = 8    // the time at which a packet was sent
)

// An arrival is one packet at its receiver.
type arrival struct {
	at, sent time.Duration // since the probe began
	size     int           // IP bytes
}

// attempts is how often a probe may run: a link that is wrong is so each time, a machine that is busy is not.
const attempts = 4

// measure runs one probe, again while its result is out of bounds, and returns the best result.
func (c *checker) measure(ctx context.Context, p *probe) (Measurement, error) {
	var best Measurement
	for i := range attempts {
		m, err := c.once(ctx, p, i+1)
		if err != nil {
			return m, err
		}
		if i == 0 || m.OK || math.Abs(m.Error) < math.Abs(best.Error) {
			best = m
		}
		best.Attempts = i + 1
		if best.OK {
			break
		}
	}
	return best, nil
}

func (c *checker) once(ctx context.Context, p *probe, attempt int) (Measurement, error) {
	m := Measurement{What: p.what, Quantity: p.quantity, Declared: p.declared}
	switch p.quantity {
	case QuantityDelay:
		return c.measureDelay(ctx, p, m)
	case QuantityLoss:
		return c.measureLoss(ctx, p, m)
	}
	// A sender that had to wait for a processor costs a long measurement less.
	least := time.Duration(attempt) * minRateTime
	return c.measureRate(ctx, p, m, least)
}

func (c *checker) measureDelay(ctx context.Context, p *probe, m Measurement) (Measurement, error) {
	gap := 10 * time.Millisecond
	if p.hold > 0 {
		gap = max(gap, 2*seconds(64/float64(p.hold)))
	}
	got, _, err := c.exchange(ctx, p, smallPayload, 64/gap.Seconds(), delayPackets*gap)
	if err != nil || len(got) == 0 {
		return unreached(m), err
	}
	delays := make([]float64, len(got))
	for i, a := range got {
		delays[i] = (a.at - a.sent).Seconds()
	}
	slices.Sort(delays)
	// A busy machine and jitter only add: the lower quartile is the link's own.
	m.Measured = delays[len(delays)/4]
	if p.jitter > 0 {
		m.Measured = delays[0]
	}
	if p.hold > 0 { // a latency counts from when the packet has been sent
		m.Measured = max(0, m.Measured-64/float64(p.hold))
	}
	m.Error, m.Limit = m.Measured-m.Declared, DelayTolerance.Seconds()
	m.OK = math.Abs(m.Error) <= m.Limit
	return m, nil
}

func (c *checker) measureLoss(ctx context.Context, p *probe, m Measurement) (Measurement, error) {
	rate := float64(lossRate)
	if p.hold > 0 {
		rate = min(rate, float64(p.hold)/2)
	}
	want := max(lossPackets, lossLost/p.loss)
	got, sent, err := c.exchange(ctx, p, smallPayload, rate, min(seconds(want*64/rate), lossTime))
	if err != nil || len(got) == 0 {
		return unreached(m), err
	}
	n := float64(sent)
	m.Measured = max(0, 1-float64(len(got))/n)
	// Four standard deviations of what chance does to so many packets, and one packet. None lost
	// where there should have been many is wrong in any case.
	m.Limit = 4*math.Sqrt(p.loss*(1-p.loss)/n) + 1/n
	m.Error = m.Measured - m.Declared
	m.OK = math.Abs(m.Error) <= m.Limit && (m.Measured > 0 || n*p.loss < lossLost/2)
	return m, nil
}

func (c *checker) measureRate(ctx context.Context, p *probe, m Measurement, least time.Duration) (Measurement, error) {
	lasts := min(max(seconds(ratePackets*gridnet.MTU/p.declared), least), maxRateTime)
	more, idle := overload, p.drain+time.Duration(warmUp*float64(lasts))
	if p.drain > 0 {
		more, lasts = shapedOverload, lasts+p.drain
	}
	got, _, err := c.exchange(ctx, p, gridnet.MaxPayload, more*p.declared, lasts)
	if err != nil || len(got) == 0 {
		return unreached(m), err
	}
	slices.SortFunc(got, func(a, b arrival) int { return int(a.at - b.at) })
	from := got[0].at + idle
	until := got[0].at + lasts
	bytes, first, last := 0, time.Duration(-1), time.Duration(0)
	for _, a := range got {
		switch {
		case a.at < from || a.at > until:
		case first < 0:
			first = a.at // its own bytes came before
		default:
			bytes += a.size
			last = a.at
		}
	}
	if last <= first {
		return unreached(m), nil
	}
	m.Measured = float64(bytes) / (last - first).Seconds()
	m.Declared *= 1 - p.loss // what is lost after the bottleneck does not arrive
	m.Error, m.Limit = m.Measured/m.Declared-1, RateTolerance
	m.OK = math.Abs(m.Error) <= m.Limit
	return m, nil
}

// unreached is the result where nothing came through.
func unreached(m Measurement) Measurement {
	return Measurement{What: m.What, Quantity: QuantityReached, Declared: 1, Error: -1}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// exchange sends packets of payload bytes on all flows, together rate IP bytes/s, and
// returns what arrives and how many packets were sent.
func (c *checker) exchange(ctx context.Context, p *probe, payload int, rate float64, lasts time.Duration) ([]arrival, int, error) {
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var conns []net.PacketConn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	var mu sync.Mutex // guards all, sent and failed
	var all []arrival
	var sent int
	var failed error
	var sending, receiving sync.WaitGroup
	for _, f := range p.flows {
		src, err := c.open(f[0])
		if err != nil {
			return nil, 0, fmt.Errorf("socket at %s: %w", c.spec.Hosts[f[0]].Name, err)
		}
		conns = append(conns, src)
		dst, err := c.open(f[1])
		if err != nil {
			return nil, 0, fmt.Errorf("socket at %s: %w", c.spec.Hosts[f[1]].Name, err)
		}
		conns = append(conns, dst)
		receiving.Go(func() {
			got := receive(dst, begin)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
		})
		sending.Go(func() {
			n, err := send(ctx, src, dst.LocalAddr(), begin, payload, rate/float64(len(p.flows)), lasts)
			mu.Lock()
			defer mu.Unlock()
			sent += n
			failed = errors.Join(failed, err)
		})
	}
	sending.Wait()
	// What is queued and on the wire: at most a buffer's worth, which no result needs.
	linger := time.NewTimer(p.delay + p.jitter + 200*time.Millisecond)
	defer linger.Stop()
	select {
	case <-linger.C:
	case <-ctx.Done():
	}
	for _, conn := range conns {
		_ = conn.SetReadDeadline(time.Now()) // ends the receivers
	}
	receiving.Wait()
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	return all, sent, failed
}

// send sends at rate IP bytes/s and returns how many packets. A full buffer of the socket holds it back,
// which is no error.
func send(ctx context.Context, conn net.PacketConn, to net.Addr, begin time.Time, payload int, rate float64, lasts time.Duration) (sent int, err error) {
	buf := make([]byte, max(payload, payloadMin))
	size := float64(len(buf) + gridnet.HeaderBytes)
	start := time.Now()
	if err := conn.SetWriteDeadline(start.Add(lasts + time.Second)); err != nil {
		return 0, err
	}
	for {
		elapsed := time.Since(start)
		if elapsed >= lasts || ctx.Err() != nil {
			return sent, nil
		}
		for due := int(elapsed.Seconds()*rate/size) + 1; sent < due; sent++ {
			binary.BigEndian.PutUint64(buf, uint64(time.Since(begin)))
			if _, err := conn.WriteTo(buf, to); errors.Is(err, os.ErrDeadlineExceeded) {
				return sent, nil // the port is slower than it should be, as the result will show
			} else if err != nil {
				return sent, err
			}
			if time.Since(start) >= lasts {
				return sent + 1, nil
			}
		}
		next := start.Add(seconds(float64(sent) * size / rate))
		// Short sleeps come late by as much; what is due then goes as a burst.
		time.Sleep(max(time.Until(next), 200*time.Microsecond))
	}
}

// receive reads until the deadline of conn.
func receive(conn net.PacketConn, begin time.Time) []arrival {
	if b, ok := conn.(interface{ SetReadBuffer(int) error }); ok {
		_ = b.SetReadBuffer(4 << 20) // it grants what it can
	}
	var got []arrival
	buf := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(buf)
		at := time.Since(begin)
		if err != nil {
			return got
		}
		if n >= payloadMin {
			got = append(got, arrival{at, time.Duration(binary.BigEndian.Uint64(buf)), n + gridnet.HeaderBytes})
		}
	}
}
