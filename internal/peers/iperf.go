package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A LinkCheck is what one TCP flow of iperf3 got over a link, beside what the file declares.
type LinkCheck struct {
	Source     string `json:"source"` // lab
	Tool       string `json:"tool"`   // iperf3
	Version    string `json:"version,omitempty"`
	Grid       string `json:"grid"`
	Congestion string `json:"congestion,omitempty"`
	Link       string `json:"link"` // FROM→TO of sites or switches; alone: two hosts of one
	From       string `json:"from"` // host
	To         string `json:"to"`
	// Declared is what the file says that one flow gets, IP bytes; where loss holds a flow back it is an
	// expectation. Payload is what of it is for TCP's payload, Capacity what all flows get together.
	Declared float64 `json:"declared_mbps"`
	Payload  float64 `json:"payload_mbps"`
	Capacity float64 `json:"capacity_mbps"`
	Goodput  float64 `json:"goodput_mbps"` // payload as the receiver counted it
	Resent   int64   `json:"resent"`       // segments
	Error    string  `json:"error,omitempty"`
}

// payloadShare is the part of full IP packets that is TCP's payload: 20 bytes are IP's header, 20 TCP's, 12
// its time stamps.
const payloadShare = 1448.0 / 1500

const (
	iperfSeconds = 5
	iperfOmitted = 2 // of slow start
)

// iperf measures one link.
func (t *testbed) iperf(ctx context.Context, l link) LinkCheck {
	check := LinkCheck{
		Source: "lab", Tool: toolIperf, Grid: t.net.name, Congestion: t.congestion, Link: l.name, From: l.from, To: l.to,
		Declared: l.rate.Mbps(), Payload: l.rate.Mbps() * payloadShare, Capacity: l.capacity.Mbps(),
	}
	for range iperfAttempts {
		check.Error = ""
		err := t.iperfInto(ctx, l, &check)
		if err == nil || ctx.Err() != nil {
			break
		}
		check.Error = err.Error()
	}
	return check
}

// iperfAttempts is how often a link is tried: a server was seen to end before its client had come.
const iperfAttempts = 3

func (t *testbed) iperfInto(ctx context.Context, l link, check *LinkCheck) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		_, err := command{argv: t.in(l.to, "iperf3", "-s", "-1"), mark: t.mark + ".iperf-server"}.run(ctx)
		served <- err
		close(served)
	}()
	client := t.in(l.from, "iperf3", "-c", l.to, "-J", "-t", fmt.Sprint(iperfSeconds), "-O", fmt.Sprint(iperfOmitted))
	if t.congestion != "" {
		client = append(client, "-C", t.congestion)
	}
	var text string
	var err error
	for range 50 {
		text, err = command{argv: client, mark: t.mark + ".iperf-client"}.run(ctx)
		// With -J it ends with status 0 whatever happens.
		if !strings.Contains(text, "Connection refused") {
			break
		}
		select {
		case ended := <-served:
			return errors.Join(errors.New("the server of iperf3 has ended before its client came"), ended)
		case <-time.After(100 * time.Millisecond): // it has not started yet
		}
	}
	cancel()
	<-served
	check.Version, check.Goodput, check.Resent, err = readIperf(text, err)
	return err
}

// readIperf reads the JSON that iperf3 prints, also where it failed with err.
func readIperf(text string, err error) (version string, mbps float64, resent int64, _ error) {
	var out struct {
		Start struct {
			Version string `json:"version"`
		} `json:"start"`
		End struct {
			Sent struct {
				Retransmits int64 `json:"retransmits"`
			} `json:"sum_sent"`
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
		Error string `json:"error"`
	}
	switch bad := json.Unmarshal([]byte(text), &out); {
	case bad != nil:
		return "", 0, 0, errors.Join(err, fmt.Errorf("report of iperf3: %w", bad))
	case out.Error != "":
		return "", 0, 0, fmt.Errorf("iperf3: %s", out.Error)
	case err != nil:
		return "", 0, 0, err
	}
	return strings.TrimPrefix(out.Start.Version, "iperf "), out.End.Received.Rate / 1e6, out.End.Sent.Retransmits, nil
}
