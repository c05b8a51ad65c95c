package exchange

import (
	"fmt"
	"math"

	"github.com/gridagent/gridagent/exchange/plan"
)

// What a host sends over a link between sites is not known to its mates, and each takes itself for one of as many as there are hosts. Where blocks differ much
// in size that is wrong: 5 MiB of one host beside 1 KiB of nineteen went at an eighth of a link that would have carried eight times as much
// (docs/design/lanes.md). So whoever cuts a plan into parts tells, of such links, what crosses them in all. Where pieces are relayed hosts seldom send alike,
// and what goes over a slow link goes at each host's part of it (spacing.go).

// A Crossing is a link between two sites over which hosts of the first, or pairs of hosts, send unequal shares.
type Crossing struct {
	Host  int   // index in Part.Hosts: one of those that this host sends to there
	Bytes int64 // that all hosts of this host's site send there together
}

// unlike is by how much of the mean of its site what a host sends over a link must differ from it for the link to be told of, and uneven how many times the mean of all pairs of hosts
// that an alltoall uses one of them must send.
const (
	unlike = 0.05
	uneven = 2
)

// A crossed is what crosses a link.
type crossed struct {
	all, least int64 // bytes, and of the host that sends least
	hosts      int   // that send any
	most, pair int64 // of the host, and of the pair of hosts, that sends most
	pairs      int   // that send any
	few, many  int   // pairs of the host in fewest, and in most
}

// Weigh sets the Crossings of the parts of a plan, of which parts[i] is that of Hosts[i]; site says where a host stands, "" if nobody knows.
func Weigh(parts []*Part, site func(host string) string) {
	type link struct{ from, to string }
	hosts, links := make(map[string]int), make(map[link]crossed)
	for _, p := range parts {
		from := site(p.Hosts[p.Self])
		hosts[from]++
		for to, c := range p.crossings(site) {
			x := links[link{from, to}]
			if x.hosts == 0 || c.all < x.least {
				x.least = c.all
			}
			x.all, x.most, x.hosts = x.all+c.all, max(x.most, c.most), x.hosts+1
			if x.pairs == 0 || c.pairs < x.few {
				x.few = c.pairs
			}
			x.pairs, x.pair, x.many = x.pairs+c.pairs, max(x.pair, c.pair), max(x.many, c.pairs)
			links[link{from, to}] = x
		}
	}
	for _, p := range parts {
		p.Crossings = nil
		from, told := site(p.Hosts[p.Self]), make(map[string]bool)
		for _, s := range p.Sends {
			to := site(p.Hosts[s.Dst])
			x, ok := links[link{from, to}]
			if ok && !told[to] && x.tell(hosts[from], p.Collective) {
				told[to] = true
				p.Crossings = append(p.Crossings, Crossing{Host: s.Dst, Bytes: x.all})
			}
		}
	}
}

// tell reports whether the hosts of a site, n of them, are to be told of the link: where they do not send alike. In an alltoall they are as well where one of them would guess wrong how many
// pairs share it, which is as if all did what it does (run.sharing): of two hosts with three pairs and two, each took itself for one of two alike.
func (x *crossed) tell(n int, c plan.Collective) bool {
	mean, pair := float64(x.all)/float64(max(n, 1)), float64(x.all)/float64(max(x.pairs, 1))
	if x.hosts < n || float64(x.most) > (1+unlike)*mean || float64(x.least) < (1-unlike)*mean {
		return true
	}
	return c == plan.Alltoall && (float64(x.pair) > uneven*pair || n*x.few != x.pairs || n*x.many != x.pairs)
}

// crossings returns by site what p sends there, of other sites than its own.
func (p *Part) crossings(site func(host string) string) map[string]crossed {
	from := site(p.Hosts[p.Self])
	to := make([]int64, len(p.Hosts))
	for i := range p.Sends {
		to[p.Sends[i].Dst] += p.carries(p.Sends[i].Blocks)
	}
	own := make(map[string]crossed)
	for dst, bytes := range to {
		there := site(p.Hosts[dst])
		if bytes == 0 || from == "" || there == "" || from == there {
			continue
		}
		c := own[there]
		c.all, c.pairs, c.pair = c.all+bytes, c.pairs+1, max(c.pair, bytes)
		c.most = c.all
		own[there] = c
	}
	return own
}

// carries returns the bytes of blocks, which are indices in p.Blocks.
func (p *Part) carries(blocks []int) (n int64) {
	for _, b := range blocks {
		n += p.Blocks[b].Size
	}
	return n
}

// sentTo returns the bytes that this host sends to the hosts that are meant.
func (p *Part) sentTo(meant func(host string) bool) (n int64) {
	for i := range p.Sends {
		if meant(p.Hosts[p.Sends[i].Dst]) {
			n += p.carries(p.Sends[i].Blocks)
		}
	}
	return n
}

// gotFrom returns how many bytes this host gets from hosts that are meant.
func (p *Part) gotFrom(meant func(host string) bool) (n int64) {
	for i := range p.Recvs {
		if meant(p.Hosts[p.Recvs[i].Src]) {
			n += p.carries(p.Recvs[i].Blocks)
		}
	}
	return n
}

// like returns how many senders like this host would send all that crosses the link to the site of the host to, if each sent as much as this one, or as much as this one
// sends to that host alone; at least 1, and at most most. It is guess where nothing has been told of the link.
func (p *Part) like(site func(host string) string, to string, alone bool, guess, most int) int {
	c, ok := p.crossing(site, to)
	there := site(to)
	own := p.sentTo(func(dst string) bool { return dst == to || !alone && site(dst) == there })
	if !ok || own == 0 {
		return guess
	}
	return int(min(max(math.Round(float64(c.Bytes)/float64(own)), 1), float64(most)))
}

// crossing returns what has been told of the link to the site of the host to, if anything has.
func (p *Part) crossing(site func(host string) string, to string) (Crossing, bool) {
	there := site(to)
	for _, c := range p.Crossings {
		if site(p.Hosts[c.Host]) == there {
			return c, true
		}
	}
	return Crossing{}, false
}

// share returns what this host sends, own bytes, to the site of the host to as a share of all that crosses the link there: what has been told of it, or one of so many alike.
func (p *Part) share(site func(host string) string, to string, own int64, alike int) float64 {
	if c, ok := p.crossing(site, to); ok && c.Bytes >= own && own > 0 {
		return float64(own) / float64(c.Bytes)
	}
	return 1 / float64(max(alike, 1))
}

// busyBackShare is how long the way back must be busy, as a share of how long this one is, for it to matter. What
// it was chosen by is in docs/design/lanes.md.
const busyBackShare = 0.75

// busyBack reports whether what this host gets from the site of the host to takes the way back about as long as what it sends there takes path, or longer. A
// host to which nothing comes from there cannot tell, and says that it does.
func (p *Part) busyBack(site func(host string) string, to string, path Path) bool {
	there := site(to)
	at := func(host string) bool { return site(host) == there }
	out, in := p.sentTo(at), p.gotFrom(at)
	return in == 0 || path.Back.Time(in).Seconds() >= busyBackShare*path.capacity().Time(out).Seconds()
}

func (p *Part) checkCrossings() error {
	if len(p.Crossings) > len(p.Hosts) {
		return fmt.Errorf("%d crossings of %d hosts", len(p.Crossings), len(p.Hosts))
	}
	for _, c := range p.Crossings {
		if c.Host < 0 || c.Host >= len(p.Hosts) || c.Host == p.Self || c.Bytes < 0 || c.Bytes > maxBytes {
			return fmt.Errorf("%d bytes cross to the site of host %d", c.Bytes, c.Host)
		}
	}
	return nil
}
