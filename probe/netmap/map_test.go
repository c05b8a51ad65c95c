package netmap

import (
	"errors"
	"math"
	"testing"
	"time"
)

func newMap(t testing.TB, self string) *Map {
	t.Helper()
	m, err := NewMap(MapConfig{Self: self})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// bandwidthOf is a probed estimate of mbps Mbit/s, measured at t.
func bandwidthOf(mbps float64, t time.Time) Estimate {
	return Estimate{Known: FieldBandwidth, Bandwidth: BytesPerSec(mbps) * Mbps, Source: SourceProbed, Measured: t}
}

// flush publishes all that m has measured, whatever the time.
func flush(t testing.TB, m *Map, now time.Time) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	weighty, rest, _ := m.unsaid()
	if all := append(weighty, rest...); len(all) > 0 {
		if err := m.publish(all, now); err != nil {
			t.Fatalf("%s: %v", m.cfg.Self, err)
		}
	}
}

// exchange makes one round from a to b, as two agents do, and returns how many batches
// either took and how many bytes travelled.
func exchange(t testing.TB, a, b *Map, nowA, nowB time.Time) (taken, bytes int) {
	t.Helper()
	r, request := a.Start(b.cfg.Self, nowA)
	for range 8 {
		answer, n, fault, err := b.Answer(a.cfg.Self, request, nowB)
		if fault != nil || err != nil {
			t.Fatalf("%s answers %s: %v, %v", b.cfg.Self, a.cfg.Self, fault, err)
		}
		taken += n
		bytes += len(request) + len(answer)
		if request, fault, err = r.Next(answer, nowA); fault != nil || err != nil {
			t.Fatalf("%s asks %s: %v, %v", a.cfg.Self, b.cfg.Self, fault, err)
		}
		if request == nil {
			return taken + r.Taken, bytes
		}
	}
	t.Fatalf("the exchange of %s and %s does not end", a.cfg.Self, b.cfg.Self)
	return 0, 0
}

// pull publishes what both have measured and makes them exchange it.
func pull(t testing.TB, to, from *Map, now time.Time) int {
	t.Helper()
	flush(t, to, now)
	flush(t, from, now)
	n, _ := exchange(t, to, from, now, now)
	return n
}

func TestSetRefuses(t *testing.T) {
	m := newMap(t, "a")
	for _, h := range []string{"b", "c"} {
		if err := m.Set("a", h, bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
	}
	before := m.Epoch()
	for _, tt := range []struct {
		from, to string
		e        Estimate
		want     error
	}{
		{"b", "c", bandwidthOf(1, t0), ErrForeign},
		{"a", "a", bandwidthOf(1, t0), ErrForeign},
		{"a", "b", bandwidthOf(math.NaN(), t0), ErrAbsurd},
		{"a", "b", bandwidthOf(-1, t0), ErrAbsurd},
		{"a", "b", bandwidthOf(2e7, t0), ErrAbsurd},
		{"a", "b", Estimate{Known: FieldLatency, Latency: 61 * time.Second}, ErrAbsurd},
		{"a", "b", Estimate{Known: FieldBandwidth, Bandwidth: 5, Source: SourcePredicted}, ErrAbsurd},
		{"a", "b", bandwidthOf(1, t0.Add(time.Hour)), ErrFuture},
	} {
		if err := m.Set(tt.from, tt.to, tt.e, t0); !errors.Is(err, tt.want) {
			t.Errorf("%s→%s %+v: got %v, want %v", tt.from, tt.to, tt.e, err, tt.want)
		}
	}
	if m.Epoch() != before {
		t.Error("what was refused changed the epoch")
	}
}

func TestEpochGrowsWithValuesOnly(t *testing.T) {
	m := newMap(t, "a")
	hosts := []Host{{Name: "a"}, {Name: "b"}}
	set := func(mbps float64, at time.Time) uint64 {
		if err := m.Set("a", "b", bandwidthOf(mbps, at), at); err != nil {
			t.Fatal(err)
		}
		return m.Snapshot(hosts, at).Epoch()
	}
	one := set(5, t0)
	same := set(5, t0.Add(time.Minute))
	two := set(6, t0.Add(2*time.Minute))
	if one == 0 || same != one || two <= one {
		t.Errorf("epochs %d, %d (same value), %d (new value)", one, same, two)
	}
	if got := m.Snapshot(hosts, t0.Add(time.Hour)).Estimate(0, 1).Measured; !got.Equal(t0.Add(2 * time.Minute)) {
		t.Errorf("measured %v", got)
	}
}

func TestUpdateKeepsOtherFields(t *testing.T) {
	m := newMap(t, "a")
	for i, e := range []Estimate{bandwidthOf(5, t0), {Known: FieldLatency, Latency: time.Millisecond}} {
		if err := m.Update("a", "b", e, t0.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	want := Estimate{
		Known: FieldBandwidth | FieldLatency, Bandwidth: 5 * Mbps, Latency: time.Millisecond,
		Source: SourceProbed, Measured: t0.Add(time.Second),
	}
	if got := m.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, t0.Add(time.Second)).Estimate(0, 1); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Rates are the receiver's word, delays the sender's, unless the other is much newer.
func TestSnapshotJoinsBothEnds(t *testing.T) {
	at := func(mbps float64, lat time.Duration, when time.Time) Estimate {
		e := bandwidthOf(mbps, when)
		e.Known |= FieldLatency
		e.Latency = lat
		return e
	}
	for _, tt := range []struct {
		name           string
		receiverLag    time.Duration
		mbps           float64
		latency        time.Duration
		senderSilent   bool
		receiverSilent bool
	}{
		{"both", 0, 4, 10, false, false},
		{"receiver a little older", 4 * time.Minute, 4, 10, false, false},
		{"receiver outdated", 6 * time.Minute, 5, 10, false, false},
		{"sender outdated", -6 * time.Minute, 4, 20, false, false},
		{"sender silent", 0, 4, 20, true, false},
		{"receiver silent", 0, 5, 10, false, true},
	} {
		a, b := newMap(t, "a"), newMap(t, "b")
		now := t0.Add(time.Hour)
		if !tt.senderSilent {
			if err := a.Set("a", "b", at(5, 10, t0), now); err != nil {
				t.Fatal(err)
			}
		}
		if !tt.receiverSilent {
			if err := b.Set("a", "b", at(4, 20, t0.Add(-tt.receiverLag)), now); err != nil {
				t.Fatal(err)
			}
		}
		pull(t, a, b, now)
		e := a.Snapshot([]Host{{Name: "a"}, {Name: "b"}}, now).Estimate(0, 1)
		if e.Bandwidth != BytesPerSec(tt.mbps)*Mbps || e.Latency != tt.latency || !e.Has(FieldBandwidth|FieldLatency) {
			t.Errorf("%s: %v Mbit/s, %v; want %v, %v", tt.name, e.Bandwidth.Mbps(), e.Latency, tt.mbps, tt.latency)
		}
		if one, ok := a.Lookup("a", "b", now); one != e || !ok {
			t.Errorf("%s: Lookup returns %+v, %v, and Snapshot %+v", tt.name, one, ok, e)
		}
	}
}

func TestNewMapRefuses(t *testing.T) {
	for _, cfg := range []MapConfig{{}, {Self: "a", MaxHosts: -1}, {Self: "a", MaxHosts: MaxHosts + 1}, {Self: "a", MaxSkew: -1},
		{Self: "a", Sign: func([]byte) ([]byte, error) { return nil, nil }}, {Self: "a", Credential: make([]byte, maxCredential+1)},
	} {
		if _, err := NewMap(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
