package labtest

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gridagent/gridagent/internal/accuracy/random"
	"github.com/gridagent/gridagent/internal/e2e/e2etest"
	"github.com/gridagent/gridagent/probe/netmap"
)

const (
	unseenAge    = 100 * time.Second // of the grid, when its map is read
	unseenChange = 30 * time.Second  // within which all maps must tell a change
	// wandering is what a map and iperf3 may differ by where losses, jitter or short queues decide what a flow gets: each of
	// them sees a few dozen losses, and TCP's Reno is not QUIC's.
	wandering = 0.35
)

// An unseenLink is what is found out about one link of a drawn grid.
type unseenLink struct {
	index    int
	from, to string             // sites
	truth    netmap.BytesPerSec // of one flow, payload
	exact    bool               // truth is so by the grid file; else it is the most that it can be
	rates    []netmap.BytesPerSec
	rtts     []time.Duration
	pairs    int
	tcp      netmap.BytesPerSec // what iperf3 got, in payload of QUIC
}

// TestUnseen draws a grid from GRIDAGENT_LAB_SEED, by default another one each time, and holds the map of agents that nobody has set
// anything for against what was drawn and against iperf3. Then a link changes.
func TestUnseen(t *testing.T) {
	mustBeAll(t)
	mustBePossible(t)
	seed := uint64(time.Now().Unix())
	if s := os.Getenv("GRIDAGENT_LAB_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("GRIDAGENT_LAB_SEED: %v", err)
		}
	}
	g := random.Draw(seed, random.Slow)
	t.Logf("GRIDAGENT_LAB_SEED=%d: %v", seed, g)
	file := filepath.Join(t.TempDir(), "unseen.yaml")
	if err := os.WriteFile(file, []byte(g.YAML()), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "unseen", file)
	begin := time.Now()
	c.waitMap(t, c.nodes[0].Name)
	t.Logf("the map was whole %.1f s after all hosts were there", time.Since(begin).Seconds())
	time.Sleep(unseenAge - time.Since(begin))

	list := c.unseenLinks(t, g)
	tooBusy := false
	if _, err := exec.LookPath("iperf3"); err == nil {
		before := c.stats(t)
		c.unseenTCP(t, list)
		tooBusy = c.stats(t).laterThan(before)
	} else {
		t.Log("no iperf3 here: scripts/peers installs it, or the system's package manager")
	}
	c.unseenVerdict(t, seed, g, list, tooBusy)
	c.unseenChange(t, seed, g)
}

// unseenLinks reads the map of one agent.
func (c *cluster) unseenLinks(t *testing.T, g *random.Grid) []*unseenLink {
	t.Helper()
	m := c.mapOf(t, c.nodes[len(c.nodes)-1].Name)
	var list []*unseenLink
	for i, k := range g.File.WAN {
		l := &unseenLink{index: i, from: g.File.Sites[k.From].Name, to: g.File.Sites[k.To].Name}
		l.truth, l.exact = g.Flow(i)
		c.over(l.from, l.to, func(from, to string) {
			l.pairs++
			e, back := m.Estimate(m.Index(from), m.Index(to)), m.Estimate(m.Index(to), m.Index(from))
			if e.Has(netmap.FieldBandwidth) {
				l.rates = append(l.rates, e.Bandwidth)
			}
			if e.Has(netmap.FieldLatency) && back.Has(netmap.FieldLatency) {
				l.rtts = append(l.rtts, e.Latency+back.Latency)
			}
		})
		list = append(list, l)
	}
	return list
}

// over calls f with the names of the hosts of each pair from one site to another.
func (c *cluster) over(from, to string, f func(from, to string)) {
	for _, a := range c.of(from) {
		for _, b := range c.of(to) {
			f(a, b)
		}
	}
}

// mapOf returns an agent's map as plans see it.
func (c *cluster) mapOf(t *testing.T, at string) *netmap.Snapshot {
	t.Helper()
	text := succeed(t, c.client(t, at, "map", "--predict", "-o", "json"))
	s, err := netmap.ParseMatrix([]byte(text), time.Now())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(s.Hosts()) != len(c.nodes) {
		t.Fatalf("the map of %s has %d of %d hosts", at, len(s.Hosts()), len(c.nodes))
	}
	return s
}

// unseenTCP has one flow of iperf3 fill each link, several links at once where no site takes part in two of them.
func (c *cluster) unseenTCP(t *testing.T, list []*unseenLink) {
	t.Helper()
	rest := slices.Clone(list)
	for len(rest) > 0 {
		busy := make(map[string]bool)
		var round, later []*unseenLink
		for _, l := range rest {
			if busy[l.from] || busy[l.to] {
				later = append(later, l)
				continue
			}
			busy[l.from], busy[l.to] = true, true
			round = append(round, l)
		}
		rest = later
		clients := make([]*e2etest.Process, len(round))
		for i, l := range round {
			from, to := c.of(l.from)[0], c.of(l.to)[0]
			c.exec(t, to, "iperf3", "-s", "-1")
			long := 8
			if !l.exact {
				long = 20
			}
			line := fmt.Sprintf("for i in 1 2 3 4 5 6 7 8 9 10; do timeout 90 iperf3 -c %s -O 6 -t %d -C reno -J && exit; sleep 0.3; done; exit 1", c.node(to).Addr, long)
			clients[i] = c.exec(t, from, "sh", "-c", line)
		}
		for i, l := range round {
			l.tcp = received(t, clients[i]) / tcpShare * userShare
		}
	}
}

// received returns what the receiver of a run of iperf3 -J has got.
func received(t *testing.T, p *e2etest.Process) netmap.BytesPerSec {
	t.Helper()
	var said struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	text := succeed(t, p)
	if i := lastObject(text); i >= 0 {
		text = text[i:]
	}
	decode(t, text, &said)
	return netmap.BytesPerSec(said.End.Received.Rate / 8)
}

// laterThan reports whether so much since before came late that a flow got less than the links carry: more than a packet of
// fifty by over 1 ms. Then iperf3 has measured this machine.
func (s *stats) laterThan(before *stats) bool {
	return s.Missed > before.Missed || 50*(s.Late.Over-before.Late.Over) > s.Late.Packets-before.Late.Packets
}

// unseenVerdict prints what was found and says what is wrong; what iperf3 got is only printed where this machine was too busy.
func (c *cluster) unseenVerdict(t *testing.T, seed uint64, g *random.Grid, list []*unseenLink, tooBusy bool) {
	t.Helper()
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "link\ttruth, Mbit/s\tmap, least … most\tknown\tiperf3\tround trip\tmap\tlink is")
	var wrong []float64
	for _, l := range list {
		slices.Sort(l.rates)
		rtt := g.RoundTrip(l.index)
		far := time.Duration(0)
		for _, r := range l.rtts {
			if (r - rtt).Abs() > far.Abs() {
				far = r - rtt
			}
		}
		truth := megabits(l.truth)
		if !l.exact {
			truth = "≤ " + truth
		}
		least, most := netmap.BytesPerSec(math.NaN()), netmap.BytesPerSec(math.NaN())
		if n := len(l.rates); n > 0 {
			least, most = l.rates[0], l.rates[n-1]
		}
		name := l.from + "→" + l.to
		fmt.Fprintf(w, "%s\t%s\t%s … %s\t%d of %d\t%s\t%v\t%+.2f ms\t%s\n", name, truth, megabits(least), megabits(most),
			len(l.rates), l.pairs, megabits(l.tcp), rtt, far.Seconds()*1000, g.Describe(l.index))

		if len(l.rates) < l.pairs {
			t.Errorf("%s: %d of %d pairs are known", name, len(l.rates), l.pairs)
		}
		for _, r := range l.rates {
			if l.exact {
				wrong = append(wrong, math.Abs(float64(r/l.truth)-1))
			}
			if l.exact && !within(r, l.truth, pairTolerance) {
				t.Errorf("%s: a pair is off by %+.1f %%", name, 100*(r/l.truth-1))
			}
			allowed := pairTolerance
			if !l.exact {
				allowed = wandering
			}
			if l.tcp > 0 && !tooBusy && !within(r, l.tcp, allowed) {
				t.Errorf("%s: the map says %s Mbit/s for a pair, iperf3 got as much as %s", name, megabits(r), megabits(l.tcp))
			}
		}
		jitter := g.File.WAN[l.index].Jitter + g.File.WAN[l.index^1].Jitter
		if far.Abs() > max(rttTolerance, rtt/50)+jitter {
			t.Errorf("%s: a round trip of %v is off by %v", name, rtt, far)
		}
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	t.Logf("GRIDAGENT_LAB_SEED=%d, the map of %s %v after the start:\n%s", seed, c.nodes[len(c.nodes)-1].Name, unseenAge, table.String())
	if tooBusy {
		t.Log("this machine was too busy: more than 2 % of the packets came over 1 ms late while iperf3 ran, and what it got does not count")
	}
	slices.Sort(wrong)
	if n := len(wrong); n > 0 {
		t.Logf("%d pairs over plain links: off by %.2f %% in the median, by %.2f %% at most", n, 100*wrong[n/2], 100*wrong[n-1])
		if !(wrong[n/2] <= medianTolerance) {
			t.Errorf("rates are off by %.1f %% in the median", 100*wrong[n/2])
		}
	}
}

// bits is a rate as flags read it.
func bits(r netmap.BytesPerSec) string { return fmt.Sprintf("%.0fbps", float64(r)*8) }

func megabits(r netmap.BytesPerSec) string { return fmt.Sprintf("%.3g", float64(r)*8/1e6) }

func within(got, want netmap.BytesPerSec, share float64) bool {
	return math.Abs(float64(got/want)-1) <= share
}

// unseenChange changes a link and waits until every agent's map tells it.
func (c *cluster) unseenChange(t *testing.T, seed uint64, g *random.Grid) {
	t.Helper()
	after := g.After()
	var names []string
	for _, i := range g.Change.Links {
		k := after.File.WAN[i]
		from, to := after.File.Sites[k.From].Name, after.File.Sites[k.To].Name
		names = append(names, after.Name(i))
		c.must(t, "set", from, to, "--one-way", "--bandwidth", bits(k.Bandwidth), "--capacity", bits(k.Capacity), "--latency", k.Latency.String())
	}
	begin := time.Now()
	what := fmt.Sprintf("GRIDAGENT_LAB_SEED=%d, %v of %s", seed, g.Change, strings.Join(names, " and "))
	first := make(map[string]time.Duration) // by agent: when its map was right
	for time.Since(begin) < 4*unseenChange && len(first) < len(c.nodes) {
		for _, n := range c.nodes {
			if _, ok := first[n.Name]; !ok && c.tells(t, n.Name, after, g.Change) {
				first[n.Name] = time.Since(begin)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	var took []string
	for _, n := range c.nodes {
		d, ok := first[n.Name]
		took = append(took, fmt.Sprintf("%s %.1f s", n.Name, d.Seconds()))
		if !ok {
			t.Errorf("%s: the map of %s does not tell it after %v", what, n.Name, time.Since(begin))
		} else if d > unseenChange {
			t.Errorf("%s: the map of %s told it after %v, want %v", what, n.Name, d, unseenChange)
		}
	}
	t.Logf("%s: right at %s", what, strings.Join(took, ", "))
}

// tells reports whether an agent's map is right of a change for all pairs.
func (c *cluster) tells(t *testing.T, at string, g *random.Grid, change random.Change) bool {
	t.Helper()
	m, right := c.mapOf(t, at), true
	for _, i := range change.Links {
		k := g.File.WAN[i]
		truth, _ := g.Flow(i)
		c.over(g.File.Sites[k.From].Name, g.File.Sites[k.To].Name, func(from, to string) {
			e, back := m.Estimate(m.Index(from), m.Index(to)), m.Estimate(m.Index(to), m.Index(from))
			if change.Lag == 1 {
				right = right && within(e.Bandwidth, truth, pairTolerance)
			} else {
				off := e.Latency + back.Latency - g.RoundTrip(i)
				right = right && off.Abs() <= max(rttTolerance, g.RoundTrip(i)/50)+g.File.WAN[i].Jitter+g.File.WAN[i^1].Jitter
			}
		})
	}
	return right
}

// lastObject returns where the last JSON object of iperf3's begins: an attempt that found nobody has
// printed one, too.
func lastObject(text string) (at int) {
	at = -1
	for i := range text {
		if text[i] == '{' && (i == 0 || text[i-1] == '\n') {
			at = i
		}
	}
	return at
}
