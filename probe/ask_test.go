package probe

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/internal/gridnet/gridtest"
	"github.com/gridagent/gridagent/probe/logp"
	"github.com/gridagent/gridagent/probe/netmap"
)

// asked serves one question on the other end of the pipe that it returns, and tells what
// serve returned.
func asked(t *testing.T, d *desk, m measurer) (control, <-chan error) {
	t.Helper()
	a, b := pipes()
	served := make(chan error, 1)
	go func() {
		defer b.Close()
		if _, err := readMessage(b, opAsk); err != nil {
			served <- err
			return
		}
		served <- d.serve(context.Background(), b, m)
	}()
	return a, served
}

func ignore(Progress) error { return nil }

// until waits for ctx or d.
func until(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func share(v float64) *float64 { return &v }

var fullAnswer = Answer{
	RTT: 100 * time.Millisecond, Variation: time.Millisecond, Bandwidth: 2 * netmap.Mbps, Spread: 0.05, Capacity: 16 * netmap.Mbps, Lanes: 8,
	Curve: []LaneRate{{1, 2 * netmap.Mbps}, {8, 16 * netmap.Mbps}}, Loss: share(0.001), Notes: []string{"a host was the limit"},
	LogP:  []logp.Point{{Size: 1, Gap: time.Microsecond}, {Size: 1 << 20, Send: 2, Receive: 3, Gap: time.Second}},
	Bytes: 1 << 20,
}

// TestAsk asks another host: progress arrives at its pace, the latest word of it, and the answer whole.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		var got Question
		s, served := asked(t, &d, func(ctx context.Context, q Question, tell func(Progress)) (Answer, error) {
			got = q
			for i := range 1000 {
				tell(Progress{Step: "trains", Bytes: int64(i)})
				if err := until(ctx, time.Millisecond); err != nil {
					return Answer{}, err
				}
			}
			return fullAnswer, nil
		})
		var news []Progress
		q := Question{From: "a", To: "b", Kind: "capacity", Timeout: time.Minute}
		a, err := askOver(t.Context(), s, q, func(p Progress) error { news = append(news, p); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		want := fullAnswer
		want.Took = time.Second
		if !reflect.DeepEqual(a, want) {
			t.Errorf("answer\n%+v, want\n%+v", a, want)
		}
		if q.From = ""; got != q { // whom one asks, one does not tell
			t.Errorf("asked %+v, want %+v", got, q)
		}
		if len(news) < 4 || len(news) > 6 || news[0].Step != "trains" || news[len(news)-1].Bytes < 700 {
			t.Errorf("progress %+v, want about 5 in a second, the latest each", news)
		}
	})
}

// TestAskIsCancelled: when the asker goes, the measurement ends at once and the host is free again.
func TestAskIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		var ended time.Time
		wait := func(ctx context.Context, _ Question, tell func(Progress)) (Answer, error) {
			tell(Progress{Step: "waiting"})
			err := until(ctx, time.Hour)
			ended = time.Now()
			return Answer{}, err
		}
		s, served := asked(t, &d, wait)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		begin := time.Now()
		if _, err := askOver(ctx, s, Question{From: "a", To: "b", Timeout: time.Minute}, ignore); !errors.Is(err, context.Canceled) {
			t.Errorf("the asker gets %v", err)
		}
		<-served
		if took := ended.Sub(begin); took != 3*time.Second {
			t.Errorf("measured for %v, want 3 s", took)
		}
		// And here, where progress cannot be told any more.
		broken := errors.New("the client is gone")
		if _, err := d.answer(t.Context(), Question{Timeout: time.Minute}, wait, func(Progress) error { return broken }); err != broken {
			t.Errorf("got %v, want what progress returned", err)
		}
		if d.taken.Load() {
			t.Error("the desk is still taken")
		}
	})
}

// TestAskErrors checks what the asker is told.
func TestAskErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d desk
		ask := func(m measurer) error {
			s, served := asked(t, &d, m)
			_, err := askOver(t.Context(), s, Question{From: "a", To: "b", Timeout: time.Minute}, ignore)
			if e := <-served; e != nil {
				t.Errorf("serve: %v", e)
			}
			return err
		}
		fails := func(err error) measurer {
			return func(context.Context, Question, func(Progress)) (Answer, error) { return Answer{}, err }
		}
		err := ask(fails(errors.New("no host b\x1b[31m\nhere")))
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Host != "a" || refused.Reason != "no host b [31m here" {
			t.Errorf("got %v", err)
		}
		err = ask(fails(&BusyError{Retry: 3 * time.Second, Why: "exchange"}))
		var busy *BusyError
		if !errors.As(err, &busy) || *busy != (BusyError{3 * time.Second, "exchange"}) || !strings.Contains(err.Error(), "host a") {
			t.Errorf("got %v", err)
		}
		d.taken.Store(true)
		if err := ask(fails(nil)); !errors.As(err, &busy) {
			t.Errorf("a second question at a time: %v", err)
		}
		d.taken.Store(false)
		err = ask(func(ctx context.Context, _ Question, _ func(Progress)) (Answer, error) {
			return Answer{}, until(ctx, time.Hour)
		})
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "no result from host a within 1m0s" {
			t.Errorf("a measurement that takes too long: %v", err)
		}
	})
}

// TestAskSilentHosts: neither side waits for ever for the other.
func TestAskSilentHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipes()
		go io.Copy(io.Discard, b)
		begin := time.Now()
		_, err := askOver(t.Context(), a, Question{From: "a", To: "b", Timeout: time.Minute}, ignore)
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > time.Minute+2*askTime {
			t.Errorf("a host that says nothing: %v after %v", err, took)
		}
		a.Close()
		b.Close()

		// An asker that reads nothing delays nobody: the desk is free when the answer is there.
		var d desk
		a, b = pipes()
		served := make(chan error, 1)
		go func() {
			served <- d.serve(t.Context(), b, func(_ context.Context, _ Question, tell func(Progress)) (Answer, error) { return fullAnswer, nil })
		}()
		if err := writeFrame(a, Question{To: "b", Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d.taken.Load() {
			t.Error("the desk is held by an asker that does not read")
		}
		if err := <-served; err == nil {
			t.Error("no error of an asker that does not read")
		}
		a.Close()
	})
}

// TestAskOverLanes asks over real streams: their ends differ from those of a pipe.
func TestAskOverLanes(t *testing.T) {
	cfg := gridtest.Pair(gridnet.Link{Rate: 2 * gridnet.Mbps, Latency: 50 * time.Millisecond})
	gridtest.Run(t, cfg, func(t *testing.T, n *gridnet.Network) {
		w := newWorld(t)
		ms := w.joinAll(n, cfg, nil)
		var d desk
		served := make(chan error, 8)
		ended := make(chan time.Time, 8)
		ms[1].endpoint.HandleStreams(lane.StreamProbe, func(ctx context.Context, s *lane.Stream) {
			_, err := readMessage(s, opAsk)
			if err == nil {
				err = d.serve(ctx, s, func(ctx context.Context, q Question, tell func(Progress)) (Answer, error) {
					defer func() { ended <- time.Now() }()
					tell(Progress{Step: "trains"})
					if q.Kind == "logp" {
						return Answer{}, errors.New("no")
					}
					return fullAnswer, until(ctx, 3*time.Second)
				})
			}
			if err != nil {
				s.Abort()
			}
			served <- err
			s.Close()
		})
		w.run(ms, false, func(ctx context.Context) {
			for _, kind := range []string{"rtt", "logp", "rtt"} { // once more: the desk is free again
				told := 0
				q := Question{From: "b0", To: "a0", Kind: kind}
				a, err := new(desk).ask(ctx, ms[0].endpoint, "a0", q, nil, func(Progress) error { told++; return nil })
				var refused *RefusedError
				if kind == "logp" {
					if !errors.As(err, &refused) || refused.Host != "b0" || refused.Reason != "no" {
						t.Errorf("refused: %v", err)
					}
				} else if err != nil || a.Took != 3*time.Second || a.Lanes != 8 || told != 1 {
					t.Errorf("%+v, %v, told %d times", a, err, told)
				}
				if err := <-served; err != nil {
					t.Errorf("serve: %v", err)
				}
				<-ended
			}
			asked, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			begin := time.Now()
			if _, err := new(desk).ask(asked, ms[0].endpoint, "a0", Question{From: "b0", To: "a0"}, nil, ignore); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			if took := (<-ended).Sub(begin); took > 1100*time.Millisecond {
				t.Errorf("measured for %v after a cancellation at 1 s, 50 ms away", took)
			}
			<-served
		})
	})
}

func TestAskHere(t *testing.T) {
	var d desk
	m := func(_ context.Context, q Question, _ func(Progress)) (Answer, error) {
		return Answer{RTT: q.Timeout}, nil
	}
	for _, from := range []string{"", "self"} {
		if a, err := d.ask(t.Context(), nil, "self", Question{From: from, To: "b"}, m, ignore); err != nil || a.RTT != defaultAskTime {
			t.Errorf("from %q: %+v, %v", from, a, err)
		}
	}
	for _, q := range []Question{{}, {To: strings.Repeat("x", 256)}, {To: "b", Kind: "latency"}, {To: "b", Timeout: MaxAskTime + 1}, {To: "b", Timeout: -1}} {
		if _, err := d.ask(t.Context(), nil, "self", q, m, ignore); !errors.Is(err, errInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"progress":{"step":"trains","bytes":7}}`))
	f.Add([]byte(`{"answer":{"rtt_ns":5,"curve":[{"lanes":1,"rate":3}],"logp":[{"Size":1}]}}`))
	f.Add([]byte(`{"refusal":{"reason":"x","busy":true,"retry_ms":5}}`))
	f.Add([]byte(`{"answer":{"bandwidth":-1}}`))
	f.Add([]byte(`{"answer":{},"refusal":{}}`))
	f.Add([]byte("{\"answer\":{\"loss\":0,\"notes\":[\"a host\\u001b[2J\",\"b\"]}}"))
	f.Add([]byte(`{"answer":{"loss":1.5,"notes":["1","2","3","4","5"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := parseFrame(b)
		if err != nil {
			if !errors.Is(err, errInvalid) {
				t.Errorf("%v is not marked as invalid", err)
			}
			return
		}
		switch {
		case fr.Answer != nil && fr.Answer.check() != nil, fr.Progress != nil && (fr.Progress.check() != nil || len(fr.Progress.Step) > maxText):
			t.Errorf("an absurd frame got through: %+v", fr)
		case fr.Answer != nil && strings.ContainsAny(strings.Join(fr.Answer.Notes, ""), "\x1b\n\x00"):
			t.Errorf("notes with control characters: %q", fr.Answer.Notes)
		case fr.Refusal != nil && strings.ContainsAny(fr.Refusal.err(Question{From: "h"}).Error(), "\x1b\n\x00"):
			t.Errorf("a refusal with control characters: %q", fr.Refusal.err(Question{}))
		}
	})
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte(`{"to":"b","kind":"logp","timeout_ns":1000}`))
	f.Add([]byte(`{"to":"","timeout_ns":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := parseQuestion(b)
		if err == nil && (q.To == "" || q.From != "" || q.Timeout <= 0 || q.Timeout > MaxAskTime || q.Kind == "") {
			t.Errorf("an absurd question got through: %+v", q)
		}
	})
}
