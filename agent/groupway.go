package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/agent/group"
	"github.com/gridagent/gridagent/exchange"
	"github.com/gridagent/gridagent/exchange/lane"
)

// straightTime is how long a straight stream of a group may take to open before others are asked to carry it: as long as data wait
// (exchange/detour.go), and well within the time in which a coordinator wants every host.
const straightTime = 4 * time.Second

// detourTime is how long others may take to lead to a host from which nothing comes any more, before the straight way is tried: where they do not
// either, as the only one that could has died, there are seconds left until the host counts as lost.
const detourTime = 1500 * time.Millisecond

// cutTime is how long ago a host was heard at most whose stream was cut off: a little more than what is between two beats of a group.
const cutTime = 2 * time.Second

// errNotStraight ends the wait for a straight stream.
var errNotStraight = fmt.Errorf("no connection within %v", straightTime)

// groupWays opens the control streams of groups: straight, or, where the way to a host is broken, by way of a third one.
type groupWays struct {
	straight func(ctx context.Context, host string) (straightStream, error) // over what suits the way
	quic     func(ctx context.Context, host string) (straightStream, error) // over QUIC
	by       func(ctx context.Context, via, host string) (group.Stream, error)
	vias     func(host string) []string         // that may carry a stream, the best first
	broken   func(host string) bool             // the straight way was found broken a short time ago
	broke    func(host string, since time.Time) // notes that
	log      *slog.Logger
}

// A straightStream is a stream of a connection whose packets are counted. A [lane.Stream] is one.
type straightStream interface {
	group.Stream
	CancelWrite(code quic.StreamErrorCode)
	Stats() quic.ConnectionStats
}

// openGroupWays makes the ways of a. The endpoint, the members and the engine are there already.
func (a *Agent) openGroupWays() *groupWays {
	return &groupWays{
		straight: a.openWords,
		quic:     a.openWordsOverQUIC,
		by: func(ctx context.Context, via, host string) (group.Stream, error) {
			s, err := a.endpoint.OpenVia(ctx, via, host, lane.StreamGroup)
			if err != nil {
				return nil, err
			}
			return asideStream{s}, nil
		},
		vias: func(host string) []string {
			sites := a.sites()
			return exchange.Vias(a.name, host, "", func(h string) string { return sites[h] }, a.alive(), nil)
		},
		broken: a.engine.Broken,
		broke:  a.engine.Broke,
		log:    a.log,
	}
}

// open is [group.Config.Open].
func (w *groupWays) open(ctx context.Context, host string) (group.Stream, error) {
	tried := !w.broken(host)
	if tried {
		began := time.Now()
		short, cancel := context.WithTimeoutCause(ctx, straightTime, errNotStraight)
		s, err := w.straight(short, host)
		cancel()
		if err == nil {
			return w.watch(host, s), nil
		}
		var late net.Error
		if ctx.Err() != nil || !errors.Is(err, errNotStraight) && !(errors.As(err, &late) && late.Timeout()) {
			return nil, err
		}
		w.giveUp(host, began)
	}
	s, err := w.detour(ctx, host)
	if err == nil || tried || ctx.Err() != nil {
		return s, err
	}
	straight, err := w.quic(ctx, host) // the way may be whole again
	if err != nil {
		return nil, err
	}
	return w.watch(host, straight), nil
}

// errHeard ends the search for a way that is not wanted any more.
var errHeard = errors.New("the host was heard again")

// again is [group.Config.Again]: from host nothing has come since then, or nothing arrives there, so the straight way is the last one that is
// tried. It is not given up before another one leads there: a host that was busy for some seconds answers on both then.
//
// One that has ended though the host was heard a moment ago was TCP's, which somebody has cut off: that says nothing of the way.
func (w *groupWays) again(ctx context.Context, host string, since time.Time, wanted func() bool) (group.Stream, error) {
	if time.Since(since) < cutTime && !w.broken(host) {
		return w.quic(ctx, host)
	}
	short, cancel := context.WithTimeout(ctx, detourTime)
	defer cancel()
	s, err := w.detour(short, host)
	switch {
	case err == nil && !wanted():
		s.Abort()
		return nil, errHeard
	case err == nil:
		w.giveUp(host, since)
		return s, nil
	case ctx.Err() != nil:
		return nil, err
	}
	return w.quic(ctx, host)
}

// detour opens a stream by way of the first host that leads there.
func (w *groupWays) detour(ctx context.Context, host string) (group.Stream, error) {
	s, via, err := exchange.FirstVia(ctx, host, w.vias(host), func(ctx context.Context, via string) (group.Stream, error) {
		return w.by(ctx, via, host)
	})
	if err != nil {
		return nil, err
	}
	w.log.Debug("a group's control stream goes by way of another host", "peer", host, "by", via)
	return s, nil
}

// giveUp notes that the straight way to host leads nowhere, since when nothing came over it.
func (w *groupWays) giveUp(host string, since time.Time) {
	if !w.broken(host) {
		w.log.Info("the way to a host is broken: control streams of groups go by way of others", "peer", host)
	}
	w.broke(host, since)
}

// An asideStream goes by way of another host.
type asideStream struct{ group.Stream }

// Aside is for group: what is heard over the straight way says nothing of this one.
func (asideStream) Aside() bool { return true }

// A toldStream came by way of another host. Its first bytes say that the peer took the straight way for broken; one that ends without any was
// not wanted after all, see again.
type toldStream struct {
	asideStream
	told func()
	once sync.Once
}

func (t *toldStream) Read(p []byte) (int, error) {
	n, err := t.Stream.Read(p)
	if n > 0 {
		t.once.Do(t.told)
	}
	return n, err
}
