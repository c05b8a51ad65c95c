package netmap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Two maps that differ in any way are alike after one round, at a price that follows the
// differences and not the size.
func TestRoundFindsEveryDifference(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 21))
		n := 1 + rng.IntN(300)
		a, b := newMap(t, "a"), newMap(t, "b")
		news := 0
		for i := range n {
			m := newMap(t, fmt.Sprintf("host%d", i))
			for k := range 1 + rng.IntN(3) {
				now := t0.Add(time.Duration(k) * time.Second)
				if err := m.Set(m.cfg.Self, "x", bandwidthOf(float64(1+k), now), now); err != nil {
					t.Fatal(err)
				}
				flush(t, m, now)
			}
			all := batchesOf(m, m.cfg.Self)
			var atA, atB int
			switch rng.IntN(20) {
			case 0:
				atA, atB = len(all), 0
			case 1:
				atA, atB = 0, len(all)
			case 2:
				atA, atB = rng.IntN(len(all)+1), rng.IntN(len(all)+1)
			default:
				atA, atB = len(all), len(all)
			}
			news += max(atA, atB) - min(atA, atB)
			for _, x := range []struct {
				m *Map
				n int
			}{{a, atA}, {b, atB}} {
				if _, err := x.m.merge("z", all[:x.n], t0); err != nil {
					t.Fatal(err)
				}
			}
		}
		a.hot, b.hot = nil, nil
		taken, bytes := exchange(t, a, b, t0, t0)
		if taken != news || a.root != b.root || a.root != sumOf(a) {
			t.Fatalf("seed %d: %d batches of %d, sums %x %x", seed, taken, news, a.root, b.root)
		}
		if limit := 100 + 450*news; bytes > limit {
			t.Errorf("seed %d: %d bytes for %d batches of %d reporters", seed, bytes, news, n)
		}
		a.hot, b.hot = nil, nil // news that crossed go once more
		if _, bytes := exchange(t, b, a, t0, t0); bytes > 14 {
			t.Errorf("seed %d: equal maps cost %d bytes", seed, bytes)
		}
	}
}

// A map of 1,000 hosts does not go in one message; what is cut off follows.
func TestLargeStateIsCut(t *testing.T) {
	a, b := newMap(t, "a"), newMap(t, "b")
	for i := range 400 {
		m := newMap(t, fmt.Sprintf("host%d", i))
		for k := range 60 {
			if err := m.Set(m.cfg.Self, fmt.Sprintf("host%d", k+1000), bandwidthOf(float64(1+k), t0), t0); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, m, t0)
		if _, err := a.merge("z", batchesOf(m, m.cfg.Self), t0); err != nil {
			t.Fatal(err)
		}
	}
	a.hot = nil
	rounds := 0
	for ; a.root != b.root && rounds < 30; rounds++ {
		r, request := a.Start("b", t0)
		for request != nil {
			if len(request) > MaxMessage {
				t.Fatalf("a request of %d bytes", len(request))
			}
			answer, _, fault, err := b.Answer("a", request, t0)
			if fault != nil || err != nil {
				t.Fatal(fault, err)
			}
			if request, fault, err = r.Next(answer, t0); fault != nil || err != nil {
				t.Fatal(fault, err)
			}
		}
		if want := a.root != b.root; r.Cut != want {
			t.Errorf("round %d: cut %v, want %v", rounds, r.Cut, want)
		}
	}
	if rounds < 5 || rounds > 15 {
		t.Errorf("%d rounds", rounds)
	}
}

// A host that has come later does not know those that had died by then, and takes nothing of them. It is offered that once, not in every round, and what it does take
// goes meanwhile, though it comes last in the alphabet.
func TestRefusedReportsAreOfferedOnce(t *testing.T) {
	old, young := newMap(t, "old"), newMap(t, "young")
	young.cfg.Member = func(host string) bool { return !strings.HasPrefix(host, "dead") }
	report := func(name string, now time.Time) {
		t.Helper()
		m := newMap(t, name)
		for k := range 60 {
			if err := m.Set(name, fmt.Sprintf("host%d", k), bandwidthOf(float64(1+k), now), now); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, m, now)
		if _, err := old.merge("z", batchesOf(m, name), now); err != nil {
			t.Fatal(err)
		}
		old.hot = nil
	}
	const dead = 100
	for i := range dead {
		report(fmt.Sprint("dead", i), t0)
	}
	report("late", t0)
	meet := func() (cut bool, bytes int) {
		t.Helper()
		r, request := old.Start("young", t0)
		for request != nil {
			answer, _, fault, err := young.Answer("old", request, t0)
			if fault != nil || err != nil {
				t.Fatal(fault, err)
			}
			bytes += len(request) + len(answer)
			if request, fault, err = r.Next(answer, t0); fault != nil || err != nil {
				t.Fatal(fault, err)
			}
		}
		return r.Cut, bytes
	}
	rounds := 1
	for cut, _ := meet(); cut && rounds < 20; rounds++ {
		cut, _ = meet()
	}
	if young.reports["late"] == nil || rounds > 10 {
		t.Fatalf("after %d rounds that offer what is not taken: %v", rounds, young.Reporters())
	}
	if cut, bytes := meet(); cut || bytes > 5000 {
		t.Errorf("a round in which nothing is to be had: %d bytes, cut %v", bytes, cut)
	}
	report("late", t0.Add(time.Second))
	meet()
	if got, want := young.reports["late"].tip().version, old.reports["late"].tip().version; got != want {
		t.Errorf("version %d, want the new one %d", got, want)
	}
	young.cfg.Member = nil // it has heard of them
	report("dead7", t0.Add(time.Second))
	if meet(); young.reports["dead7"] == nil {
		t.Error("what a host said after it had been refused is not offered")
	}
	for range 20 {
		exchange(t, young, old, t0, t0)
	}
	if young.root != old.root {
		t.Errorf("of %d reporters young has %d", len(old.reports), len(young.reports))
	}
}

// What is remembered of offers is bounded.
func TestOffersAreBounded(t *testing.T) {
	m := newMap(t, "a")
	for i := range 3 * maxOffered {
		m.note([]offer{{peer: "b", reporter: fmt.Sprint(i)}})
	}
	if n := len(m.offered); n == 0 || n > maxOffered {
		t.Errorf("%d offers", n)
	}
}

// What is learned of links for the first time goes together, a batch in so long as the number of reporters says, and
// Held says when; what has changed since takes it along at once. A host that starts beside 99 others would else tell
// all of them of each of its links alone.
func TestFirstNewsGoTogether(t *testing.T) {
	a := newMap(t, "a")
	for i := range 99 {
		m := newMap(t, fmt.Sprintf("host%d", i))
		if err := m.Set(m.cfg.Self, "a", bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
		flush(t, m, t0)
		if _, err := a.merge("z", batchesOf(m, m.cfg.Self), t0); err != nil {
			t.Fatal(err)
		}
	}
	const span, links = 3 * time.Second, 30
	var told []time.Duration
	step := func(now time.Time) {
		t.Helper()
		urgent, err := a.Publish(now, true)
		if err != nil {
			t.Fatal(err)
		}
		if urgent {
			told = append(told, now.Sub(t0))
		}
	}
	set := func(i int, mbps float64, now time.Time) {
		t.Helper()
		if err := a.Set("a", fmt.Sprintf("host%d", i), bandwidthOf(mbps, now), now); err != nil {
			t.Fatal(err)
		}
	}
	now := t0
	for i := range links {
		now = t0.Add(span * time.Duration(i) / links)
		set(i, 1, now)
		step(now)
	}
	every := 100 * firstEach
	if n := len(told); n < 3 || n > int(span/every)+1 {
		t.Errorf("told of %d links after %v, want a batch each %v", links, told, every)
	}
	at, last := a.Held(), told[len(told)-1]
	if want := t0.Add(last + every); !at.Equal(want) {
		t.Errorf("the rest is held until %v, want %v", at.Sub(t0), want.Sub(t0))
	}
	n := len(told)
	set(links-1, 1.05, now) // still for the first time
	if step(now); len(told) != n {
		t.Error("it did not wait")
	}
	set(0, 2, now)
	if step(now); len(told) != n+1 || !a.Held().IsZero() {
		t.Errorf("a link that has changed waited for %v", a.Held())
	}
	if weighty, rest, _ := a.unsaid(); len(weighty)+len(rest) > 0 {
		t.Errorf("left over: %v %v", weighty, rest)
	}
	set(links, 1, now)
	step(now)
	if step(a.Held()); len(told) != n+2 || !a.Held().IsZero() {
		t.Error("what was held did not go when it was said to")
	}
}

// News of weight goes at once, a few times; what only confirms waits, the longer the more
// hosts there are; and a swinging link does not flood the others.
func TestPublish(t *testing.T) {
	a := newMap(t, "a")
	now := t0
	set := func(mbps float64) {
		t.Helper()
		if err := a.Set("a", "b", bandwidthOf(mbps, now), now); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(quiet bool) (urgent bool, batches int) {
		t.Helper()
		before := Version(0)
		if r := a.reports["a"]; r != nil {
			before = r.tip().version
		}
		urgent, err := a.Publish(now, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if r := a.reports["a"]; r != nil && r.tip().version != before {
			batches = 1
		}
		return urgent, batches
	}
	set(10)
	if urgent, n := publish(true); !urgent || n != 1 || !a.Hot() {
		t.Errorf("a first measurement: %v, %d batches", urgent, n)
	}
	if urgent, n := publish(false); urgent || n != 0 {
		t.Errorf("nothing new: %v, %d", urgent, n)
	}
	now = now.Add(time.Second)
	set(10.5)
	if urgent, n := publish(false); urgent || n != 0 {
		t.Errorf("5 %% more: %v, %d", urgent, n)
	}
	if e, _ := a.Lookup("a", "b", now); e.Bandwidth != 10.5*Mbps {
		t.Error("a does not believe itself at once")
	}
	now = now.Add(refreshLeast)
	if urgent, n := publish(true); urgent || n != 0 {
		t.Errorf("5 %% more, quiet: %v, %d", urgent, n)
	}
	if urgent, n := publish(false); urgent || n != 1 {
		t.Errorf("5 %% more, a minute later: %v, %d", urgent, n)
	}
	for range rumourSpread(1) + farPartners {
		if !a.Hot() {
			t.Error("the news cooled down too early")
		}
		a.Start("b", now)
	}
	if a.Hot() {
		t.Error("the news never cools down")
	}
	// A link that swings between 1 and 10 every 100 ms for a minute.
	sent := 0
	for i := range 600 {
		now = now.Add(100 * time.Millisecond)
		set(1 + 9*float64(i%2))
		_, n := publish(false)
		sent += n
	}
	if most := urgentBurst + 60 + 2; sent > most || sent < urgentBurst {
		t.Errorf("%d batches in a minute, want %d to %d", sent, urgentBurst, most)
	}
	if n := refreshEvery(1000); n != 2000*time.Second {
		t.Errorf("with 1,000 reporters confirmations come every %v", n)
	}
}

func TestMaterial(t *testing.T) {
	a := bandwidthOf(10, t0)
	a.Known |= FieldLatency | FieldLoss | FieldCapacity | FieldLanes
	a.Latency, a.Loss, a.Capacity, a.Lanes = 10*time.Millisecond, 0.01, 40*Mbps, 4
	for _, tt := range []struct {
		name   string
		change func(*Estimate)
		want   bool
	}{
		{"nothing", func(*Estimate) {}, false},
		{"age", func(e *Estimate) { e.Measured = t0.Add(time.Hour) }, false},
		{"9 % more", func(e *Estimate) { e.Bandwidth *= 1.09 }, false},
		{"11 % less", func(e *Estimate) { e.Bandwidth *= 0.89 }, true},
		{"11 % less, but they spread", func(e *Estimate) { e.Bandwidth *= 0.89; e.Spread = 0.2 }, false},
		{"half, and they spread", func(e *Estimate) { e.Bandwidth *= 0.5; e.Spread = 9 }, true},
		{"capacity", func(e *Estimate) { e.Capacity *= 2 }, true},
		{"latency by 0.5 ms", func(e *Estimate) { e.Latency += 500 * time.Microsecond }, false},
		{"latency by 2 ms", func(e *Estimate) { e.Latency += 2 * time.Millisecond }, true},
		{"variation", func(e *Estimate) { e.Known |= FieldVariation; e.Variation = time.Second }, false},
		{"loss a little", func(e *Estimate) { e.Loss = 0.012 }, false},
		{"loss much", func(e *Estimate) { e.Loss = 0.03 }, true},
		{"loss much, of a few packets", func(e *Estimate) { e.Loss, e.LossOf = 0.03, 100 }, false},
		{"nothing lost any more", func(e *Estimate) { e.Loss, e.LossOf = 0, 100 }, true},
		{"lanes", func(e *Estimate) { e.Lanes = 9 }, true},
		{"a field less", func(e *Estimate) { e.Known &^= FieldLatency }, true},
	} {
		b := a
		tt.change(&b)
		if got := material(a, b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	unlost, none, some := bandwidthOf(10, t0), bandwidthOf(10, t0), bandwidthOf(10, t0)
	none.Known, some.Known = none.Known|FieldLoss, some.Known|FieldLoss
	none.LossOf, some.LossOf, some.Loss = 400, 4000, 0.001
	if material(unlost, none) || !material(unlost, some) || !material(some, unlost) {
		t.Error("a loss that is known for the first time, or no more, is news of weight if something is lost, and else not")
	}
}

// Who is to tell others at once is woken, and who has nothing but confirmations is not.
func TestWeighty(t *testing.T) {
	m := newMap(t, "a")
	set := func(mbps float64, now time.Time) {
		t.Helper()
		if err := m.Set("a", "b", bandwidthOf(mbps, now), now); err != nil {
			t.Fatal(err)
		}
	}
	set(10, t0)
	if !m.Weighty("a", "b") {
		t.Error("the first measurement is no news of weight")
	}
	if _, err := m.Publish(t0.Add(time.Second), false); err != nil {
		t.Fatal(err)
	}
	moves, epoch := m.Moves(), m.Epoch()
	set(10.1, t0.Add(2*time.Second))
	if m.Weighty("a", "b") || m.Moves() != moves || m.Epoch() == epoch {
		t.Errorf("1 %% more is news of weight: %d moves, were %d", m.Moves(), moves)
	}
	set(20, t0.Add(3*time.Second))
	if !m.Weighty("a", "b") || m.Moves() != moves+1 {
		t.Errorf("twice as much is no news of weight: %d moves, were %d", m.Moves(), moves)
	}
	if m.Weighty("b", "c") || m.Weighty("b", "a") {
		t.Error("what this host has not measured is news of it")
	}
}

func TestMalformedMessages(t *testing.T) {
	m := newMap(t, "a")
	if err := m.Set("a", "b", bandwidthOf(1, t0), t0); err != nil {
		t.Fatal(err)
	}
	flush(t, m, t0)
	for _, in := range [][]byte{
		nil, {requestForm}, {requestForm, 9}, {1, 2, 3}, {requestForm, opHello}, {requestForm, opHello, 0, 0, 0, 0, 0, 0, 0, 0},
		{requestForm, opHello, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 3},
		{requestForm, opNodes, 1, 5, 0, 0}, {requestForm, opNodes, 1, 0, 0, 0}, {requestForm, opNodes, 1, 1, 0, 1},
		{requestForm, opNodes, 2, 1, 0x10, 0, 1, 0x10, 0}, {requestForm, opNodes, 2, 1, 0x10, 0, 2, 0x20, 0},
		{requestForm, opSwap, 2, 1, 'a', 0, 1, 'a', 0, 0}, {requestForm, opSwap, 1, 0, 0, 0}, {requestForm, opSwap, 0, 0, 1},
	} {
		if _, _, _, err := m.Answer("peer", in, t0); !errors.Is(err, ErrMalformed) {
			t.Errorf("%x: %v", in, err)
		}
	}
	for _, in := range [][]byte{nil, {answerForm}, {answerForm, 0}, {answerForm, 0, 1, 7}, {answerForm, 0, 0, 1, 1, 0}, {answerForm, 0, 0, 0, 1}, {requestForm, 0, 1}} {
		r, _ := m.Start("peer", t0)
		if _, _, err := r.Next(in, t0); !errors.Is(err, ErrMalformed) {
			t.Errorf("answer %x: %v", in, err)
		}
	}
	if w := m.Warnings(t0); len(w) != 1 {
		t.Errorf("warnings %q", w)
	}
}

func FuzzAnswer(f *testing.F) {
	seedMap := func(t testing.TB, self string) *Map {
		m := newMap(t, self)
		for i := range 9 {
			if err := m.Set(self, fmt.Sprintf("h%d", i), bandwidthOf(float64(i+1), t0), t0); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, m, t0)
		return m
	}
	a := seedMap(f, "a")
	for _, q := range [][]byte{
		appendBatches(appendUint64([]byte{requestForm, opHello}, 7), a.reports["a"].chain),
		appendNodes([]byte{requestForm, opNodes}, []node{{1, 0x1000}, {1, 0x2000}}),
		appendBatches(appendWants([]byte{requestForm, opSwap}, []want{{"b", 0}, {"c", 7}}), a.reports["a"].chain),
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m := seedMap(t, "b")
		answer, _, _, err := m.Answer("x", in, t0)
		if err != nil {
			return
		}
		if m.root != sumOf(m) || len(answer) > MaxMessage {
			t.Fatalf("sum %x, counted anew %x, %d bytes", m.root, sumOf(m), len(answer))
		}
		if _, taken, _, err := m.Answer("x", in, t0); err != nil || taken != 0 {
			t.Fatalf("the same once more: %d taken, %v", taken, err)
		}
	})
}

func FuzzRoundNext(f *testing.F) {
	f.Add([]byte{answerForm, 0, 1})
	f.Add(appendTips([]byte{answerForm, 0, 0, 1}, []want{{"b", 5}, {"c", 1 << 50}}))
	sums := []byte{answerForm, 0, 0, 0}
	for i := range fanout {
		sums = appendUint32(sums, uint32(i))
	}
	f.Add(sums)
	f.Fuzz(func(t *testing.T, in []byte) {
		m := newMap(t, "a")
		if err := m.Set("a", "b", bandwidthOf(1, t0), t0); err != nil {
			t.Fatal(err)
		}
		flush(t, m, t0)
		r, _ := m.Start("peer", t0)
		for range 9 {
			if request, _, err := r.Next(in, t0); err != nil || request == nil {
				return
			}
		}
		t.Fatalf("no end with %x", in)
	})
}

// What is parsed is written again, byte for byte where it is canonical, and value for value.
func FuzzParseBatch(f *testing.F) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 6))
		b := &batch{reporter: "a", version: versionAt(t0), credential: []byte("c")}
		for i := range 5 {
			e := randomEstimate(rng)
			b.entries = append(b.entries, says(fmt.Sprintf("host%d", i), kind(i%2), e.rounded()))
		}
		if seed == 1 {
			b.prev, b.credential = b.version-9, nil
			b.entries = append(b.entries, entry{peer: peer{"site", overhead}, model: testModel(f)})
		}
		if err := b.encode(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.raw)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		b, rest, err := readBatch(in)
		if err != nil || rest() != nil {
			return
		}
		b.judge(t0, time.Minute)
		again := *b
		if err := again.encode(); err != nil {
			if len(in) > maxBatchBytes/2 {
				return // longer names of numbers may not fit
			}
			t.Fatalf("read, but cannot be written: %v", err)
		}
		c, rest, err := readBatch(again.raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := rest(); err != nil {
			t.Fatal(err)
		}
		if c.reporter != b.reporter || c.version != b.version || c.prev != b.prev || !reflect.DeepEqual(c.entries, b.entries) && len(b.entries) > 0 {
			t.Fatalf("\n%+v\n%+v", b, c)
		}
	})
}

// A batch comes back as it was, and no prefix of it is taken for a shorter one.
func TestBatchRoundTrip(t *testing.T) {
	if raceDetector {
		t.Skip("arithmetic: run without the race detector, which multiplies its CPU time by ten")
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := &batch{reporter: "reporter", version: versionAt(t0)}
		if rng.IntN(2) == 0 {
			b.prev = b.version - 1 - Version(rng.Uint64N(1e9))
		} else {
			b.credential = make([]byte, rng.IntN(600))
		}
		for i := range rng.IntN(40) {
			e := randomEstimate(rng)
			b.entries = append(b.entries, says(fmt.Sprintf("site%d-host%d", i%3, i), kind(rng.IntN(2)), e.rounded()))
		}
		if rng.IntN(3) == 0 {
			b.entries = append(b.entries, entry{peer: peer{"", overhead}, model: testModel(t)})
		}
		for i := range b.entries {
			b.entries[i].version = b.version
		}
		if err := b.encode(); err != nil {
			t.Fatal(err)
		}
		back, rest, err := readBatch(b.raw)
		if err == nil {
			err = rest()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if back.version != b.version || back.prev != b.prev || string(back.credential) != string(b.credential) ||
			len(back.entries) != len(b.entries) || len(b.entries) > 0 && !reflect.DeepEqual(back.entries, b.entries) {
			t.Fatalf("seed %d:\n%+v\n%+v", seed, back, b)
		}
		for i := range b.raw {
			if _, rest, err := readBatch(b.raw[:i]); err == nil && rest() == nil {
				t.Fatalf("seed %d: the first %d bytes are a batch, too", seed, i)
			}
		}
	}
}

// A row of 16 pairs and what its batch costs.
func TestBatchBytes(t *testing.T) {
	g := newSimGrid(t, 20, 3, 1)
	sum, rows := 0, 0
	for _, h := range g.hosts {
		r := h.m.reports[h.m.cfg.Self]
		sum += len(r.tip().raw) - len(r.tip().credential)
		rows += r.rows
	}
	each := float64(sum) / float64(rows)
	t.Logf("%.1f bytes an entry with seven fields", each)
	if each > 40 {
		t.Errorf("%.1f bytes an entry", each)
	}
}
