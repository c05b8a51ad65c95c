package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gridagent/gridagent/internal/grid/gridtest"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// payload is the share of the IP bytes of a packet of 1,280 bytes, with which connections begin, that are a stream's.
const payload = 1248.0 / 1308

// The seconds of an exchange that count.
const countFrom, countTo = 3 * time.Second, 10 * time.Second

// measurePair: what of the link one host's bytes to another fill.
func measurePair(t *testing.T, r *Reading) {
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
		enough := errors.New("enough")
		job.Context = func(int) context.Context { return ctx }
		var before, after gridnet.Stats
		job.Ready = func() {
			time.Sleep(countFrom)
			before = cl.Net.Stats()
			time.Sleep(countTo - countFrom)
			after = cl.Net.Stats()
			cancel(enough)
		}
		for _, o := range cl.Run(job).Outcomes {
			if o.Err == nil {
				t.Errorf("the exchange ended before %v: %d bytes are too few", countTo, r.Cell.Size)
			} else if !strings.Contains(o.Err.Error(), "cancel") {
				t.Error(o.Err)
			}
		}
		bits := 8 * payload * float64(after.Links[0].Delivered.Bytes-before.Links[0].Delivered.Bytes)
		got := bits / (countTo - countFrom).Seconds() / (rate * 1e6)
		r.Lost = append(r.Lost, int(after.Links[0].Lost().Packets-before.Links[0].Lost().Packets))
		r.Checks = append(r.Checks, Check{What: "share of the link, seconds 3 to 10", Value: got, Limit: r.Cell.Limit, Least: true})
	})
}
