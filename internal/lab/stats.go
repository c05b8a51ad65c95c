package lab

import (
	"fmt"
	"time"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// Stats are a lab's counters since it came up. Bytes are of IP packets.
type Stats struct {
	Seconds float64     `json:"seconds"` // since the lab came up
	WAN     []WANStats  `json:"wan,omitempty"`
	Trunks  []PortStats `json:"trunks,omitempty"`
	Hosts   []HostStats `json:"hosts"`
	// Missed are packets between sites that this process did not fetch in time, and lost:
	// the machine was too busy, and what was measured is wrong.
	Missed uint64 `json:"missed_packets"`
	Late   Late   `json:"late"`
}

// Late says how far behind its time the emulation of the links between sites was. Counters
// can be subtracted, but for Worst.
type Late struct {
	Packets uint64  `json:"packets"`
	Over    uint64  `json:"over_1ms"` // of these, handed over more than 1 ms late
	Worst   float64 `json:"worst_s"`
}

// Count is a number of packets and their IP bytes.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// WANStats are the counters of one directed link between sites.
type WANStats struct {
	From      string           `json:"from"`
	To        string           `json:"to"`
	Offered   Count            `json:"offered"`
	Delivered Count            `json:"delivered"`
	Dropped   map[string]Count `json:"dropped,omitempty"` // by reason
	Inside    Count            `json:"inside"`            // queued or on the wire now
	HighWater int              `json:"high_water_packets"`
	Cut       bool             `json:"cut,omitempty"`
}

// PortStats are the counters of one direction of a cable.
type PortStats struct {
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Sent    Count  `json:"sent"`
	Dropped uint64 `json:"dropped_packets"` // queue full
	Queued  uint64 `json:"queued_packets"`  // now
	Cut     bool   `json:"cut,omitempty"`   // of a cable between switches
}

// HostStats are the counters of a host's port.
type HostStats struct {
	Host string    `json:"host"`
	Site string    `json:"site"`
	Out  PortStats `json:"out"`
	In   PortStats `json:"in"`
	Cut  bool      `json:"cut,omitempty"`
}

// Stats reads all counters.
func (l *Lab) Stats() (*Stats, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Stats{Seconds: time.Since(l.begun).Seconds()}
	if l.wan != nil {
		l.wanStats(s)
	}
	fabric, err := readCounters(l.fabric.handle)
	if err != nil {
		return nil, err
	}
	for i, h := range l.fabric.hosts {
		host := l.spec.Hosts[i]
		inside, err := readCounters(h.handle)
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", host.Name, err)
		}
		hs := HostStats{Host: host.Name, Site: l.spec.Sites[host.Site], Cut: l.cut[Link{From: host.Name}]}
		// A program in the host, which may be root there, can take the interface away.
		if hs.Out, err = inside.sent(h.inside); err == nil {
			hs.In, err = fabric.sent(h.port)
		}
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", host.Name, err)
		}
		s.Hosts = append(s.Hosts, hs)
	}
	for i, t := range l.fabric.trunks {
		ends := [2]string{l.spec.Sites[l.spec.Trunks[i].A], l.spec.Sites[l.spec.Trunks[i].B]}
		for e, end := range t.ends {
			p, err := fabric.sent(end)
			if err != nil {
				return nil, fmt.Errorf("cable %s – %s: %w", ends[0], ends[1], err)
			}
			p.From, p.To = ends[e], ends[1-e]
			p.Cut = l.cut[Link{p.From, p.To}]
			s.Trunks = append(s.Trunks, p)
		}
	}
	for _, name := range l.fabric.tapName {
		tap, err := l.fabric.handle.LinkByName(name)
		if err != nil {
			return nil, err
		}
		if c := tap.Attrs().Statistics; c != nil {
			s.Missed += c.TxDropped
		}
	}
	return s, nil
}

func (l *Lab) wanStats(s *Stats) {
	net := l.wan.net.Stats()
	s.Late = Late{net.Late.Packets, net.Late.Over, net.Late.Worst.Seconds()}
	for _, link := range net.Links {
		w := WANStats{
			From: link.From, To: link.To,
			Offered: count(link.Offered), Delivered: count(link.Delivered), Inside: count(link.Inside),
			HighWater: link.HighWater, Cut: l.cut[Link{link.From, link.To}],
		}
		for reason, c := range link.Dropped {
			if c.Packets > 0 {
				if w.Dropped == nil {
					w.Dropped = make(map[string]Count)
				}
				w.Dropped[gridnet.Reason(reason).String()] = count(c)
			}
		}
		s.WAN = append(s.WAN, w)
	}
}

func count(c gridnet.Count) Count { return Count{c.Packets, c.Bytes} }
