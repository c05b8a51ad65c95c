package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// patience is how much wall time one bubble gets: a goroutine that spins stops its clock. An hour of 20 hosts takes five minutes of a
// machine, and several times as many where others use it.
const patience = time.Hour

// inBubble runs f in virtual time with an empty folder.
func inBubble(t *testing.T, f func(t *testing.T, dir string)) {
	t.Helper()
	name, dir := t.Name(), t.TempDir()
	watchdog := time.AfterFunc(patience, func() {
		panic(fmt.Sprintf("%s: the bubble did not end within %v of wall time: its clock stands still", name, patience))
	})
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) { f(t, dir) })
}

// grid returns w as a grid file would say it.
func (w World) grid() (*gridfile.Grid, error) {
	lan := max(1000, 10*w.Mbps)
	text := "sites:\n"
	for _, s := range []string{"a", "b"} {
		text += fmt.Sprintf("  - {name: %s, hosts: %d, lan: {bandwidth: %gMbps, latency: 60us}}\n", s, w.Hosts, lan)
	}
	flow := w.Mbps
	if w.FlowMbps > 0 {
		flow = w.FlowMbps
	}
	text += fmt.Sprintf("wan:\n  - {from: a, to: b, bandwidth: %gMbps, capacity: %gMbps, latency: %gus, both: true", flow, w.Mbps, float64(w.RTT.Microseconds())/2)
	if w.Loss > 0 {
		text += fmt.Sprintf(", loss: %g%%", 100*w.Loss)
	}
	if w.FlowMbps > 0 {
		text += ", held_by: ceiling"
	}
	text += "}\n"
	return gridfile.Parse("world "+w.String(), []byte(text))
}

// strangers starts the cross traffic of w, in both directions.
func (w World) strangers(n *gridnet.Network) error {
	if w.Cross == 0 {
		return nil
	}
	for _, l := range [][2]string{{"a", "b"}, {"b", "a"}} {
		c := gridnet.CrossTraffic{From: l[0], To: l[1], Rate: gridnet.Rate(w.Cross*w.Mbps) * gridnet.Mbps, Poisson: true}
		if _, err := n.StartCross(c); err != nil {
			return err
		}
	}
	return nil
}

// bulk returns the user bytes a second that arrive over so many lanes together, in the time measured after the warm-up.
// Each lane is one QUIC connection from a host of its own to another, which writes all it can, as an exchange does.
func bulk(t *testing.T, dir string, w World, lanes int, seed uint64, warm, measured time.Duration) float64 {
	t.Helper()
	w.Hosts = lanes
	file, err := w.grid()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := gridnet.FromGrid(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Seed = seed
	n, err := gridnet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if err := w.strangers(n); err != nil {
		t.Fatal(err)
	}
	var pairs [][2]string
	for i := range lanes {
		pairs = append(pairs, [2]string{fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)})
	}
	return lanesBetween(t, dir, n, pairs, warm, measured)
}

// lanesBetween returns the user bytes a second that arrive over one lane for each pair of hosts of n, all together, in the time
// measured after the warm-up. No host may be in two pairs.
func lanesBetween(t *testing.T, dir string, n *gridnet.Network, pairs [][2]string, warm, measured time.Duration) float64 {
	t.Helper()
	var names []string
	for _, p := range pairs {
		names = append(names, p[0], p[1])
	}
	ids, err := identities(dir, names...)
	if err != nil {
		t.Fatal(err)
	}
	addrs := make(map[string]net.Addr)
	var ends []*lane.Endpoint
	var count sink
	for i, host := range names {
		conn, err := n.Listen(host)
		if err != nil {
			t.Fatal(err)
		}
		addrs[host] = conn.LocalAddr()
		e, err := lane.New(lane.Config{
			Conn: conn, Credentials: ids[i].Credentials(),
			Resolve: func(name string) (net.Addr, bool) { a, ok := addrs[name]; return a, ok },
		})
		if err != nil {
			t.Fatal(err)
		}
		e.HandleStreams(lane.StreamData, count.read)
		ends = append(ends, e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	for _, e := range ends {
		running.Go(func() {
			if err := e.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range pairs {
		writing.Go(func() {
			s, err := ends[2*i].Open(ctx, names[2*i+1], 0, lane.StreamData)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Abort()
			for block := make([]byte, 256<<10); ; {
				if _, err := s.Write(block); err != nil {
					return // the end of ctx
				}
			}
		})
	}
	time.Sleep(warm)
	before := count.bytes()
	time.Sleep(measured)
	got := count.bytes() - before
	cancel()
	running.Wait()
	writing.Wait()
	return float64(got) / measured.Seconds()
}

// A sink counts what it reads.
type sink struct {
	mu sync.Mutex // guards n
	n  int64
}

func (k *sink) read(_ context.Context, s *lane.Stream) {
	buf := make([]byte, 1<<20)
	for {
		n, err := s.Read(buf)
		k.mu.Lock()
		k.n += int64(n)
		k.mu.Unlock()
		if err == io.EOF {
			s.Close()
			return
		} else if err != nil {
			s.Abort()
			return
		}
	}
}

func (k *sink) bytes() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n
}

// identities makes one cluster of the named hosts.
func identities(dir string, hosts ...string) ([]*identity.Identity, error) {
	var ids []*identity.Identity
	for i, h := range hosts {
		opts := identity.Options{Cluster: "accuracy", Host: h, Site: h[:1]}
		folder := filepath.Join(dir, h)
		var id *identity.Identity
		var err error
		if i == 0 {
			id, err = identity.Init(folder, opts, time.Now(), rand.Reader)
		} else {
			id, err = identity.Admit(ids[0], folder, opts, time.Now(), rand.Reader)
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
