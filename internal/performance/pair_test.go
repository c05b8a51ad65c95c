package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/internal/treetest"
	"github.com/gridagent/gridagent/probe/gridfile"
)

const payload = treetest.Payload

// fullest is the same of QUIC's largest packets, of 1,452 bytes in IP's 1,480, whose headers and tag take 28 at least.
const fullest = 1424.0 / 1480

// The seconds of an exchange that count.
const countFrom, countTo = 3 * time.Second, 10 * time.Second

// measurePair: what one host's blocks to another take in, of what the link could carry if it had no headers.
func measurePair(t *testing.T, r *Reading) { measureBusyPair(t, r, nil) }

// measureBusyPair is the same while something else is on the link; also is called as the exchange begins. Nil means nothing.
func measureBusyPair(t *testing.T, r *Reading, also func(*gridtest.Cluster)) {
	var rate, loss float64
	if _, err := fmt.Sscanf(r.Cell.Network, "%fMbps-%f%%", &rate, &loss); rate == 0 {
		t.Fatalf("network %q: %v", r.Cell.Network, err)
	}
	text := fmt.Sprintf("sites: [{name: a, hosts: 1, lan: {bandwidth: 10Gbps, latency: 10us}}, {name: b, hosts: 1, lan: {bandwidth: 10Gbps, latency: 10us}}]\n"+
		"wan: [{from: a, to: b, bandwidth: %gMbps, latency: 50ms, loss: %g%%, both: true}]\n", rate, loss)
	file, err := gridfile.Parse(r.Cell.Network, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	onGrid(t, r.Cell, file, func(cl *gridtest.Cluster) {
		job := cl.Job("", cl.EachHost(), 0)
		job.Blocks[0] = make([]byte, r.Cell.Size) // of zeros: nobody looks, and they are many
		ctx, cancel := context.WithCancelCause(cl.Ctx)
		defer cancel(nil)
		job.Context = func(int) context.Context { return ctx }
		in := arrivals{enough: func() { cancel(errors.New("enough")) }}
		job.Options.Progress = func(done, total uint64) {
			if total == uint64(r.Cell.Size) { // of the host that receives
				in.note(time.Now(), int64(done), int64(cl.Net.Stats().Links[0].Delivered.Bytes))
			}
		}
		job.Ready = func() {
			in.begin(time.Now())
			if also != nil {
				also(cl)
			}
		}
		got := cl.Run(job)
		for _, o := range got.Outcomes {
			if o.Err == nil {
				t.Errorf("the exchange ended before %v: %d bytes are too few", countTo, r.Cell.Size)
			} else if !strings.Contains(o.Err.Error(), "cancel") {
				t.Error(o.Err)
			}
		}
		r.Lost = append(r.Lost, got.Lost)
		r.Checks = append(r.Checks, Check{What: "share of the link, seconds 3 to 10", Value: share(in.rate(), rate), Limit: r.Cell.Limit, Least: true})
	})
}

// share returns what part of a link of so many Mbit/s, headers and all, so many bytes of blocks a second are.
func share(bytes, mbps float64) float64 { return 8 * bytes / (mbps * 1e6) }

// arrivals notes how many bytes of the blocks are in their places at the ends of the seconds that count. What comes twice is in its place once, and nothing
// else has one: neither probes nor headers nor what a lane sends again.
type arrivals struct {
	enough func() // called when the last that counts is noted

	mu         sync.Mutex // guards what follows
	began      time.Time
	first, end arrival
}

// An arrival is how many bytes of blocks there were at an instant, and how many IP bytes the link had carried.
type arrival struct {
	at            time.Time
	bytes, packed int64
}

func (a *arrivals) begin(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = at
}

// note notes what there was, if it is the first time at an end of what counts.
func (a *arrivals) note(at time.Time, bytes, packed int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.at.IsZero() && at.Sub(a.began) >= countFrom {
		a.first = arrival{at, bytes, packed}
	}
	if a.end.at.IsZero() && at.Sub(a.began) >= countTo {
		a.end = arrival{at, bytes, packed}
		a.enough()
	}
}

// rate returns the bytes a second between the ends, 0 if they were not both seen. What came before and had to wait for a lost packet is no part of them: there
// are no more than packets brought in that time.
func (a *arrivals) rate() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.at.IsZero() || a.end.at.IsZero() {
		return 0
	}
	return min(float64(a.end.bytes-a.first.bytes), fullest*float64(a.end.packed-a.first.packed)) / a.end.at.Sub(a.first.at).Seconds()
}

// TestArrivals: seconds 3 to 10 count from the start, and what came in before does not.
func TestArrivals(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name   string
		packed int64   // bytes a second that the link carries
		want   float64 // of the blocks
	}{{"headers alone beside", 1000, 900}, {"as much that is no block", 1800, 900}, {"what waited since second 2", 800, 800 * fullest}} {
		ended := 0
		a := arrivals{enough: func() { ended++ }}
		a.begin(start)
		for tenth := range 100 { // ten times faster in the first three seconds
			ms := int64(100 * tenth)
			a.note(start.Add(time.Duration(ms)*time.Millisecond), 9*min(ms, 3000)+9*max(ms-3000, 0)/10, c.packed*ms/1000)
		}
		if ended != 0 || a.rate() != 0 {
			t.Errorf("%s: after 9.9 s: ended %d times, %v bytes a second", c.name, ended, a.rate())
		}
		for s := int64(10); s < 13; s++ {
			a.note(start.Add(time.Duration(s)*time.Second), 27_000+6300+(s-10)*50_000, c.packed*s)
		}
		if ended != 1 || math.Abs(a.rate()-c.want) > 1e-9 {
			t.Errorf("%s: ended %d times, %v bytes a second, want 1 and %v", c.name, ended, a.rate(), c.want)
		}
	}
	if got := share(125_000, 2); got != 0.5 {
		t.Errorf("125 kB a second are %v of 2 Mbit/s, want a half", got)
	}
}

// TestShareIsOfBlocks: nothing but blocks counts. A link without losses gives them no more than headers leave; and where a fifth of it is busy with what is no
// block, as copies and probes are none, they get four fifths at most.
func TestShareIsOfBlocks(t *testing.T) {
	if gridtest.Race {
		t.Skip("seconds of CPU: run without the race detector, which multiplies its CPU time by ten")
	}
	cell := Cell{Row: Pair, Network: "20Mbps", Size: 30 * mib, Settle: 20 * time.Second, Runs: 1}
	alone := Reading{Cell: cell}
	measurePair(t, &alone)
	const other, full = 0.2, 1000
	beside := Reading{Cell: cell}
	measureBusyPair(t, &beside, func(cl *gridtest.Cluster) {
		from, err := cl.Net.Listen(cl.Hosts[0].Name)
		if err != nil {
			t.Error(err)
			return
		}
		defer from.Close()
		to, err := cl.Net.Listen(cl.Hosts[1].Name) // nobody reads: the link has carried them
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		const gap = time.Duration(8 * full * 1e9 / (other * 20e6))
		for range int((countTo + time.Second) / gap) {
			if _, err := from.WriteTo(make([]byte, full-28), to.LocalAddr()); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(gap)
		}
	})
	for _, c := range []struct {
		name        string
		of          Reading
		least, most float64
	}{{"alone", alone, 0.85, fullest}, {"beside something else", beside, 0.3, 1 - other}} {
		if len(c.of.Checks) != 1 {
			t.Fatalf("%s: %d checks", c.name, len(c.of.Checks))
		}
		if got := c.of.Checks[0].Value; got < c.least || got > c.most {
			t.Errorf("%s: %.3f of the link, want %.3f to %.3f", c.name, got, c.least, c.most)
		} else {
			t.Logf("%s: %.3f of the link", c.name, got)
		}
	}
}
