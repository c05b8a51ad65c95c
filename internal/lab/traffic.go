package lab

import (
	"context"
	"time"
)

// A Sender is a host that sends.
type Sender struct {
	Host string  `json:"host"`
	Rate float64 `json:"bytes_per_second"` // IP bytes
}

// Traffic watches the lab for a time and returns the hosts that send in it, in the order of the lab:
// what there is before a check is most likely there during it.
func (c *Client) Traffic(ctx context.Context, during time.Duration) ([]Sender, error) {
	before, err := c.Stats(ctx)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := c.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return senders(before, after), nil
}

// senders returns who has sent between two readings of the counters.
func senders(before, after *Stats) []Sender {
	var list []Sender
	for i, h := range after.Hosts {
		if n := h.Out.Sent.Bytes - before.Hosts[i].Out.Sent.Bytes; n > 0 {
			list = append(list, Sender{h.Host, float64(n) / (after.Seconds - before.Seconds)})
		}
	}
	return list
}
