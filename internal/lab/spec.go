package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/gridnet"
	"github.com/gridagent/gridagent/probe/gridfile"
)

// A Spec says what a lab is made of. It is a pure function of a grid or switch tree.
type Spec struct {
	Sites  []string // or switches: a bridge each
	Hosts  []HostSpec
	Trunks []Trunk         // cables between bridges, made by the kernel
	WAN    *gridnet.Config // links between sites, made by the emulator; nil for a switch tree

	// Emulated is the same network as the emulator alone makes it.
	Emulated gridnet.Config

	// Notes are what the file says and the lab does not do.
	Notes []string
}

// A HostSpec is one host and its port.
type HostSpec struct {
	Name string
	Site int
	Addr netip.Addr
	Port Shape // from the host to its bridge, and back
}

// A Trunk is a full-duplex cable between the bridges A and B.
type Trunk struct {
	A, B  int
	Shape Shape // in each direction
}

// A Shape is a rate of IP bytes and the queues before it, in packets.
type Shape struct {
	Rate       gridnet.Rate // zero: no limit
	Out, Queue int          // at the host, at a switch
}

// Queues in packets, the defaults of internal/gridnet: Linux's txqueuelen, and a switch
// port with 384 KB of buffer.
const (
	hostQueue   = 1000
	switchQueue = 256
)

// kernelLatency is what a bridge and two veths take, with a wide margin: the file may ask
// for as little as it likes, and for no more than this.
const kernelLatency = time.Millisecond

// maxHosts keeps a lab within what one machine's bridge ports and processes can be.
const maxHosts = 250

// fromGrid returns the lab of a grid file. It refuses the matrix form, which does not say
// what pairs share.
func fromGrid(g *gridfile.Grid) (*Spec, error) {
	cfg, err := gridnet.FromGrid(g)
	if err != nil {
		return nil, err
	}
	cfg.RealTime = true
	s := &Spec{Emulated: cfg, WAN: &cfg}
	for i, site := range cfg.Sites {
		s.Sites = append(s.Sites, site.Name)
		for k, h := range site.Hosts {
			s.Hosts = append(s.Hosts, HostSpec{
				Name: h, Site: i, Addr: addr(i, k),
				Port: Shape{Rate: site.Rate, Out: hostQueue, Queue: orDefault(site.IngressQueue, switchQueue)},
			})
		}
		if site.Latency > kernelLatency {
			s.note("%s: within a site packets take what the kernel takes, about 0.05 ms, not %v", site.Name, site.Latency)
		}
		if site.ReceiveJitter > 0 {
			s.note("%s: within a site there is no jitter; the file says %v", site.Name, site.ReceiveJitter)
		}
	}
	return s, s.check()
}

// fromTopology returns the lab of a switch tree, whose links all have the rate of t.
func fromTopology(t *plan.Topology) (*Spec, error) {
	rate, ok := t.Bandwidth()
	if !ok {
		return nil, errors.New("the switch tree has no bandwidth_mbps; say --link-rate")
	}
	cfg, err := gridnet.FromTopology(t, 0)
	if err != nil {
		return nil, err
	}
	cfg.RealTime = true
	s := &Spec{Sites: t.Switches(), Emulated: cfg}
	shape := Shape{Rate: gridnet.Rate(rate), Out: hostQueue, Queue: switchQueue}
	count := make([]int, len(s.Sites))
	for h, name := range t.Hosts() {
		site := t.Home(h)
		s.Hosts = append(s.Hosts, HostSpec{Name: name, Site: site, Addr: addr(site, count[site]), Port: shape})
		count[site]++
	}
	for a := range s.Sites {
		for _, b := range t.Adjacent(a) {
			if a < b {
				s.Trunks = append(s.Trunks, Trunk{A: a, B: b, Shape: shape})
			}
		}
	}
	return s, s.check()
}

func (s *Spec) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

func (s *Spec) check() error {
	if len(s.Hosts) > maxHosts || len(s.Sites) > maxHosts {
		return fmt.Errorf("%d hosts on %d switches: a lab holds at most %d of each", len(s.Hosts), len(s.Sites), maxHosts)
	}
	if len(s.Hosts) == 0 {
		return errors.New("there is no host")
	}
	names := make(map[string]string)
	for _, h := range s.Hosts {
		// It becomes the host name of its processes and a word in /etc/hosts.
		if !hostName(h.Name) {
			return fmt.Errorf("host %q cannot be a host name: want up to 63 letters, digits, '-', '_' and '.', not - at the start, and not localhost", h.Name)
		}
		if err := checkRate("port of host "+h.Name, h.Port.Rate); err != nil {
			return err
		}
		// Resolvers do not tell A from a.
		lower := strings.ToLower(h.Name)
		if other, ok := names[lower]; ok {
			return fmt.Errorf("hosts %q and %q are the same host name", other, h.Name)
		}
		names[lower] = h.Name
	}
	for _, t := range s.Trunks {
		if err := checkRate(fmt.Sprintf("cable %s – %s", s.Sites[t.A], s.Sites[t.B]), t.Shape.Rate); err != nil {
			return err
		}
	}
	return nil
}

func hostName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= 63 && s[0] != '-' && s[0] != '.' && !strings.EqualFold(s, "localhost")
}

// Host returns the index of a host, -1 if there is none.
func (s *Spec) Host(name string) int {
	for i := range s.Hosts {
		if s.Hosts[i].Name == name {
			return i
		}
	}
	return -1
}

// Trunk returns the index of the trunk between two switches, -1 if there is none, and whether
// from is its B end.
func (s *Spec) Trunk(from, to string) (i int, reverse bool) {
	for i, t := range s.Trunks {
		switch {
		case s.Sites[t.A] == from && s.Sites[t.B] == to:
			return i, false
		case s.Sites[t.A] == to && s.Sites[t.B] == from:
			return i, true
		}
	}
	return -1, false
}

// Links returns what has two ends, in both directions where there are two: links between sites or trunks.
func (s *Spec) Links() []Link {
	var links []Link
	if s.WAN != nil {
		for _, l := range s.WAN.Links {
			links = append(links, Link{l.From, l.To})
		}
	}
	for i := range s.Trunks {
		links = append(links, s.cable(i, 0), s.cable(i, 1))
	}
	return links
}

// cable is a trunk seen from its A end (0) or B end (1).
func (s *Spec) cable(trunk, end int) Link {
	t := s.Trunks[trunk]
	ends := [2]string{s.Sites[t.A], s.Sites[t.B]}
	return Link{ends[end], ends[1-end]}
}

// addr numbers hosts as internal/gridnet does: 10.s.h.h, sites and hosts from 1.
func addr(site, host int) netip.Addr {
	n := host + 1
	return netip.AddrFrom4([4]byte{10, byte(site + 1), byte(n >> 8), byte(n)})
}

// gateway is the address behind which a host finds the other sites.
func gateway(site int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(site + 1), 255, 254})
}

// mac returns the hardware address that belongs to an IP address: nobody has to ask for it.
func mac(a netip.Addr) net.HardwareAddr {
	ip := a.As4()
	return net.HardwareAddr{0x02, 0x4c, ip[0], ip[1], ip[2], ip[3]}
}

func orDefault(v, d int) int {
	if v == 0 {
		return d
	}
	return v
}
