package lab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A hostLink is the cable between a host and its bridge.
type hostLink struct {
	ns     *netns
	handle *netlink.Handle // in ns
	inside netlink.Link    // eth0
	port   netlink.Link    // of the bridge
	shape  Shape
}

// The interface of every host.
const eth0 = "eth0"

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

// configure sets up the inside of a host.
func (h *hostLink) configure(spec HostSpec, wan bool, id string) error {
	lo, err := h.handle.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := h.handle.LinkSetUp(lo); err != nil {
		return err
	}
	// Not of eth0, which goes with the fabric when the supervisor crashes.
	if err := h.handle.LinkSetAlias(lo, id); err != nil {
		return err
	}
	if h.inside, err = h.handle.LinkByName(eth0); err != nil {
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
		// Nobody answers for the gateway: its address leads to the TAP.
		if err := h.knows(gw); err != nil {
			return err
		}
		if err := h.handle.RouteAdd(&netlink.Route{LinkIndex: h.inside.Attrs().Index, Gw: gw.AsSlice()}); err != nil {
			return err
		}
	}
	return setShape(h.handle, h.inside, spec.Port.Rate, spec.Port.Out)
}

// knows makes the host send to an address without asking who has it.
func (h *hostLink) knows(a netip.Addr) error {
	return h.handle.NeighSet(&netlink.Neigh{
		LinkIndex: h.inside.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac(a),
	})
}

// noIPv6 keeps a namespace, that of the thread, from advertising itself on every link.
func noIPv6() {
	for _, which := range []string{"all", "default"} {
		// A kernel without IPv6 has no such file, and no need of it.
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
	}
}

// noFilter keeps the bridges of a namespace, that of the thread, from asking its firewall about every packet. On a machine with
// br_netfilter, which containers bring, that is the default.
func noFilter() {
	for _, which := range []string{"iptables", "ip6tables", "arptables"} {
		_ = os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-"+which, []byte("0"), 0)
	}
}

// setCongestion sets TCP's congestion control in the namespace of the thread; empty leaves it.
func setCongestion(name string) error {
	if name == "" {
		return nil
	}
	const sysctl = "/proc/sys/net/ipv4/tcp_"
	err := os.WriteFile(sysctl+"congestion_control", []byte(name), 0)
	list := func(which string) string {
		have, _ := os.ReadFile(sysctl + which + "_congestion_control")
		return strings.TrimSpace(string(have))
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("congestion control %q: this kernel has %s; is there a module tcp_%s to load?", name, list("available"), name)
	case errors.Is(err, os.ErrPermission): // root too: the list holds for all namespaces but the machine's own
		allowed := list("allowed")
		return fmt.Errorf("congestion control %q: allowed in a lab are %s; to add it: sysctl -w net.ipv4.tcp_allowed_congestion_control='%s %s'",
			name, allowed, allowed, name)
	case err != nil:
		return fmt.Errorf("congestion control %q: %w", name, err)
	}
	return nil
}
