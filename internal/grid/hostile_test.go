package grid_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/grid"
	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/probe"
	"github.com/gridagent/gridagent/probe/netmap"
)

// Hostile is what a test needs to speak for a host that breaks the rules: its endpoint, with its
// certificate, and its key. The agent runs beside it.
type hostile struct {
	ep   probe.Endpoint
	sign func(message []byte) []byte
	cert []byte
}

// breaking takes over hosts by name: what wrap returns stands between their agents and the network.
func breaking(hosts map[string]*hostile, wrap func(probe.Endpoint) probe.Endpoint) func(*agent.Options) {
	return func(o *agent.Options) {
		h := hosts[o.Identity.Settings.Host]
		if h == nil {
			return
		}
		signer := o.Identity.Signer()
		h.cert = signer.Credential()
		h.sign = func(message []byte) []byte {
			sig, err := signer.Sign("map rows", message)
			if err != nil {
				panic(err) // of the test's own key
			}
			return sig
		}
		o.Probe = func(c *probe.Config) {
			h.ep = c.Endpoint
			if wrap != nil {
				c.Endpoint = wrap(c.Endpoint)
			}
		}
	}
}

// say writes one message of the probes' protocol.
func say(w io.Writer, m map[string]any) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...))
	return err
}

// ask opens a stream to host, writes m and reads what comes until the stream ends, the other end
// has had enough or ctx has. It returns how many bytes came.
func (h *hostile) ask(ctx context.Context, host string, m map[string]any) int64 {
	s, err := h.ep.Open(ctx, host, 0, lane.StreamProbe)
	if err != nil {
		return 0
	}
	defer s.Abort()
	defer context.AfterFunc(ctx, s.Abort)()
	if say(s, m) != nil {
		return 0
	}
	n, _ := io.Copy(io.Discard, s)
	return n
}

// hog asks host for all that a peer may ask for, all the time.
func (h *hostile) hog(ctx context.Context, host string) {
	requests := []map[string]any{
		{"op": "train", "count": 256},
		{"op": "bulk", "count": 64, "bytes": 1 << 31, "span_ns": 30 * time.Second},
		{"op": "logp", "batch": "stream", "messages": 1000, "size": 1 << 20},
		{"op": "lease", "site": "a", "use": "again", "bytes": 1 << 31},
		{"op": "lease", "site": "c", "use": "first", "bytes": 1 << 31},
	}
	var wg sync.WaitGroup
	for _, m := range requests {
		wg.Go(func() {
			for ctx.Err() == nil {
				h.ask(ctx, host, m)
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		})
	}
	wg.Wait()
}

// attack runs f until the test's part in between has ended.
func attack(c *gridtest.Cluster, f func(ctx context.Context), while func()) {
	ctx, cancel := context.WithCancel(c.Ctx)
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	while()
	cancel()
	wg.Wait()
}

// fresh fails the test unless the rates of all pairs of honest hosts are near the truth and were measured
// within age; pairs inside a site may be twice as old.
func fresh(c *gridtest.Cluster, age time.Duration, bad ...string) {
	c.T.Helper()
	watcher := c.Hosts[slices.IndexFunc(c.Hosts, func(h grid.Host) bool { return !slices.Contains(bad, h.Name) })]
	for _, from := range c.Hosts {
		for _, to := range c.Hosts {
			if from.Name == to.Name || slices.Contains(bad, from.Name) || slices.Contains(bad, to.Name) {
				continue
			}
			e, _ := watcher.Agent.Map().Lookup(from.Name, to.Name, time.Now())
			most := age
			if from.Site == to.Site {
				most *= 2
			}
			if old := time.Since(e.Measured); !e.Has(netmap.FieldBandwidth) || old > most {
				c.T.Errorf("%s→%s was measured %v ago: %+v", from.Name, to.Name, old, e)
			}
		}
	}
	checkTruths(c, bad, false)
}

// A member that holds every slot and lease that it can get, of all hosts, for as long as it
// may, does not keep the others from measuring each other.
func TestHog(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of six agents: ten seconds of CPU and more with the race detector")
	}
	hogs := map[string]*hostile{"b1": {}}
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 3, 3), Seed: 2, Agent: breaking(hogs, nil)}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		attack(c, func(ctx context.Context) {
			var wg sync.WaitGroup
			for _, h := range c.Hosts {
				if h.Name != "b1" {
					wg.Go(func() { hogs["b1"].hog(ctx, h.Name) })
				}
			}
			wg.Wait()
		}, func() { time.Sleep(8 * time.Minute) })
		fresh(c, 6*time.Minute, "b1")
	})
}

// A refuser answers every question of the probes with no.
type refuser struct{ probe.Endpoint }

func (r refuser) HandleStreams(k lane.StreamKind, h func(ctx context.Context, s *lane.Stream)) {
	if k == lane.StreamProbe {
		h = func(_ context.Context, s *lane.Stream) {
			s.SetDeadline(time.Now().Add(5 * time.Second))
			say(s, map[string]any{"op": "busy", "retry_ms": 1000, "why": "budget of the link"})
			s.Close()
			io.Copy(io.Discard, s)
		}
	}
	r.Endpoint.HandleStreams(k, h)
}

// denyAfter is for how long a keeper may refuse everything until it is done without.
const denyAfter = 10 * time.Minute

// A keeper that grants leases to itself alone is done without, after a while, and named by the host that it
// has refused.
func TestRefusingKeeper(t *testing.T) {
	if gridtest.Race {
		t.Skip("a quarter of an hour of four agents")
	}
	bad := map[string]*hostile{"a0": {}}
	cfg := gridtest.Config{
		Grid: gridtest.Sites(t, "4Mbps", "20ms", 2, 2), Seed: 3, Early: true,
		Agent: breaking(bad, func(e probe.Endpoint) probe.Endpoint { return refuser{e} }),
	}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		if err := c.WaitMembers(c.Ctx); err != nil {
			c.T.Fatal(err)
		}
		time.Sleep(denyAfter + 4*time.Minute)
		fresh(c, 5*time.Minute, "a0") // long probes, which no longer wait for a0, take their part of a link of 4 Mbit/s
		for _, h := range c.Hosts {
			named := slices.ContainsFunc(h.Agent.Warnings(), func(w string) bool { return strings.HasPrefix(w, "host a0: as keeper") })
			if want := h.Name == "a1"; named != want {
				c.T.Errorf("%s warns %q; of the keeper: %v, want %v", h.Name, h.Agent.Warnings(), named, want)
			}
		}
	})
}

// A misreader tells of trains that they have taken a part of the time that they took, or a multiple.
type misreader struct {
	probe.Endpoint
	times float64
}

func (m misreader) HandlePackets(k lane.PacketKind, h func(p []byte, from net.Addr, at time.Time)) {
	var mu sync.Mutex // guards what follows
	var train string
	var first time.Time
	m.Endpoint.HandlePackets(k, func(p []byte, from net.Addr, at time.Time) {
		mu.Lock()
		if id := string(p[:16]); id != train {
			train, first = id, at
		}
		at = first.Add(time.Duration(m.times * float64(at.Sub(first))))
		mu.Unlock()
		h(p, from, at)
	})
}

// Hosts that lie about the trains that reach them, up and down, are named by all, nobody else is, and what is
// believed of the pairs of others is as true as without them.
func TestMisreaders(t *testing.T) {
	if gridtest.Race {
		t.Skip("minutes of seven agents")
	}
	times := map[string]float64{"b1": 1. / 20, "a2": 20}
	names := slices.Sorted(maps.Keys(times))
	wrap := func(o *agent.Options) {
		if by := times[o.Identity.Settings.Host]; by != 0 {
			o.Probe = func(c *probe.Config) { c.Endpoint = misreader{c.Endpoint, by} }
		}
	}
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "4Mbps", "20ms", 4, 3), Seed: 4, Early: true, Agent: wrap}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		begin := time.Now()
		for !namedByAll(c, names) {
			if time.Sleep(10 * time.Second); time.Since(begin) > 8*time.Minute {
				for _, h := range c.Hosts {
					c.T.Logf("%s: %q", h.Name, h.Agent.Warnings())
				}
				c.T.Fatalf("%v are not named by all others after %v", names, time.Since(begin))
			}
		}
		c.T.Logf("named by all after %v", time.Since(begin))
		checkTruths(c, names, false)
	})
}

// A member opens as many streams as it can, and leaves them there, half a message in some.
func TestThousandStreams(t *testing.T) {
	bad := map[string]*hostile{"b1": {}}
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "20Mbps", "5ms", 2, 2), Seed: 5, Agent: breaking(bad, nil)}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		opened := 0
		attack(c, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			var streams []*lane.Stream
			for i := range 1100 {
				s, err := bad["b1"].ep.Open(ctx, "a0", 0, []lane.StreamKind{lane.StreamProbe, lane.StreamMap}[i%2])
				if err != nil {
					break
				}
				s.Write([]byte{0, 99, '{'}[:i%4%3])
				streams = append(streams, s)
			}
			opened = len(streams)
			time.Sleep(20 * time.Second)
			for _, s := range streams {
				s.SetReadDeadline(time.Now())
				if _, err := s.Read(make([]byte, 1)); isTimeout(err) {
					c.T.Error("a stream on which nothing is said is open after 20 s")
					break
				}
			}
			for _, s := range streams {
				s.Abort()
			}
		}, func() { c.MustRun(c.Job("", c.EachHost(), 64<<10)); time.Sleep(30 * time.Second) })
		if opened < 900 {
			c.T.Errorf("only %d streams were opened", opened)
		}
		c.MustRun(c.Job("", c.EachHost(), 64<<10))
	})
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// A batch of rows in the form that travels, by anybody: see netmap's batch.go.
func (h *hostile) batch(reporter string, version time.Time, rows [][]byte) []byte {
	text := func(b []byte, s []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	raw := text([]byte{5}, []byte(reporter))
	raw = binary.AppendUvarint(raw, uint64(version.UnixMicro()))
	raw = text(binary.AppendUvarint(raw, 0), h.cert)
	raw = binary.AppendUvarint(raw, uint64(len(rows)))
	for _, r := range rows {
		raw = append(raw, r...)
	}
	return text(text(nil, raw), h.sign(raw))
}

// row is one entry: that the reporter sends to name at rate B/s, measured when the batch was made.
func row(name string, rate uint64) []byte {
	const probed, bandwidth = 3, 2
	b := append(binary.AppendUvarint([]byte{0}, uint64(len(name))), name...)
	b = binary.AppendUvarint(append(b, 0), probed<<10|bandwidth)
	b = binary.AppendUvarint(append(b, 0), rate)
	return append(b, 0, 1) // no spread, one reading
}

// tell hands batches to host as rumours at the begin of a round, and returns what the host answers.
func (h *hostile) tell(ctx context.Context, host string, batches ...[]byte) ([]byte, error) {
	s, err := h.ep.Open(ctx, host, 0, lane.StreamMap)
	if err != nil {
		return nil, err
	}
	defer s.Abort()
	s.SetDeadline(time.Now().Add(20 * time.Second))
	m := binary.AppendUvarint([]byte{4, 0, 0, 0, 0, 0, 0, 0, 0, 0}, uint64(len(batches)))
	for _, b := range batches {
		m = append(m, b...)
	}
	if _, err := s.Write(append(binary.AppendUvarint(nil, uint64(len(m))), m...)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(s)
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	answer := make([]byte, min(n, netmap.MaxMessage))
	_, err = io.ReadFull(in, answer)
	return answer, err
}

// Rows of a third host, rows replayed, absurd rows, 10,000 rows, batches too large, two batches of one
// version: nothing of it is believed, who sent it is named, and the maps stay as small as they are.
func TestForgedRows(t *testing.T) {
	bad := map[string]*hostile{"b1": {}}
	cfg := gridtest.Config{Grid: gridtest.Sites(t, "20Mbps", "5ms", 3, 2), Seed: 6, Agent: breaking(bad, nil)}
	gridtest.Run(t, cfg, func(c *gridtest.Cluster) {
		h := bad["b1"]
		warned := func(host, part string) bool {
			i := slices.IndexFunc(c.Hosts, func(x grid.Host) bool { return x.Name == host })
			return slices.ContainsFunc(c.Hosts[i].Agent.Warnings(), func(w string) bool {
				return strings.HasPrefix(w, "host b1: ") && strings.Contains(w, part)
			})
		}
		many := make([][]byte, 10000)
		for i := range many {
			many[i] = row(string(binary.BigEndian.AppendUint32([]byte("host-"), uint32(i)|0x61616161)), 1000)
		}
		later := time.Now().Add(time.Minute) // newer than what the agent itself says
		for _, tt := range []struct {
			name, to, warning string
			batches           [][]byte
		}{
			{"forged", "a0", "signature", [][]byte{h.batch("a1", later, [][]byte{row("a0", 1)})}},
			{"stranger", "a0", "", [][]byte{h.batch("nobody", later, [][]byte{row("a0", 1)})}},
			{"10,000 rows", "a2", "more than", [][]byte{h.batch("b1", later, many)}},
			{"500 rows", "a2", "more than", [][]byte{h.batch("b1", later.Add(1e6), many[:500])}},
			{"from next year", "a2", "future", [][]byte{h.batch("b1", later.Add(365*24*time.Hour), [][]byte{row("a0", 1)})}},
			{"huge", "b0", "", [][]byte{append(binary.AppendUvarint(nil, 1<<20), make([]byte, 1<<20)...), {0}}},
			{"one of two", "b0", "", [][]byte{h.batch("b1", later.Add(2e6), [][]byte{row("a0", 1e6)})}},
			{"the other", "b0", "two different", [][]byte{h.batch("b1", later.Add(2e6), [][]byte{row("a0", 2e6)})}},
			// Its other rows count, so it travels on, and is the last fault that others find.
			{"absurd", "a1", "absurd", [][]byte{h.batch("b1", later.Add(3e6), [][]byte{row("a0", 1<<52), row("a1", 1e6)})}},
		} {
			answer, err := h.tell(c.Ctx, tt.to, tt.batches...)
			if len(answer) > netmap.MaxMessage/8 {
				c.T.Errorf("%s: %d bytes come back", tt.name, len(answer))
			}
			if tt.warning != "" && !warned(tt.to, tt.warning) {
				i := slices.IndexFunc(c.Hosts, func(x grid.Host) bool { return x.Name == tt.to })
				c.T.Errorf("%s: %s does not say %q of b1: %q (%d bytes, %v)", tt.name, tt.to, tt.warning, c.Hosts[i].Agent.Warnings(), len(answer), err)
			}
		}
		time.Sleep(30 * time.Second)
		for _, x := range c.Hosts {
			if n := len(x.Agent.Map().Reporters()); n > len(c.Hosts) {
				c.T.Errorf("%s holds the reports of %d hosts of %d: %q", x.Name, n, len(c.Hosts), x.Agent.Map().Reporters())
			}
			if e, _ := x.Agent.Map().Lookup("a1", "a0", time.Now()); e.Bandwidth < netmap.Mbps {
				c.T.Errorf("%s believes what b1 said for a1: %+v", x.Name, e)
			}
			for _, w := range x.Agent.Warnings() {
				if !strings.HasPrefix(w, "host b1: ") {
					c.T.Errorf("%s warns: %s", x.Name, w)
				}
			}
		}
	})
}
