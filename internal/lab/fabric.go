package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// A fabric is all that lies between the hosts, and the hosts' namespaces. Its process is in a
// network namespace of its own, so that no name here meets one of the machine's.
type fabric struct {
	spec    *Spec
	id      string // marks every host's interface, so that Down knows what is the lab's
	handle  *netlink.Handle
	bridges []netlink.Link
	hosts   []*hostLink
	trunks  []*trunkLink
	taps    []*os.File // by site; none in a switch tree
	tapName []string
}

// A hostLink is the cable between a host and its bridge.
type hostLink struct {
	ns     *netns
	handle *netlink.Handle // in ns
	inside netlink.Link    // eth0
	port   netlink.Link    // of the bridge
	shape  Shape
}

// A trunkLink is a cable between two bridges; ends[0] is the port of bridge A, which sends to B.
type trunkLink struct {
	ends [2]netlink.Link
	rate [2]gridnet.Rate
}

// The interface of every host.
const eth0 = "eth0"

// build makes the lab of spec in the network namespace of this process.
func build(spec *Spec, id, congestion string) (f *fabric, err error) {
	f = &fabric{spec: spec, id: id}
	defer func() {
		if err != nil {
			f.close()
			f = nil
		}
	}()
	if f.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return f, fmt.Errorf("talk to the kernel about links: %w", err)
	}
	noIPv6() // else every new link chatters
	if err := f.addBridges(); err != nil {
		return f, err
	}
	for i := range spec.Hosts {
		if err := f.addHost(i, congestion); err != nil {
			return f, fmt.Errorf("host %s: %w", spec.Hosts[i].Name, err)
		}
	}
	for i := range spec.Trunks {
		if err := f.addTrunk(i); err != nil {
			t := spec.Trunks[i]
			return f, fmt.Errorf("cable %s – %s: %w", spec.Sites[t.A], spec.Sites[t.B], err)
		}
	}
	if spec.WAN != nil {
		for site := range spec.Sites {
			if err := f.addTap(site); err != nil {
				return f, fmt.Errorf("site %s: %w", spec.Sites[site], err)
			}
		}
	}
	return f, f.fillTables()
}

func (f *fabric) close() {
	for _, h := range f.hosts {
		if h.handle != nil {
			h.handle.Close()
		}
		h.ns.file.Close()
	}
	for _, t := range f.taps {
		t.Close()
	}
	for _, b := range f.bridges {
		// The namespace takes the rest with it; a bridge that is named goes at once.
		_ = f.handle.LinkDel(b)
	}
	if f.handle != nil {
		f.handle.Close()
	}
}

func (f *fabric) addBridges() error {
	off := false
	for i, name := range f.spec.Sites {
		b := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs(), MulticastSnooping: &off}
		b.Name = fmt.Sprintf("br%d", i+1)
		b.Alias = name
		if err := f.handle.LinkAdd(b); err != nil {
			return fmt.Errorf("bridge of %s: %w", name, explain(err))
		}
		if err := f.handle.LinkSetUp(b); err != nil {
			return fmt.Errorf("bridge of %s: %w", name, err)
		}
		f.bridges = append(f.bridges, b)
	}
	return nil
}

func (f *fabric) addHost(i int, congestion string) error {
	spec := f.spec.Hosts[i]
	ns, err := newNetns()
	if err != nil {
		return explain(err)
	}
	h := &hostLink{ns: ns, shape: spec.Port}
	f.hosts = append(f.hosts, h)
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: eth0, PeerHardwareAddr: mac(spec.Addr), PeerNamespace: netlink.NsFd(int(ns.file.Fd()))}
	v.Name = fmt.Sprintf("h%d", i+1)
	if err := f.plug(v, spec.Site); err != nil {
		return err
	}
	h.port = v
	if err := setShape(f.handle, v, spec.Port.Rate, spec.Port.Queue); err != nil {
		return err
	}
	return ns.do(func() error {
		noIPv6()
		if err := setCongestion(congestion); err != nil {
			return err
		}
		// What one run learned of a path must not help the next.
		_ = os.WriteFile("/proc/sys/net/ipv4/tcp_no_metrics_save", []byte("1"), 0)
		if h.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return err
		}
		return h.configure(spec, f.spec.WAN != nil, f.id)
	})
}

// plug adds v to the fabric and its near end to the bridge of a site.
func (f *fabric) plug(v netlink.Link, site int) error {
	if err := f.handle.LinkAdd(v); err != nil {
		return explain(err)
	}
	if err := f.handle.LinkSetMaster(v, f.bridges[site]); err != nil {
		return err
	}
	return f.handle.LinkSetUp(v)
}

// configure sets up the inside of a host.
func (h *hostLink) configure(spec HostSpec, wan bool, id string) error {
	lo, err := h.handle.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := h.handle.LinkSetUp(lo); err != nil {
		return err
	}
	if h.inside, err = h.handle.LinkByName(eth0); err != nil {
		return err
	}
	if err := h.handle.LinkSetAlias(h.inside, id); err != nil {
		return err
	}
	bits := 8 // a switch tree is one network
	if wan {
		bits = 16 // a site is one, and the others are behind its gateway
	}
	ip := net.IP(spec.Addr.AsSlice())
	if err := h.handle.AddrAdd(h.inside, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(bits, 32)}}); err != nil {
		return err
	}
	if err := h.handle.LinkSetUp(h.inside); err != nil {
		return err
	}
	if wan {
		gw := gateway(spec.Site)
		index := h.inside.Attrs().Index
		// Nobody answers for the gateway: its address leads to the TAP.
		if err := h.handle.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: gw.AsSlice(), HardwareAddr: mac(gw)}); err != nil {
			return err
		}
		if err := h.handle.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gw.AsSlice()}); err != nil {
			return err
		}
	}
	return setShape(h.handle, h.inside, spec.Port.Rate, spec.Port.Out)
}

func (f *fabric) addTrunk(i int) error {
	spec := f.spec.Trunks[i]
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: fmt.Sprintf("t%db", i+1)}
	v.Name = fmt.Sprintf("t%da", i+1)
	if err := f.plug(v, spec.A); err != nil {
		return err
	}
	peer, err := f.handle.LinkByName(v.PeerName)
	if err != nil {
		return err
	}
	if err := errors.Join(f.handle.LinkSetMaster(peer, f.bridges[spec.B]), f.handle.LinkSetUp(peer)); err != nil {
		return err
	}
	f.trunks = append(f.trunks, &trunkLink{ends: [2]netlink.Link{v, peer}, rate: [2]gridnet.Rate{spec.Shape.Rate, spec.Shape.Rate}})
	for _, end := range []netlink.Link{v, peer} {
		if err := setShape(f.handle, end, spec.Shape.Rate, spec.Shape.Queue); err != nil {
			return err
		}
	}
	return nil
}

// addTap makes the way out of a site: frames for its gateway come to a file of this process.
func (f *fabric) addTap(site int) error {
	t := &netlink.Tuntap{
		LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.TUNTAP_MODE_TAP,
		Flags: netlink.TUNTAP_NO_PI, Queues: 1, NonPersist: true,
	}
	t.Name = fmt.Sprintf("wan%d", site+1)
	t.TxQLen = 10000 // a late reader should delay packets, not lose them
	if err := f.handle.LinkAdd(t); err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("wide-area links need a TAP device: %w; load the module tun, and let this user open /dev/net/tun, or be root", err)
		}
		return fmt.Errorf("TAP device: %w", err)
	}
	f.taps, f.tapName = append(f.taps, t.Fds[0]), append(f.tapName, t.Name)
	link, err := f.handle.LinkByName(t.Name)
	if err != nil {
		return err
	}
	if err := f.handle.LinkSetMaster(link, f.bridges[site]); err != nil {
		return err
	}
	if err := f.handle.LinkSetUp(link); err != nil {
		return err
	}
	return f.forwardTo(link, mac(gateway(site)))
}

// fillTables tells every bridge where every host is. A bridge that had to learn it would flood
// the first packets through shaped ports.
func (f *fabric) fillTables() error {
	for h, spec := range f.spec.Hosts {
		if err := f.forwardTo(f.hosts[h].port, mac(spec.Addr)); err != nil {
			return fmt.Errorf("host %s: %w", spec.Name, err)
		}
		if err := f.tellTrunks(spec.Site, -1, mac(spec.Addr)); err != nil {
			return fmt.Errorf("host %s: %w", spec.Name, err)
		}
	}
	return nil
}

// tellTrunks makes the port of every bridge beyond site, seen from there but not over the trunk
// from, lead back to it.
func (f *fabric) tellTrunks(site, from int, to net.HardwareAddr) error {
	for i, t := range f.spec.Trunks {
		if i == from || (t.A != site && t.B != site) {
			continue
		}
		next, port := t.B, f.trunks[i].ends[1]
		if t.B == site {
			next, port = t.A, f.trunks[i].ends[0]
		}
		if err := f.forwardTo(port, to); err != nil {
			return err
		}
		if err := f.tellTrunks(next, i, to); err != nil {
			return err
		}
	}
	return nil
}

// forwardTo adds a fixed entry to the forwarding table of the bridge that port is of.
func (f *fabric) forwardTo(port netlink.Link, to net.HardwareAddr) error {
	err := f.handle.NeighSet(&netlink.Neigh{
		LinkIndex: port.Attrs().Index, Family: unix.AF_BRIDGE,
		State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: to,
	})
	if err != nil {
		return fmt.Errorf("forward %v to %s: %w", to, port.Attrs().Name, err)
	}
	return nil
}

// noIPv6 keeps a namespace, that of the thread, from advertising itself on every link.
func noIPv6() {
	for _, which := range []string{"all", "default"} {
		// A kernel without IPv6 has no such file, and no need of it.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
	}
}

// setCongestion sets TCP's congestion control in the namespace of the thread; empty leaves it.
func setCongestion(name string) error {
	if name == "" {
		return nil
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(name), 0); err != nil {
		which := "net.ipv4.tcp_available_congestion_control"
		if os.Getuid() != 0 {
			which = "net.ipv4.tcp_allowed_congestion_control"
		}
		have, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(which, ".", "/"))
		return fmt.Errorf("congestion control %q: %w; %s has %s", name, err, which, strings.TrimSpace(string(have)))
	}
	return nil
}

// explain adds what to do about a refusal.
func explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; run as root, or allow unprivileged user namespaces", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w; this kernel lacks it: load the modules bridge, veth and sch_tbf", err)
	}
	return err
}
