package lab

import (
	"errors"
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// A fabric is all that lies between the hosts, and the hosts' namespaces. Its process is in a
// network namespace of its own, so that no name here meets one of the machine's.
type fabric struct {
	spec    *Spec
	id      string // alias of every host's loopback, so that Down knows what is the lab's
	handle  *netlink.Handle
	bridges []netlink.Link
	hosts   []*hostLink
	trunks  []*trunkLink
	taps    []*os.File // by site; none in a switch tree
	tapName []string
}

// A trunkLink is a cable between two bridges; ends[0] is the port of bridge A, which sends to B.
type trunkLink struct {
	ends [2]netlink.Link
	rate [2]gridnet.Rate
}

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
	noFilter()
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
	if err := f.fillTables(); err != nil {
		return f, err
	}
	return f, f.introduce()
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
	tap, err := unwatched(t.Fds[0])
	if err != nil {
		return fmt.Errorf("TAP device: %w", err)
	}
	f.taps, f.tapName = append(f.taps, tap), append(f.tapName, t.Name)
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

// explain adds what to do about a refusal.
func explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w; run as root, or allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns, as the system has it)", err)
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: the limit of namespaces, which may be 0; see sysctl user.max_user_namespaces and user.max_net_namespaces", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w; this kernel has no network or user namespaces", err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w; this kernel lacks it: load the modules bridge, veth and sch_tbf", err)
	}
	return err
}
