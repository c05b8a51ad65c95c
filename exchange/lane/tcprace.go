package lane

import (
	"context"
	"sync"
	"time"
)

const (
	// maxDials is how many connections are tried at the same time where one is enough.
	maxDials = 3
	// dialTrips is how many round trips a connection may take before another is tried: TCP's handshake, TLS's, and the peer's word that it has
	// taken it take three.
	dialTrips = 4
	// dialSlack is what it may take beside them, for processors and queues, and unknownTrip a round trip that is not known.
	dialSlack   = 50 * time.Millisecond
	unknownTrip = 250 * time.Millisecond
)

// dialAgain is how long a connection to name may take before another is tried beside it; 0: however long it takes. Only a connection
// with a congestion control of our choice is for a way that loses packets.
func (e *Endpoint) dialAgain(name, congestion string) time.Duration {
	if congestion == "" {
		return 0
	}
	trip := unknownTrip
	if st, ok := e.Stats(name); ok && st.SmoothedRTT > 0 {
		trip = min(st.SmoothedRTT, 4*unknownTrip)
	}
	return dialTrips*trip + dialSlack
}

// raceTCP makes a connection. The kernel asks again for one whose first packets were lost after a second, then after two more (RFC 6298, section 2.1), and an exchange
// over a lossy way opens a hundred of them, of which each must be there. So when one takes longer than again, if that is not 0, another is tried
// beside it, up to maxDials, and the first that is there, or is refused, decides. When raceTCP returns, the others are closed and their goroutines have ended.
func raceTCP(ctx context.Context, connect func(context.Context) (*tcpConn, error), again time.Duration) (*tcpConn, error) {
	if again <= 0 {
		return connect(ctx)
	}
	type outcome struct {
		c   *tcpConn
		err error
	}
	outcomes := make(chan outcome, maxDials)
	racing, stop := context.WithCancelCause(ctx)
	var dials sync.WaitGroup
	try := func() {
		dials.Go(func() {
			c, err := connect(racing)
			outcomes <- outcome{c, err}
		})
	}
	defer func() {
		stop(nil)
		dials.Wait()
		for len(outcomes) > 0 {
			if o := <-outcomes; o.c != nil {
				o.c.close()
			}
		}
	}()
	try()
	tick := time.NewTicker(again)
	defer tick.Stop()
	for tried := 1; ; {
		select {
		case o := <-outcomes:
			return o.c, o.err
		case <-tick.C:
			if tried < maxDials {
				tried++
				try()
			}
		}
	}
}
