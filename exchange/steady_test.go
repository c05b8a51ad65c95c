package exchange

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// TestSteady: what a site's hosts send to another goes without windows where the queue has room for all of it, or windows could hold back nothing, it is known what the link carries and nobody could help if that fell; where nothing is lost on the way and no other exchange
// runs; and not what others were to deliver, of which answers tell that it has come; at such a rate that the last of it stands in the queue for briefQueue.
func TestSteady(t *testing.T) {
	const mates, rate = 4, 1.25e5
	clean := Path{RTT: 20 * time.Millisecond, Rate: rate, Capacity: rate}
	lossy := clean
	lossy.Loss = 0.01
	held := clean
	held.Rate = rate / 8
	filled := clean
	filled.Rate = rate / mates
	far, seen := clean, clean
	far.RTT = 400 * time.Millisecond // the least windows of four hosts take 0.16 s
	seen.AtLeast = true
	some := clean
	some.Loss = lateLoss / 2
	risky := clean
	risky.Loss = 0.005
	most := int64(-math.Log(1-steadyRisk)/risky.Loss) * (leastSlice / 2) // whose packets are as likely as that to be all there
	trips := int64(steadyTrips * rate * far.RTT.Seconds())
	slowed := lossy
	slowed.Rate = rate / 8 // by its losses
	long := int64(rate * steadyTime.Seconds())
	fast := Path{RTT: time.Millisecond, Rate: 100 * rate, Capacity: 100 * rate} // a queue as long as it may be in time has no room there
	queued := func(all int64) float64 { return 1 / (1 - briefQueue.Seconds()*rate/float64(all)) }
	slow := int64(rate / 8 * briefQueue.Seconds()) // what one flow carries there in briefQueue
	for _, tt := range []struct {
		name  string
		block int64
		path  Path
		alone bool
		want  float64 // of a host's part of the link; 0: it is not brief
	}{
		{"half a second", briefBytes / 8, clean, true, queued(briefBytes / 2)},
		{"less than the queue", 100, clean, true, maxHaste},
		{"all that there is room for", briefBytes / mates, far, true, queued(briefBytes)},
		{"what leaves before much is heard", trips / mates, far, true, queued(trips)},
		{"more, far away", trips/mates + 1, far, true, 0},
		{"more", briefBytes / 2, clean, true, queued(mates * briefBytes / 2)},
		{"all that others could not help with", long / mates, clean, true, queued(long)},
		{"more over a fast link", briefBytes, fast, true, 100 / (1 - 1./(2*mates))},
		{"longer", long/mates + 1, clean, true, 0},
		{"more over what may carry more", briefBytes / 2, seen, true, 0},
		{"more over a way that loses a little", briefBytes / 2, some, true, 0},
		{"what is likely to get there", most / mates, risky, true, queued(most)},
		{"what is not", (most + leastSlice/2) / mates, risky, true, 0},
		{"as little as there is room for", briefBytes / mates, some, true, queued(briefBytes)},
		{"nothing", 0, clean, true, 0},
		{"little, and losses", 100, lossy, true, maxHaste},
		{"little where losses hold a flow", slow + 1, slowed, true, maxHaste},
		{"losses", briefBytes / mates, lossy, true, 0},
		{"what one flow carries in no time", slow, held, true, maxHaste},
		{"what is held", slow + 1, held, true, 0},
		{"what is held, where a flow for each fills the link", briefBytes / 8, filled, true, queued(briefBytes / 2)},
		{"more of it", briefBytes / 2, filled, true, queued(mates * briefBytes / 2)},
		{"beside others", 100, clean, false, 0},
		{"over an unknown way", 100, Path{}, true, 0},
	} {
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Matrix: make([][]int64, mates+1)}
		for i := range mates + 1 {
			p.Hosts = append(p.Hosts, string("aaaab"[i])+fmt.Sprint(i))
			p.Matrix[i] = make([]int64, mates+1)
		}
		for i := range mates {
			p.Matrix[i][mates] = tt.block
			p.Transfers = append(p.Transfers, plan.Transfer{ID: i, Src: i, Dst: mates, Phase: -1, Blocks: []plan.Block{{Origin: i, Dest: mates}}})
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		x := &run{eng: &Engine{cfg: Config{Self: p.Hosts[0], Site: siteOfTest, Path: func(string) Path { return tt.path }}}, part: parts[0], start: time.Now(), alone: tt.alone}
		x.sites = sitesOf(x.part.Hosts, x.eng.cfg.Self, siteOfTest)
		to := &peer{name: p.Hosts[mates], sends: []*send{{}}}
		x.peers = map[string]*peer{to.name: to}
		x.lanesTo(to)
		if to.steady != (tt.want > 0) || to.steady && x.tapOf(to, to.path, "") != nil {
			t.Errorf("%s: steady %v, path %+v", tt.name, to.steady, to.path)
			continue
		}
		if to.open, to.lanes, to.ctx = 1, 1, t.Context(); to.steady && x.reopen(mates) != nil {
			t.Errorf("%s: what others were to deliver goes there, where nobody says what has come", tt.name)
		}
		x.peers = nil // to is beside the plan
		if _, steady := x.goesSteady(to); steady {
			t.Errorf("%s: what others were to deliver goes steadily", tt.name)
		}
		if got := to.opening / (rate / mates); to.steady && math.Abs(got/tt.want-1) > 0.001 {
			t.Errorf("%s: at %.3f times its part of the link, want %.3f", tt.name, got, tt.want)
		}
	}
}

// TestOneDoes: where the way back is slower and has as much to carry, what each flow gets is enough, and goes steadily over one lane each; and not where that would end last, nor
// where a third site may wait for it.
func TestOneDoes(t *testing.T) {
	const rate = 4e5 // of a flow from a to b, which carries three
	way := Path{RTT: 10 * time.Millisecond, Rate: rate, Capacity: 3 * rate, Back: rate / 2}
	change := func(f func(*Path)) Path { p := way; f(&p); return p }
	pairs := [][2]int{{0, 2}, {2, 0}, {1, 3}, {3, 1}}
	for _, tt := range []struct {
		name  string
		block int64
		path  Path
		hosts []string
		want  float64 // at which this host, one of two, sends at least; 0: not steadily
		pairs [][2]int
	}{
		{"a slow way back", 20 << 10, way, nil, rate, pairs},
		{"much", 200 << 10, way, nil, rate, pairs},
		{"for so long that others could help", 2 << 20, way, nil, 0, pairs},
		{"a way back that is as fast", 20 << 10, change(func(p *Path) { p.Back = 3 * rate }), nil, 0, pairs},
		{"one that is fast enough for it to end last", 20 << 10, change(func(p *Path) { p.Back = 1.6 * rate }), nil, 0, pairs},
		{"one that nobody knows", 20 << 10, change(func(p *Path) { p.Back = 0 }), nil, 0, pairs},
		{"losses that hold flows", 20 << 10, change(func(p *Path) { p.Loss = lateLoss }), nil, 0, pairs},
		{"a third site", 20 << 10, way, []string{"c0"}, 0, pairs},
		// One host of each site has all: one lane takes longer than what comes back.
		{"leaders", 20 << 10, change(func(p *Path) { p.Back = 0.9 * rate }), nil, 0, pairs[:2]},
	} {
		p := &plan.Plan{Collective: plan.Alltoall, Algorithm: "test", Hosts: append([]string{"a0", "a1", "b0", "b1"}, tt.hosts...)}
		for range p.Hosts {
			p.Matrix = append(p.Matrix, make([]int64, len(p.Hosts)))
		}
		for i, pair := range tt.pairs {
			p.Matrix[pair[0]][pair[1]] = tt.block
			p.Transfers = append(p.Transfers, plan.Transfer{ID: i, Src: pair[0], Dst: pair[1], Phase: -1, Blocks: []plan.Block{{Origin: pair[0], Dest: pair[1]}}})
		}
		parts, err := Split(p, ID{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		Weigh(parts, siteOfTest)
		x := &run{eng: &Engine{cfg: Config{Self: "a0", Site: siteOfTest, Path: func(string) Path { return tt.path }}}, part: parts[0], start: time.Now(), alone: true}
		x.sites = sitesOf(x.part.Hosts, "a0", siteOfTest)
		to := &peer{name: "b0", sends: []*send{{}}}
		x.peers = map[string]*peer{to.name: to}
		to.path = tt.path
		got, steady := x.goesSteady(to)
		if steady != (tt.want > 0) || steady && (got < tt.want || got > 2*tt.want) {
			t.Errorf("%s: steadily %v, at %.2f of what a flow gets", tt.name, steady, got/rate)
		}
	}
}

// TestSteadySpills: what goes without a window goes in whole packets: a chunk goes on in the next ones, and no checksum has one of its own.
func TestSteadySpills(t *testing.T) {
	s := &sizesStream{}
	x := &run{part: &Part{Hosts: hostNames(2), Chunk: 4096}, eng: &Engine{cfg: Config{Self: "host0", Site: func(h string) string { return h }}}}
	x.sites = sitesOf(x.part.Hosts, "host0", x.eng.cfg.Site)
	p := &peer{steady: true, opening: math.Inf(1), ctx: t.Context()}
	b := x.batchOf(p, &outLane{stream: s})
	if b.room != leastSlice || !b.spills {
		t.Fatalf("%d bytes are gathered, spills %v", b.room, b.spills)
	}
	memory := memory{pieces: [][]byte{make([]byte, 4096)}, starts: []int64{0}}
	sum := 0
	for _, size := range []int64{2048, 2048, 100, 4096, 2700, 1, 4000} {
		blk := &block{Block: Block{Size: size}, chunks: 1, have: newBitmap(2), recv: &recv{}}
		blk.have.set(0)
		w := &work{kind: frameChunk, sb: &sendBlock{b: blk, s: &send{Send: &Send{}, to: p}, sent: newBitmap(2)}, mem: memory}
		if err := x.writeChunk(p, b.l, b, w); err != nil {
			t.Fatal(err)
		}
		if err := b.sum(&work{kind: frameSum, sb: w.sb, index: 1}); err != nil {
			t.Fatal(err)
		}
		sum += int(size)
	}
	if err := b.flush(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, n := range s.sizes {
		total += n
		if n > leastSlice || i < len(s.sizes)-1 && n < leastSlice-maxFrame {
			t.Errorf("writes of %d bytes, want full ones of %d but for the last", s.sizes, leastSlice)
			break
		}
	}
	if total < sum || total > sum+7*wrapping {
		t.Errorf("%d bytes for chunks of %d", total, sum)
	}
}

// A sizesStream notes the sizes of writes.
type sizesStream struct {
	fakeStream
	sizes []int
}

func (s *sizesStream) Write(p []byte) (int, error) {
	s.sizes = append(s.sizes, len(p))
	return len(p), nil
}
