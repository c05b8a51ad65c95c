package probe

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
)

// A second opinion that is let in during an exchange is one train, whatever its sender would like, and what that read counts.
func TestSecondOpinionIsOneTrain(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 100 * gridnet.Mbps, Latency: time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, func(c *Config) {
			if c.Self.Name == "b0" {
				c.Busy = always
			}
		})
		w.run(ms, false, func(ctx context.Context) {
			ms[1].prober.look()
			train := func(m message) (result, error) {
				e := ms[0].prober.cfg.Endpoint
				s, err := e.Open(ctx, "b0", 0, lane.StreamProbe)
				if err != nil {
					t.Fatal(err)
				}
				return initiate(ctx, s, m, sender(ctx, e, s.Peer.Addr), always)
			}
			var busy *BusyError
			if res, err := train(message{Op: opTrain, Count: watchTrain}); !errors.As(err, &busy) || res.Trains != 0 {
				t.Errorf("an ordinary session: %d trains, %v", res.Trains, err)
			}
			// 8 packets are too few to time at that rate, so the initiator asks for another train.
			res, err := train(message{Op: opTrain, Count: watchTrain, Urgent: true})
			if err != nil || res.Trains != 1 || res.Bandwidth == 0 {
				t.Errorf("a second opinion: %+v, %v, want what one train read", res, err)
			}
		})
	})
}

// What is let in once is asked the second time.
func TestRespondLetsInOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		c := &catcher{}
		go func() {
			m, _ := readMessage(b, opTrain)
			c.respond(t.Context(), b, m, butOnce(always), func(reading) {})
			io.Copy(io.Discard, b)
		}()
		send := feed(c, 10*time.Microsecond, func(int) bool { return false })
		for _, want := range []bool{true, false} {
			if err := writeMessage(a, message{Op: opTrain, Count: watchTrain, Urgent: true}); err != nil {
				t.Fatal(err)
			}
			m, err := readMessage(a, opGo)
			if !want {
				var busy *BusyError
				if !errors.As(err, &busy) {
					t.Errorf("the second train: %v, %v", m.Op, err)
				}
				break
			}
			id, err := m.trainID()
			if err != nil {
				t.Fatal(err)
			}
			send(id, watchTrain)
			if err := writeMessage(a, message{Op: opSent}); err != nil {
				t.Fatal(err)
			}
			if _, err := readMessage(a, opReading); err != nil {
				t.Fatal(err)
			}
		}
		a.Close()
		synctest.Wait()
	})
}
