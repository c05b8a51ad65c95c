package exchange

import (
	"math"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
)

// looks has l look at so many packets that were sent and lost every levelEvery, n times, while queue stands on the way.
func looks(l *level, n int, sent, lost uint64, queue time.Duration) {
	for range n {
		l.sent, l.lost, l.queue = sent, lost, queue
		l.look(l.since.Add(levelEvery))
	}
}

// TestLevel: what goes steadily goes slower where much more is lost than repairs make up for, by as much as the link takes less, and faster, also than is believed, where nearly nothing stands in the queue.
func TestLevel(t *testing.T) {
	const room = 100 * time.Millisecond
	for _, tt := range []struct {
		name   string
		n      int
		lost   uint64
		queue  time.Duration
		others int
		want   float64
	}{
		{"nothing lost", 4, 0, room / 4, 0, 1},
		{"no queue", 2, 0, room / 5, 0, levelUp * levelUp},
		{"a long queue", 4, 0, 4 * room, 0, 1},
		{"what repairs make up for", 4, 19, 2 * room, 0, 1},
		{"a burst", 1, 40, 2 * room, 0, 1},
		{"losses without a queue", 4, 60, room / 4, 0, 1},
		{"a third too much, twice", 2, 33, 2 * room, 0, 0.67},
		{"the link has fallen to four tenths", 1, 60, 2 * room, 0, 0.4},
		{"to less", 1, 90, 2 * room, 0, levelLeast},
		{"to nearly nothing", 20, 99, 2 * room, 0, levelEnd},
		{"others send as well", 4, 60, 2 * room, 1, 1},
	} {
		l := &level{at: 1, most: levelMost, room: room, since: time.Unix(1000, 0), others: tt.others}
		looks(l, tt.n, 100, tt.lost, tt.queue)
		if math.Abs(l.at-tt.want) > 1e-9 {
			t.Errorf("%s: level %.3f, want %.3f", tt.name, l.at, tt.want)
		}
		looks(l, 100, 100, 0, 0)
		if tt.others == 0 && l.at != levelMost {
			t.Errorf("%s: level %.3f when the queue is gone, want %.1f", tt.name, l.at, levelMost)
		}
		if got, want := l.rate(300), 300*l.at/float64(1+tt.others); got != want {
			t.Errorf("%s: rate %.1f, want %.1f", tt.name, got, want)
		}
	}
	fast := &level{at: levelMost, most: levelMost, room: room, since: time.Unix(1000, 0)}
	if looks(fast, 1, 100, 0, 2*room); math.Abs(fast.at-levelMost/levelUp) > 1e-9 {
		t.Errorf("level %.3f where what goes faster than is believed stands in a queue, want %.3f", fast.at, levelMost/levelUp)
	}
	if looks(fast, 20, 100, 0, 2*room); fast.at != 1 {
		t.Errorf("level %.3f after a while, want 1", fast.at)
	}
	few := &level{at: 1, room: room, since: time.Unix(1000, 0)}
	looks(few, 1, levelPackets-1, levelPackets-1, 2*room)
	if few.at != 1 {
		t.Errorf("level %.3f after %d packets", few.at, levelPackets-1)
	}
}

// TestLevelCounts: of connections that come and go only what they have counted since they were looked at first is taken in.
func TestLevelCounts(t *testing.T) {
	var c counted
	l := &level{queue: math.MaxInt64}
	const trip = 10 * time.Millisecond
	for _, st := range []quic.ConnectionStats{
		{PacketsSent: 1000, PacketsLost: 900, MinRTT: trip, SmoothedRTT: 5 * trip},
		{PacketsSent: 1010, PacketsLost: 902, MinRTT: trip, SmoothedRTT: 3 * trip, LatestRTT: 4 * trip},
		{PacketsSent: 5, PacketsLost: 0}, // another connection
		{PacketsSent: 7, PacketsLost: 1},
	} {
		l.count(&c, st)
	}
	if l.sent != 12 || l.lost != 3 || l.queue != 3*trip {
		t.Errorf("%d sent, %d lost, a queue of %v; want 12, 3 and %v", l.sent, l.lost, l.queue, 3*trip)
	}
}

// TestPace: what could not go while there was nothing to send is made up for by going somewhat faster, and no more of it than of a second.
func TestPace(t *testing.T) {
	const rate = 1000.
	l := &level{at: 1}
	now := time.Unix(1000, 0)
	goes := func(after time.Duration, n int64) float64 {
		now = now.Add(after)
		return l.pace(rate, n, now)
	}
	for i, tt := range []struct {
		after time.Duration
		n     int64
		want  float64
	}{
		{0, 100, rate},
		{100 * time.Millisecond, 100, rate},
		{225 * time.Millisecond, 100, rate * (1 + levelAfter/2)}, // 125 bytes behind
		{time.Minute, 100, rate * (1 + levelAfter)},
		{time.Millisecond, 851, rate * (1 + levelAfter*150./250)}, // of a second's, 150 are left
		{time.Millisecond, 500, rate},
	} {
		if got := goes(tt.after, tt.n); math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%d: at %.2f bytes a second, want %.2f", i, got, tt.want)
		}
	}
}
