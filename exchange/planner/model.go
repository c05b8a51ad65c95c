package planner

import (
	"fmt"
	"math"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/wan"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A model is what forecasts know of the hosts: the network of the flow simulator, and what
// messages cost beside their bytes. All is in seconds and bytes a second. It is made once for
// a problem, serves all its plans, and is for one goroutine.
type model struct {
	net   *plan.Network
	n     int // hosts
	pools int
	// n×n, [from*n+to]. ceiling is what one flow of a pair gets, capacity what several get; nil: a pair is one flow.
	latency, ceiling, capacity []float64
	// send, receive: n×n, LogP's os(1) and or(1): a message keeps its sender and its receiver busy
	// for so long, whatever its size.
	send, receive []float64
	// loss: n×n, the share of packets that the way loses; nil: none does.
	loss []float64
	// header is what a message adds to its bytes on every link, and share what a byte of payload becomes.
	header, share float64
	// crossed: n×n, the trunks on the way from one host to another; nil without trunks.
	crossed [][]int32

	late  bool     // synchronisations have no lead
	ahead bool     // hosts have their parts before they begin
	last  forecast // whose memory the next one uses

	// Of the plan that is looked at: what the lanes of a pair get and what it carries, n×n, and how many pairs of hosts use each pipe for how many bytes.
	rates, moved, piped []float64
	flows               []int32
}

// What a message costs where it is not measured: a write, a packet and two wake-ups at either
// end, and what is in the packet beside payload (IP, UDP, QUIC, the engine's own header, and an
// acknowledgement for every other one). They need not be exact: they tell one message of all bytes from a
// hundred of a few.
const (
	messageTime   = 10e-6 // seconds, each at the sender and the receiver
	messageHeader = 96    // bytes
	// packetBytes is a full packet, headers and all.
	packetBytes = 1308
	// payloadShare is what of a link a byte of payload takes beside what the map's rates leave out already, the headers of
	// full packets: the packet at the end of each chunk that is not full, and the answers of both kinds to what
	// comes the other way (wire over payload is 1.10 across sites and 1.08 on switches, 1.048 of that headers).
	payloadShare = 1.05
	// maxLanes is how many lanes the engine opens to a host.
	maxLanes = 63
	// openingWindow is how many bytes a lane sends before the first answer: 32 packets, quic-go's initial window. It
	// doubles with each round trip (RFC 9002, section 7.3.1).
	openingWindow = 32 * 1280
	// What each host is sent before it can begin: its part of the plan, with so many bytes for each transfer that it takes part
	// in (0.6 KB for 20 hosts, encoded twice), and so many beside.
	partTransfer, partHead = 24, 120
	// leastRTT is the round trip from which that is felt, in seconds.
	leastRTT = 2e-3
)

// newModel returns the model of hosts on net. With a nil snap messages cost nothing, as in the simulator.
func newModel(net *plan.Network, snap *netmap.Snapshot) *model {
	n := len(net.Hosts)
	m := &model{
		net: net, n: n, pools: net.Pools(),
		latency: make([]float64, n*n), ceiling: make([]float64, n*n),
		send: make([]float64, n*n), receive: make([]float64, n*n), share: 1,
	}
	for i := range m.latency {
		m.latency[i], m.ceiling[i] = net.Latency[i].Seconds(), float64(net.Ceiling[i])
	}
	if snap != nil {
		m.header, m.share = messageHeader, payloadShare
		m.capacity = make([]float64, n*n)
		for i := range m.capacity {
			if all, ok := snap.Capacity(i/n, i%n); ok && i/n != i%n {
				m.capacity[i] = float64(min(all, net.Egress[i/n], net.Ingress[i%n]))
			}
		}
		m.messages(snap)
		m.losses(snap)
	}
	if len(net.Trunks) > 0 {
		m.crossed = make([][]int32, n*n)
		for k := range net.Trunks {
			behind := make([]bool, n)
			for _, h := range net.Trunks[k].Behind {
				behind[h] = true
			}
			for a := range n {
				for b := range n {
					if behind[b] && !behind[a] {
						m.crossed[a*n+b] = append(m.crossed[a*n+b], int32(k))
					}
				}
			}
		}
	}
	return m
}

// messages fills in what a message of a byte costs the processors at its ends. A model of LogP
// holds for all hosts of a site, so that it is looked up once for each host and site.
func (m *model) messages(snap *netmap.Snapshot) {
	type cost struct{ send, receive float64 }
	for i := range m.n {
		of := make(map[string]cost)
		for j := range m.n {
			if i == j {
				continue
			}
			site := snap.Host(j).Site
			c, ok := of[site]
			if !ok {
				c = cost{messageTime, messageTime}
				if l, known := snap.LogP(i, j); known {
					p := l.At(1)
					c = cost{p.Send.Seconds(), p.Receive.Seconds()}
				}
				of[site] = c
			}
			if e := snap.Estimate(i, j); e.Has(netmap.FieldSendOverhead) {
				c.send = e.SendOverhead.Seconds()
			}
			m.send[i*m.n+j], m.receive[i*m.n+j] = c.send, c.receive
		}
	}
}

// losses fills in what ways lose.
func (m *model) losses(snap *netmap.Snapshot) {
	for i := range m.latency {
		if e := snap.Estimate(i/m.n, i%m.n); i/m.n != i%m.n && e.TellsLoss() && e.Loss > 0 {
			if m.loss == nil {
				m.loss = make([]float64, m.n*m.n)
			}
			m.loss[i] = e.Loss
		}
	}
}

// repair returns how much later than without losses the last of so many bytes arrives that go at rate, in seconds, as may be expected.
// A lost packet arrives a round trip after its time, so those of the last round trip count: of m losses among these the last is m/(m+1) of one behind the rest.
func (m *model) repair(way int, bytes, rate float64) float64 {
	if m.loss == nil || m.loss[way] == 0 {
		return 0
	}
	rtt := 2 * m.latency[way]
	lost := m.loss[way] * math.Ceil(min(bytes, rate*rtt)/packetBytes)
	return rtt * lost / (lost + 1)
}

// load returns how long the busiest port, pipe, trunk or pair is at work for p, in seconds: spans end
// no earlier. Errors are those of spans.
func (m *model) load(p *plan.Plan) (float64, error) {
	out, in := make([]float64, m.n), make([]float64, m.n)
	pipe, trunk := make([]float64, m.pools*m.pools), make([]float64, len(m.net.Trunks))
	most := 0.0
	if len(p.Hosts) != m.n {
		return 0, fmt.Errorf("forecast: a plan of %d hosts on a network of %d", len(p.Hosts), m.n)
	}
	m.open(p)
	pair := make([]float64, m.n*m.n)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		bytes := float64(p.Bytes(t))*m.share + m.header
		out[t.Src] += bytes
		in[t.Dst] += bytes
		pair[t.Src*m.n+t.Dst] += bytes
	}
	for way, bytes := range pair {
		if bytes == 0 {
			continue
		}
		a, b := way/m.n, way%m.n
		if !m.known(a, b) {
			return 0, fmt.Errorf("forecast: %s→%s: %w", p.Hosts[a], p.Hosts[b], netmap.ErrNotMeasured)
		}
		most = max(most, bytes/m.rates[way])
		if from, to := m.net.Pool[a], m.net.Pool[b]; from != to {
			pipe[from*m.pools+to] += bytes
		}
		if m.crossed != nil {
			for _, k := range m.crossed[way] {
				trunk[k] += bytes
			}
		}
	}
	busiest := func(bytes []float64, rates []netmap.BytesPerSec) {
		for i, b := range bytes {
			if b > 0 {
				most = max(most, b/float64(rates[i]))
			}
		}
	}
	busiest(out, m.net.Egress)
	busiest(in, m.net.Ingress)
	busiest(pipe, m.net.Pipe)
	for k, b := range trunk {
		most = max(most, b/float64(m.net.Trunks[k].Rate))
	}
	return most, nil
}

// open sets rates to what the engine's lanes get for p: all that the path of a pair carries, which it shares with the
// other pairs of its pipe that p uses, by what each has to carry but no less than evenly, as far as its bytes fill lanes, and at least what one flow gets.
func (m *model) open(p *plan.Plan) {
	if m.rates = append(m.rates[:0], m.ceiling...); m.capacity == nil {
		return
	}
	moved := zeros(m.moved, m.n*m.n)
	m.moved, m.flows, m.piped = moved, zeros(m.flows, m.pools*m.pools), zeros(m.piped, m.pools*m.pools)
	for i := range p.Transfers {
		t := &p.Transfers[i]
		way, pipe := t.Src*m.n+t.Dst, m.net.Pool[t.Src]*m.pools+m.net.Pool[t.Dst]
		if moved[way] == 0 {
			m.flows[pipe]++
		}
		bytes := float64(p.Bytes(t)) + 1 // one that moves nothing is there as well
		moved[way] += bytes
		m.piped[pipe] += bytes
	}
	for way, rate := range m.ceiling {
		a, b := m.net.Pool[way/m.n], m.net.Pool[way%m.n]
		if pipe := a*m.pools + b; a != b && moved[way] > 0 {
			part := max(1/float64(m.flows[pipe]), moved[way]/m.piped[pipe])
			lanes := float64(maxLanes)
			if m.loss == nil || m.loss[way] == 0 { // losses hold flows in the long run only
				lanes = min(lanes, math.Floor(moved[way]/wan.LaneFill))
			}
			m.rates[way] = max(rate, min(m.capacity[way]*part, lanes*rate))
		}
	}
}

// opening returns when the last of the first so many bytes of a way can have left its source, after the first of them, in
// seconds: the windows of its lanes have to grow.
func (m *model) opening(way int, bytes float64) (at float64) {
	rtt, rate := 2*m.latency[way], m.rates[way]
	if m.capacity == nil || rtt < leastRTT {
		return 0
	}
	for window := openingWindow * math.Ceil(rate/m.ceiling[way]); window < rate*rtt && bytes > window; window *= 2 {
		bytes -= window
		at += rtt
	}
	return at + bytes/rate
}

// known reports whether bytes can get from host a to b at a rate that is known.
func (m *model) known(a, b int) bool {
	from, to := m.net.Pool[a], m.net.Pool[b]
	return m.ceiling[a*m.n+b] > 0 && m.net.Egress[a] > 0 && m.net.Ingress[b] > 0 && (from == to || m.net.Pipe[from*m.pools+to] > 0)
}
