package probe

import (
	"cmp"
	"slices"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// What the hosts of a site know together of a link during an exchange: those at its end what arrives,
// those at its beginning whether it is full. Alone neither says that the link has fallen. Less
// arrives when there is less to send; and a full link is what an exchange makes of every link. But when far less
// arrives than before, at one rate, and most of it has come out of a queue that senders see before the
// link, then what arrives is what the link carries: no train has to get through that queue.
const (
	// loadsEvery is how often a host tells the keeper of its site.
	loadsEvery = 250 * time.Millisecond
	// loadBin is the grain in which a keeper adds up what hosts tell, and loadBins how far back it
	// looks: 8 s.
	loadBin  = 250 * time.Millisecond
	loadBins = 32
	// loadLate is by how much what hosts tell lags behind: they do not tell at the same instant.
	loadLate = 2
	// loadUsual is how many bins a usual rate is a mean of.
	loadUsual = 4
	// loadParts is in how many parts in a row what arrives must be the same: a full link sends at one rate,
	// and those who have nothing to send now and then do not. A part has as many bins as it takes for
	// loadPackets, up to loadPart.
	loadParts   = 4
	loadPackets = 8
	loadPart    = 4
	// loadAlike is how far the parts may lie apart, relative, beside a packet.
	loadAlike = 0.15
	// loadFallen is the share of what arrived, and of what the link is believed to carry, under which
	// what arrives is news.
	loadFallen = 0.6
	// loadPause is the share of what arrives now under which nothing to speak of does, for pauseBins bins: an exchange has ended, and what
	// arrived before says nothing of the next one. It takes a while to fill the link.
	loadPause = 0.25
	pauseBins = 2
	// loadRises is for how long what arrives has not grown before it is taken for what is left of a link: the next exchange fills the link by and by.
	loadRises = time.Second
	// loadMore is by how much more must arrive after a fall, over a second, than was told for the keeper to tell it: lanes that
	// have lost packets, or windows that shrink, leave a part of the link empty at first.
	loadMore = 0.05
	// followAge is for how long after a fall the keeper looks for more.
	followAge = 10 * time.Second
	// loadPressed is the share of what arrives that lanes must have carried which stood in a queue, and loadPressedMost that
	// where what arrives is not steady, or more than was said. Of a link that was not full it is a few per cent (TestPressedShare), of one that
	// has just fallen and is shared by many lanes a quarter to all: lanes that hand on what comes in wait now and then.
	loadPressed     = 0.25
	loadPressedMost = 0.5
	// loadStale is how many times what is said to arrive may stand in a queue: more has arrived by now.
	loadStale = 1.5
	// loadNarrow is the share of the link's rate that a pair must be believed to get for its queue to be that of
	// the link: what is slower stands in a queue of its own, that of a host's port.
	loadNarrow = 0.75
	// hearAge is for how long a keeper believes another one, and pressAge for how long a host that has seen its lanes
	// pressed believes its own. Answers may be late by a full queue of the other direction.
	hearAge  = 4 * time.Second
	pressAge = 2 * time.Second
	// loadSaid is the time between two words of a keeper: a lane that is pressed later shows it to its host later.
	loadSaid = 500 * time.Millisecond
	// maxTellers bounds the sites that a keeper remembers, and the hosts of all of them.
	maxTellers = 4096
	// maxLoadSpan is the longest time that a host may tell of at once: the rest is history.
	maxLoadSpan = 2 * time.Second
)

// A load is what a host tells the keeper of its site of another site.
type load struct {
	Site  string
	Bytes int64         // of IP packets that arrived from there
	Span  time.Duration // in which they did, until now
	// Pressed is what hosts there have read in that time of lanes that the network held back, user bytes, and Line what
	// the fastest of their pairs is believed to get of the link.
	Pressed int64
	Line    netmap.BytesPerSec
}

// arrivals are the bytes that arrive from a site, by time. The zero value has seen none.
type arrivals struct {
	bins  [loadBins]float64
	began time.Time // when bin 0 did, by the clock that nobody sets
	head  int64     // number of the newest bin
}

// into returns how long after the beginning of bin 0 t is, which may be before it.
func (a *arrivals) into(t time.Time) time.Duration {
	if a.began.IsZero() {
		a.began = t.Add(-time.Duration(t.UnixNano() % int64(loadBin)))
	}
	return t.Sub(a.began)
}

// binAt is the number of the bin that holds t.
func (a *arrivals) binAt(t time.Time) int64 { return binOf(a.into(t)) }

// binOf is the number of the bin that begins d after bin 0 or holds that.
func binOf(d time.Duration) int64 {
	if d < 0 {
		return -1 - int64((-1-d)/loadBin)
	}
	return int64(d / loadBin)
}

// slot is the place of bin n, which may be below 0.
func slot(n int64) int64 { return (n%loadBins + loadBins) % loadBins }

// add spreads what arrived in span until now over the bins.
func (a *arrivals) add(bytes int64, span time.Duration, now time.Time) {
	if span <= 0 || span > maxLoadSpan || bytes < 0 {
		return
	}
	until := a.into(now)
	a.forward(now)
	for begin := until - span; begin < until; {
		n := binOf(begin)
		end := min(time.Duration(n+1)*loadBin, until)
		if a.head-n < loadBins {
			a.bins[slot(n)] += float64(bytes) * (end - begin).Seconds() / span.Seconds()
		}
		begin = end
	}
}

// forward empties the bins up to the one of now.
func (a *arrivals) forward(now time.Time) {
	head := a.binAt(now)
	for n := max(a.head+1, head-loadBins+1); n <= head; n++ {
		a.bins[slot(n)] = 0
	}
	a.head = max(a.head, head)
}

// old reports whether nothing has been added for longer than the bins reach back.
func (a *arrivals) old(now time.Time) bool { return a.binAt(now)-a.head > loadBins }

// mean returns the rate over n bins that end before bin end.
func (a *arrivals) mean(end int64, n int64) float64 {
	sum := 0.0
	for i := end - n; i < end; i++ {
		sum += a.bins[slot(i)]
	}
	return sum / (float64(n) * loadBin.Seconds())
}

// A dip is that far less arrives than in the seconds before.
type dip struct {
	rate   float64 // bytes a second
	steady bool    // it does so at one rate, as over a full link
}

// fallen returns the rate at which packets arrive now if that is far less than it was in the last seconds: the
// mean where it is steady. Lanes that have just lost many packets do not fill a link all the time; then it is
// what arrives in the better half of the time, twice the same.
func (a *arrivals) fallen(now time.Time) (d dip, ok bool) {
	a.forward(now)
	const packet = trainPayload + packetCost
	end, n := a.head+1-loadLate, int64(1)
	rate := a.mean(end, loadParts)
	for rate*float64(n)*loadBin.Seconds() < loadPackets*packet {
		if n *= 2; n > loadPart {
			return dip{}, false // too little to tell, or nothing
		}
		rate = a.mean(end, loadParts*n)
	}
	parts := a.parts(end, n)
	if parts[0] >= loadFallen*a.usual(end-loadParts*n, loadPause*rate) {
		return dip{}, false
	}
	if parts[0]-parts[loadParts-1] <= loadAlike*rate+packet/(float64(n)*loadBin.Seconds()) {
		return dip{rate, true}, true
	}
	parts = a.parts(end, 2*n)
	if parts[0] >= loadFallen*a.usual(end-2*loadParts*n, loadPause*parts[0]) || apart(parts[0], parts[1]) > loadAlike {
		return dip{}, false
	}
	return dip{(parts[0] + parts[1]) / 2, false}, true
}

// parts returns the rates in the last loadParts parts of n bins each before bin end, the highest first.
func (a *arrivals) parts(end, n int64) (rates [loadParts]float64) {
	for k := range rates {
		rates[k] = a.mean(end-int64(k)*n, n)
	}
	slices.SortFunc(rates[:], func(x, y float64) int { return cmp.Compare(y, x) })
	return rates
}

// most returns the highest rate over n bins of those from bin begin to bin end.
func (a *arrivals) most(begin, end, n int64) (rate float64) {
	for begin = max(begin, a.head-loadBins+1); end-n >= begin; end-- {
		rate = max(rate, a.mean(end, n))
	}
	return rate
}

// twice returns the highest rate of two times n bins in a row, of those from bin begin to bin end, at which each n brought as much at least. What a host told late
// counts where it was told, beside what came then, and is missing before: one n alone would have brought both.
func (a *arrivals) twice(begin, end, n int64) (rate float64) {
	for begin = max(begin, a.head-loadBins+1); end-2*n >= begin; end-- {
		rate = max(rate, min(a.mean(end, n), a.mean(end-n, n)))
	}
	return rate
}

// usual returns the highest rate over loadUsual bins before bin end, 0 where that is too long ago. It looks back no further than to where less than
// pause arrived.
func (a *arrivals) usual(end int64, pause float64) (rate float64) {
	for ; end-loadUsual > a.head-loadBins && a.mean(end, pauseBins) >= pause; end-- {
		rate = max(rate, a.mean(end, loadUsual))
	}
	return rate
}

// paused reports whether less than pause arrives now.
func (a *arrivals) paused(pause float64, now time.Time) bool {
	a.forward(now)
	return a.mean(a.head+1-loadLate, pauseBins) < pause
}

// onWire converts the map's unit to bytes a second of IP packets.
func onWire(user float64) float64 { return user * (trainPayload + packetCost) / userPayload }

// carried converts bytes a second of IP packets to the map's unit.
func carried(ip float64) float64 { return ip * userPayload / (trainPayload + packetCost) }
