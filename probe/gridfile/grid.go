package gridfile

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gridagent/gridagent/probe/netmap"
)

// MaxHosts bounds the hosts of a grid, in either form.
const MaxHosts = netmap.MaxHosts

// A Grid is what a grid file declares. In the human form Sites and WAN are set; of the
// matrix form only [Grid.Snapshot] is known, and both are empty.
type Grid struct {
	Sites []Site
	WAN   []Link

	matrix *netmap.Snapshot
}

// A Site is a set of alike hosts on one local network.
type Site struct {
	Name  string
	Hosts int
	LAN   LAN // if Hosts is 1, its Bandwidth is that of the port, and 0 if nobody says
}

// A LAN joins the hosts of a site by a switch that never blocks.
type LAN struct {
	Bandwidth netmap.BytesPerSec // of each host's port, in each direction
	Latency   time.Duration      // one way between two hosts
	Queue     int                // packets that wait at the switch for one host; 0: the reader's default
	Jitter    time.Duration      // largest random extra delay of a packet at the receiver
}

// A Link is the directed path from one site to another, shared by all hosts of both.
type Link struct {
	From, To  int                // indices into Grid.Sites
	Bandwidth netmap.BytesPerSec // what one flow gets
	// Capacity is what all flows get together. Where the file does not give it, it is
	// Bandwidth: one pipe that all share.
	Capacity netmap.BytesPerSec
	Latency  time.Duration // one way
	Jitter   time.Duration // largest random extra delay of a packet
	Loss     float64       // share of packets lost at random, 0 … 1
	Queue    int           // packets that wait before the bottleneck; 0: the reader's default

	// Burst and Peak describe a token bucket: up to Burst bytes pass at Peak, more at
	// Capacity. Both 0: no bucket.
	Burst int64
	Peak  netmap.BytesPerSec

	// HeldBy says what keeps one flow at Bandwidth where Capacity is more.
	HeldBy Holder
}

// A Holder is what keeps a single flow below the capacity of a link.
type Holder string

const (
	// HeldByCeiling is the default: the network lets each flow have Bandwidth and no more.
	HeldByCeiling Holder = "ceiling"
	// HeldByLoss: nothing but the loss does; Bandwidth says what comes of it. Several
	// flows then get the sum only as far as their congestion control brings them.
	HeldByLoss Holder = "loss"
)

// FlowCeiling returns the rate to which the network itself holds one flow of l, if it does.
func (l Link) FlowCeiling() (netmap.BytesPerSec, bool) {
	return l.Bandwidth, l.Capacity > l.Bandwidth && l.HeldBy != HeldByLoss
}

// Matrix reports whether g was read from the matrix form.
func (g *Grid) Matrix() bool { return g.matrix != nil }

// HostName returns the name of host i of site: the site's name in lower case and the index,
// as in ut0.
func (g *Grid) HostName(site, i int) string {
	return fmt.Sprintf("%s%d", strings.ToLower(g.Sites[site].Name), i)
}

// Hosts returns the hosts in rank order: site after site as the file lists them. Of the
// matrix form it returns those of the matrix. The caller must not modify the slice.
func (g *Grid) Hosts() []netmap.Host {
	if g.matrix != nil {
		return g.matrix.Hosts()
	}
	var hosts []netmap.Host
	for s, site := range g.Sites {
		for i := range site.Hosts {
			hosts = append(hosts, netmap.Host{Name: g.HostName(s, i), Site: site.Name, PortMbps: site.LAN.Bandwidth.Mbps()})
		}
	}
	return hosts
}

// Snapshot returns the declared network as estimates, in the order of [Grid.Hosts] and with
// epoch 0: within a site the LAN's, across sites the link's, with [netmap.SourceDeclared]. One flow gets no more of a link than the ports at its ends carry.
// The capacity of a link stands with each host pair that crosses it, although all pairs
// share it: it must not be added up over the pairs. Of the matrix form it returns what the
// file holds.
//
// A grid from [Parse] has no error; one that was put together or changed by hand must pass
// [Grid.Check].
func (g *Grid) Snapshot() (*netmap.Snapshot, error) {
	if g.matrix != nil {
		return g.matrix, nil
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	between := make([]netmap.Estimate, len(g.Sites)*len(g.Sites)) // [from*sites+to]
	for i, site := range g.Sites {
		between[i*len(g.Sites)+i] = site.LAN.estimate()
	}
	for _, l := range g.WAN {
		for _, site := range []int{l.From, l.To} {
			if port := g.Sites[site].LAN.Bandwidth; port > 0 { // that of one host alone may be left out
				l.Bandwidth = min(l.Bandwidth, port)
			}
		}
		between[l.From*len(g.Sites)+l.To] = l.estimate()
	}
	hosts := g.Hosts()
	var siteOf []int
	for s, site := range g.Sites {
		for range site.Hosts {
			siteOf = append(siteOf, s)
		}
	}
	n := len(hosts)
	est := make([]netmap.Estimate, n*n)
	for i := range n {
		for j := range n {
			if i != j {
				est[i*n+j] = between[siteOf[i]*len(g.Sites)+siteOf[j]]
			}
		}
	}
	return netmap.NewSnapshot(0, hosts, est), nil
}

const declared = netmap.FieldLatency | netmap.FieldBandwidth | netmap.FieldCapacity | netmap.FieldLanes

func (l LAN) estimate() netmap.Estimate {
	return netmap.Estimate{
		Known: declared, Latency: l.Latency, Bandwidth: l.Bandwidth, Capacity: l.Bandwidth, Lanes: 1,
		Source: netmap.SourceDeclared,
	}
}

func (l Link) estimate() netmap.Estimate {
	e := netmap.Estimate{
		Known: declared, Latency: l.Latency, Bandwidth: l.Bandwidth, Capacity: l.Capacity, Lanes: 1,
		Source: netmap.SourceDeclared,
	}
	for netmap.BytesPerSec(e.Lanes)*l.Bandwidth < l.Capacity*(1-1e-9) && e.Lanes < netmap.MaxLanes {
		e.Lanes++
	}
	if l.Loss > 0 {
		e.Known |= netmap.FieldLoss
		e.Loss = l.Loss
	}
	return e
}

// Load reads and parses the grid file at path. Errors name the file.
func Load(path string) (*Grid, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("grid file: %w", err)
	}
	return Parse(path, data)
}
