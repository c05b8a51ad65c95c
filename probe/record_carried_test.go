package probe

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// TestCarriedIsTold: what exchanges bring over a link is told once it grows no more, if it is more than is known and nobody has searched; it is taken back
// when somebody has whose port did not hold it, when the link has fallen, and when nothing like it was seen for long. It makes no reading of the peer's younger, and joins an objection.
func TestCarriedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rated := netmap.Estimate{
			Known: netmap.FieldLatency | netmap.FieldBandwidth, Latency: 50e6, Bandwidth: netmap.Mbps, Source: netmap.SourceProbed,
			Capacity: 9 * netmap.Mbps, Lanes: 8, Measured: time.Now().Add(-time.Minute),
		}
		lan := netmap.BytesPerSec(100 * netmap.Mbps)
		var told []netmap.Estimate
		r := newRecorder(&Config{
			Self:  Peer{"b0", "b"},
			Peers: func() []Peer { return []Peer{{"a0", "a"}, {"a1", "a"}, {"b1", "b"}} },
			Known: func(from, to string) (netmap.Estimate, bool) {
				if from[0] == to[0] {
					return netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: lan, Source: netmap.SourceProbed}, true
				}
				return rated, from != "b0" && to != "b1"
			},
			Claimed: func(_, _ string) (netmap.Estimate, bool) { return rated, true },
			Record: func(from, to string, e netmap.Estimate) {
				if from != "a0" || to != "b0" {
					t.Errorf("recorded %s→%s", from, to)
				}
				told = append(told, e)
			},
			Log: slog.New(slog.DiscardHandler),
		})
		bring := func(mbps ...float64) {
			told = nil
			for _, v := range mbps {
				r.brings("a0", v*float64(netmap.Mbps), time.Now())
				time.Sleep(loadsEvery)
			}
		}
		want := func(what string, mbps float64) {
			t.Helper()
			switch {
			case len(told) != 1:
				t.Fatalf("%s: told %+v, want one word", what, told)
			case mbps == 0 && told[0].Known == 0:
			case !told[0].Has(netmap.FieldCarried) || told[0].Carried != netmap.BytesPerSec(mbps)*netmap.Mbps:
				t.Errorf("%s: told %+v, want %g Mbit/s", what, told[0], mbps)
			}
			if !told[0].Measured.Equal(rated.Measured) && !told[0].Has(netmap.FieldBandwidth) {
				t.Errorf("%s: measured %v", what, told[0].Measured)
			}
		}
		none := func(what string) {
			t.Helper()
			if len(told) > 0 {
				t.Errorf("%s: told %+v", what, told)
			}
		}
		bring(2, 3, 4, 5)
		none("it grows")
		bring(5, 5, 5)
		want("it has grown", 5)
		bring(5, 5, 5, 5, 5, 5, 5, 5)
		none("the same")
		bring(7, 7, 7, 7)
		want("more", 7)
		bring(1, 1, 1, 1, 1)
		none("less")
		r.bringsLess("a0", 0.5e6, time.Now())
		want("it has fallen", 0)
		bring(1, 1, 1, 1, 1)
		none("a flow gets that")
		bring(6, 6, 6, 6)
		want("it has recovered", 6)
		told = nil
		r.mu.Lock()
		r.pair("a0").objects = netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps / 4, Source: netmap.SourceProbed, Measured: time.Now()}
		r.side("a0", r.pair("a0"), time.Now())
		r.pair("a0").objects = netmap.Estimate{}
		r.mu.Unlock()
		if want("an objection", 6); !told[0].Has(netmap.FieldBandwidth) {
			t.Errorf("told %+v, want what was objected as well", told[0])
		}
		keep := map[string]bool{"a0": true, "a1": true, "b1": true}
		time.Sleep(carriedAge - time.Minute)
		bring(5, 5)
		time.Sleep(2 * time.Minute)
		r.forget(keep)
		none("seen of late")
		time.Sleep(carriedAge)
		r.forget(keep)
		want("long ago", 0)
		bring(6, 6, 6, 6)
		want("again", 6)
		rated.Known |= netmap.FieldCapacity | netmap.FieldLanes
		bring(8, 8, 8, 8, 8)
		want("somebody has searched", 0)
		bring(8, 8, 8, 8, 8)
		none("somebody has searched")
		lan = 9 * netmap.Mbps
		bring(20, 20, 20, 20, 20)
		want("its port was all that it met", 20)
	})
}

// TestJointlyIsBounded: a host's word of what several pairs got together is taken for what they can have got, and one that is no rate does not
// keep the map from what this host objects to.
func TestJointlyIsBounded(t *testing.T) {
	port := netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: 10 * netmap.Mbps, Source: netmap.SourceProbed}
	link := netmap.Estimate{
		Known: netmap.FieldBandwidth | netmap.FieldCapacity | netmap.FieldLanes, Bandwidth: 8 * netmap.Mbps, Capacity: 10 * netmap.Mbps, Lanes: 2, Source: netmap.SourceProbed,
	}
	var told netmap.Estimate
	r := newRecorder(&Config{
		Self:  Peer{"b0", "b"},
		Peers: func() []Peer { return []Peer{{"a0", "a"}, {"a1", "a"}, {"b1", "b"}} },
		Known: func(from, to string) (netmap.Estimate, bool) {
			if from[0] == to[0] {
				return port, true
			}
			return link, true
		},
		Record: func(_, _ string, e netmap.Estimate) {
			if err := e.Check(); err != nil {
				t.Errorf("the map refuses what is said: %v", err)
			}
			told = e
		},
		Log: slog.New(slog.DiscardHandler),
	})
	for _, c := range []struct{ said, want netmap.BytesPerSec }{
		{1e-9, 0}, {30 * netmap.Mbps, 30 * netmap.Mbps}, {0.5, 30 * netmap.Mbps}, {netmap.MaxRate, jointMost * jointSpare * 10 * netmap.Mbps},
	} {
		r.jointly("a0", float64(c.said), time.Now())
		if told.Carried != c.want {
			t.Errorf("%v bytes a second are said, %v told, want %v", c.said, told.Carried, c.want)
		}
	}
	link.Known &^= netmap.FieldCapacity | netmap.FieldLanes
	if r.jointly("a0", 200*float64(netmap.Mbps), time.Now()); told.Carried != 200*netmap.Mbps {
		t.Errorf("before what a pair gets is known %v Mbit/s are told, want 200", told.Carried.Mbps())
	}

	p := r.pair("a0")
	p.objects = netmap.Estimate{Known: netmap.FieldBandwidth, Bandwidth: netmap.Mbps, Source: netmap.SourceProbed, Measured: time.Now()}
	p.carried.rate = 1e-9
	if r.side("a0", p, time.Now()); told.Known != netmap.FieldBandwidth {
		t.Errorf("told %+v, want the objection alone", told)
	}
}
