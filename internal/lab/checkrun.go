package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// check measures this lab against what its links are set to now.
func (l *Lab) check(ctx context.Context, progress func(done, total int), found func(Measurement)) error {
	c := &checker{
		spec: l.spec, progress: progress, found: found,
		open: func(host int) (conn net.PacketConn, err error) {
			err = l.fabric.hosts[host].ns.do(func() error {
				conn, err = net.ListenPacket("udp4", net.JoinHostPort(l.spec.Hosts[host].Addr.String(), "0"))
				return err
			})
			return conn, err
		},
		link:  func(from, to string) (gridnet.Link, error) { return l.wan.net.Link(from, to) },
		cut:   func(k Link) bool { l.mu.Lock(); defer l.mu.Unlock(); return l.cut[k] },
		port:  func(h int) gridnet.Rate { l.mu.Lock(); defer l.mu.Unlock(); return l.fabric.hosts[h].shape.Rate },
		trunk: func(t, end int) gridnet.Rate { l.mu.Lock(); defer l.mu.Unlock(); return l.fabric.trunks[t].rate[end] },
	}
	return c.run(ctx)
}

// CheckEmulated measures the emulator alone on the network of a lab, in this process and in real time,
// as its file says: beside a lab's own check it tells whether the two agree.
func CheckEmulated(ctx context.Context, spec *Spec, progress func(done, total int), found func(Measurement)) error {
	return checkEmulated(ctx, spec, spec.Emulated, progress, found)
}

// checkEmulated is CheckEmulated with another configuration, without RealTime in a bubble.
func checkEmulated(ctx context.Context, spec *Spec, cfg gridnet.Config, progress func(done, total int), found func(Measurement)) error {
	n, err := gridnet.New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(emulatedChecker(spec, n, progress, found).run(ctx), n.Close())
}

func emulatedChecker(spec *Spec, n *gridnet.Network, progress func(done, total int), found func(Measurement)) *checker {
	return &checker{
		spec: spec, progress: progress, found: found,
		open:  func(host int) (net.PacketConn, error) { return n.Listen(spec.Hosts[host].Name) },
		link:  n.Link,
		cut:   func(Link) bool { return false },
		port:  func(h int) gridnet.Rate { return spec.Hosts[h].Port.Rate },
		trunk: func(t, _ int) gridnet.Rate { return spec.Trunks[t].Shape.Rate },
	}
}

// Made returns what a lab was made from, as its file said.
func Made(name string) (*Spec, error) {
	if _, err := Read(name); err != nil {
		return nil, err
	}
	req, err := readRequest(name)
	if err != nil {
		return nil, err
	}
	return req.parse()
}

// A checkEvent is a line of the answer to a check: one of its fields is set.
type checkEvent struct {
	Done, Total int
	Found       *Measurement `json:",omitempty"`
	Error       string       `json:",omitempty"`
	Over        bool         `json:",omitempty"`
}

// serveCheck answers with a line for each event, the last of which is Over or Error.
func (l *Lab) serveCheck(w http.ResponseWriter, r *http.Request) {
	if !l.checking.TryLock() {
		http.Error(w, "another check is running in this lab; two would disturb each other", http.StatusConflict)
		return
	}
	defer l.checking.Unlock()
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	tell := func(e checkEvent) {
		_ = enc.Encode(e) // who asked has gone: then the request's context ends
		_ = flush.Flush()
	}
	ctx := r.Context()
	err := l.check(ctx, func(done, total int) { tell(checkEvent{Done: done, Total: total}) },
		func(m Measurement) { tell(checkEvent{Found: &m}) })
	if ctx.Err() != nil { // who asked has gone, or listens and is told that the lab goes
		err = errors.New("the lab was taken down during the check")
	}
	if err != nil {
		tell(checkEvent{Error: err.Error()})
		return
	}
	tell(checkEvent{Over: true})
}

// Check has the lab measure itself: each host's port, cable and link, one after the other,
// in a second or some each. Anything else that sends in the lab disturbs it: see [Client.Traffic].
func (c *Client) Check(ctx context.Context, progress func(done, total int), found func(Measurement)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://lab/check", nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("lab %s: %w", c.State.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return errors.New(strings.TrimSpace(string(text)))
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		var e checkEvent
		if err := json.Unmarshal(bytes.TrimSpace(lines.Bytes()), &e); err != nil {
			return fmt.Errorf("lab %s: check: %w", c.State.Name, err)
		}
		switch {
		case e.Found != nil:
			found(*e.Found)
		case e.Error != "":
			return errors.New(e.Error)
		case e.Over:
			return nil
		default:
			progress(e.Done, e.Total)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("lab %s ended in the middle of the check: %w", c.State.Name, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}
