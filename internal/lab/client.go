package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
)

// A Client talks to the supervisor of a lab.
type Client struct {
	State *State
	http  *http.Client
}

// Dial returns a client of a lab that is up.
func Dial(name string) (*Client, error) {
	s, err := Read(name)
	if err != nil {
		return nil, err
	}
	if !s.Alive() {
		return nil, s.crashed()
	}
	var d net.Dialer
	path := filepath.Join(folder(name), socketFile)
	return &Client{State: s, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
	}}}, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Set changes a link, and with both the one back as well.
func (c *Client) Set(ctx context.Context, link Link, both bool, ch Change) error {
	return c.post(ctx, "/set", change{Link: link, Both: both, Change: ch})
}

// Cut pulls a cable; both directions of a link between sites if both.
func (c *Client) Cut(ctx context.Context, link Link, both bool) error {
	return c.post(ctx, "/cut", change{Link: link, Both: both})
}

// Heal undoes Cut.
func (c *Client) Heal(ctx context.Context, link Link, both bool) error {
	return c.post(ctx, "/heal", change{Link: link, Both: both})
}

// Stats returns the counters.
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	body, err := c.do(ctx, http.MethodGet, "/stats", nil)
	if err != nil {
		return nil, err
	}
	s := new(Stats)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("counters of lab %s: %w", c.State.Name, err)
	}
	return s, nil
}

func (c *Client) post(ctx context.Context, path string, v any) error {
	_, err := c.do(ctx, http.MethodPost, path, v)
	return err
}

func (c *Client) do(ctx context.Context, method, path string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", c.State.Name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("lab %s: %w", c.State.Name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(body)))
	}
	return body, nil
}
