package netmap

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// What one message may carry. A whole map of 1,000 hosts is 1 MB, too much for a slow link
// at once: a round that is cut short says so and is followed by another. 64 KiB take 5 s of
// a link of 0.1 Mbit/s.
const (
	// MaxMessage bounds a message of an exchange in bytes.
	MaxMessage = 2 << 20
	swapBytes  = 64 << 10
	hotBytes   = 16 << 10
	maxHot     = 256
	rumourAge  = 30 * time.Second // what is older is no news
)

// A rumour is a batch with news of weight, which goes along with the next exchanges
// whether the peer has it or not: rumour mongering, backed up by anti-entropy (Demers et
// al., "Epidemic Algorithms for Replicated Database Maintenance", PODC 1987, section 1.4).
type rumour struct {
	b    *batch
	left int
}

// rumourSpread is how many exchanges each of n hosts tells of a piece of news: enough that
// few are left to hear of it in their own time.
func rumourSpread(n int) int { return 1 + (bits.Len(uint(n))+1)/2 }

// addHot makes b go ahead with the next exchanges if it is young, and with so many more of them.
func (m *Map) addHot(b *batch, more int, now time.Time) {
	if now.Sub(time.UnixMicro(int64(b.version))).Abs() > rumourAge {
		return
	}
	if len(m.hot) >= maxHot {
		m.hot = m.hot[1:]
	}
	m.hot = append(m.hot, rumour{b, rumourSpread(len(m.reports)) + more})
}

// Hot reports whether there is news of weight that should not wait for the next round.
func (m *Map) Hot() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.hot) > 0
}

// takeHot returns what news to send with the next message, the newest last.
func (m *Map) takeHot() []*batch {
	var out []*batch
	size := 0
	kept := m.hot[:0]
	for _, h := range m.hot {
		if m.reports[h.b.reporter] == nil { // forgotten
			continue
		}
		if size < hotBytes {
			size += len(h.b.raw) + len(h.b.sig)
			out = append(out, h.b)
			h.left--
		}
		if h.left > 0 {
			kept = append(kept, h)
		}
	}
	clear(m.hot[len(kept):])
	m.hot = kept
	return out
}

// A Round is one exchange as its initiator sees it. It is not safe for concurrent use.
type Round struct {
	m     *Map
	peer  string
	swaps bool // the request for batches has gone out
	nodes []node
	wants []want
	gives []want
	given []offer // that have gone out

	// Taken counts the batches that the peer had and this map did not; Cut is whether
	// more than fitted was to be exchanged.
	Taken int
	Cut   bool
}

// A want is a reporter, and up to which of its versions one side has read.
type want struct {
	name  string
	since Version
}

// maxOffered bounds what is remembered of offers.
const maxOffered = 4096

// An offer is what a peer was given of a reporter. If it has read no further the next time it does not take it: it does not know the host, which died before
// it came. It is not given the same again, and asks for it by itself should it hear of the host.
type offer struct {
	peer, reporter string
	since, tip     Version // from where to where
}

// note remembers what was given.
func (m *Map) note(given []offer) {
	for _, o := range given {
		if len(m.offered) >= maxOffered {
			clear(m.offered)
		}
		m.offered[[2]string{o.peer, o.reporter}] = o
	}
}

func byName(a, b want) int { return cmp.Compare(a.name, b.name) }

// Start begins an exchange with peer and returns the first request. The caller carries it
// to the peer's [Map.Answer] and the answer to [Round.Next], until that returns nil.
//
//	request = 4 op …   0: root batches  1: count { node }  2: wants batches
//	answer  = 5 …      0: batches same  1: batches count { 0 sums | 1 tips }  2: more batches
//	batches = count { raw sig }   node = depth prefix
//	wants   = count { name since }   tips = count { name newest-version } newest
//
// Equal maps cost one request of 11 bytes and an answer of 3.
func (m *Map) Start(peer string, now time.Time) (*Round, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	hot := m.takeHot()
	return &Round{m: m, peer: peer, nodes: []node{{}}}, appendBatches(appendUint64([]byte{requestForm, opHello}, m.root), hot)
}

// Next takes the peer's answer and returns the next request, nil when the round is over.
// An error ends the round. Faults in what the peer has passed on do not: they are remembered
// for [Map.Warnings], and returned as fault.
func (r *Round) Next(answer []byte, now time.Time) (request []byte, fault, err error) {
	rd := &wireReader{b: answer}
	rd.form(answerForm)
	switch {
	case r.swaps:
		r.Cut = rd.number(1) == 1 || r.Cut
		batches, err := rd.batches()
		if err == nil {
			err = rd.end()
		}
		if err != nil {
			return nil, nil, r.m.blame(r.peer, now, fmt.Errorf("%w: %w", errMessage, err))
		}
		r.m.mu.Lock()
		r.m.note(r.given)
		r.m.mu.Unlock()
		n, fault := r.m.merge(r.peer, batches, now)
		r.Taken += n
		return nil, fault, nil
	case len(r.nodes) == 1 && r.nodes[0].depth == 0:
		batches, berr := rd.batches()
		if berr == nil {
			n, f := r.m.merge(r.peer, batches, now)
			r.Taken += n
			fault = f
		}
		if rd.number(1) == 1 { // the same, with what both have told each other
			if err := rd.end(); err != nil {
				return nil, fault, r.m.blame(r.peer, now, fmt.Errorf("%w: %w", errMessage, err))
			}
			return nil, fault, nil
		}
	}
	if err := r.descend(rd); err != nil {
		return nil, fault, r.m.blame(r.peer, now, fmt.Errorf("%w: %w", errMessage, err))
	}
	if len(r.nodes) > 0 {
		return appendNodes([]byte{requestForm, opNodes}, r.nodes), fault, nil
	}
	if len(r.wants) == 0 && len(r.gives) == 0 {
		return nil, fault, nil
	}
	r.swaps = true
	request = appendWants([]byte{requestForm, opSwap}, r.wants)
	return appendBatches(request, r.give()), fault, nil
}

// give returns the batches that the peer lacks, as many as fit.
func (r *Round) give() []*batch {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	var out []*batch
	if out, r.Cut = r.m.collect(r.gives); len(out) == 0 {
		return nil
	}
	for _, w := range r.gives { // by name, as out is
		if w.name > out[len(out)-1].reporter {
			break
		}
		if held := r.m.reports[w.name]; held != nil { // else forgotten meanwhile
			r.given = append(r.given, offer{r.peer, w.name, w.since, held.tip().version})
		}
	}
	return out
}

// descend reads the answers about r.nodes: it replaces them by those of their children that
// differ, and notes which reporters either side lacks something of.
func (r *Round) descend(rd *wireReader) error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	mine := r.m.under(r.nodes)
	var next []node
	for i, n := range r.nodes {
		if rd.number(1) == 0 {
			sums := n.sums(mine[i])
			if n.depth >= maxDepth {
				rd.fail("sums below the leaves")
			}
			for k := range fanout {
				if b := rd.fixed(4); b != nil && uint32At(b) != sums[k] {
					next = append(next, n.child(k))
				}
			}
			continue
		}
		theirs := rd.tips()
		if rd.err != nil {
			return rd.err
		}
		seen := make(map[string]Version, len(theirs))
		for _, t := range theirs {
			seen[t.name] = t.since
			var have Version
			if held := r.m.reports[t.name]; held != nil {
				have = held.tip().version
			}
			if t.since > have && r.m.member(t.name) && len(r.wants) < MaxHosts {
				r.wants = append(r.wants, want{t.name, have})
			}
		}
		for _, held := range mine[i] {
			since, tip := seen[held.name], held.tip().version
			if tip > since && r.m.offered[[2]string{r.peer, held.name}] != (offer{r.peer, held.name, since, tip}) {
				r.gives = append(r.gives, want{held.name, since})
			}
		}
	}
	slices.SortFunc(r.gives, byName)
	r.nodes = next
	return rd.end()
}

// Answer answers one request of peer. An error means that the request makes no sense, and
// ends the exchange; fault is as for [Round.Next], and taken counts new batches.
func (m *Map) Answer(peer string, request []byte, now time.Time) (answer []byte, taken int, fault, err error) {
	rd := &wireReader{b: request}
	rd.form(requestForm)
	op := rd.number(opSwap)
	malformed := func(err error) error {
		return m.blame(peer, now, fmt.Errorf("%w: %w", errMessage, err))
	}
	switch op {
	case opHello:
		root := rd.uint64()
		batches, err := rd.batches()
		if err == nil {
			err = rd.end()
		}
		if err != nil {
			return nil, 0, nil, malformed(err)
		}
		m.mu.Lock()
		hot := m.takeHot()
		m.mu.Unlock()
		taken, fault = m.merge(peer, batches, now)
		m.mu.Lock()
		defer m.mu.Unlock()
		answer = appendBatches([]byte{answerForm}, hot)
		if m.root == root {
			return append(answer, 1), taken, fault, nil
		}
		return m.appendNodeAnswers(append(answer, 0), []node{{}}), taken, fault, nil
	case opNodes:
		nodes := rd.nodes()
		if err := rd.end(); err != nil {
			return nil, 0, nil, malformed(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.appendNodeAnswers([]byte{answerForm}, nodes), 0, nil, nil
	default:
		wants := rd.wants()
		batches, err := rd.batches()
		if err == nil {
			err = rd.end()
		}
		if err != nil {
			return nil, 0, nil, malformed(err)
		}
		taken, fault = m.merge(peer, batches, now)
		m.mu.Lock()
		out, cut := m.collect(wants)
		m.mu.Unlock()
		answer = []byte{answerForm, 0}
		if cut {
			answer[1] = 1
		}
		return appendBatches(answer, out), taken, fault, nil
	}
}

// collect returns the batches that somebody lacks who has read as far as wants say, at
// most swapBytes of them, and whether that was not all. The caller holds the lock.
func (m *Map) collect(wants []want) (out []*batch, cut bool) {
	size := 0
	for _, w := range wants {
		r := m.reports[w.name]
		if r == nil {
			continue
		}
		chain := r.chain
		for i, b := range chain { // from where the other stands; from the full one if it stands nowhere
			if b.prev == w.since && i > 0 {
				chain = chain[i:]
				break
			}
		}
		for _, b := range chain {
			if b.version <= w.since {
				break // a chain of its own: the next full batch ends that
			}
			if size += len(b.raw) + len(b.sig); size > swapBytes {
				return out, true
			}
			out = append(out, b)
		}
	}
	return out, false
}

// appendNodeAnswers appends what is known of nodes: the sums of their children or, where
// that is shorter, the reporters' versions. The caller holds the lock.
func (m *Map) appendNodeAnswers(dst []byte, nodes []node) []byte {
	for i, reports := range m.under(nodes) {
		if n := nodes[i]; len(reports) > leafSize && n.depth < maxDepth {
			dst = append(dst, 0)
			for _, s := range n.sums(reports) {
				dst = appendUint32(dst, s)
			}
			continue
		}
		tips := make([]want, len(reports))
		for k, r := range reports {
			tips[k] = want{r.name, r.tip().version}
		}
		slices.SortFunc(tips, byName)
		dst = appendTips(append(dst, 1), tips)
	}
	return dst
}
