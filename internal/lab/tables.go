package lab

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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

// introduce tells every host the hardware addresses of those it reaches without a gateway. A host that had to
// ask would wait behind what fills a port, seconds on a slow one, and give up; nor does the emulator ask.
func (f *fabric) introduce() error {
	for i, h := range f.hosts {
		for k, other := range f.spec.Hosts {
			if k == i || (f.spec.WAN != nil && other.Site != f.spec.Hosts[i].Site) {
				continue
			}
			if err := h.knows(other.Addr); err != nil {
				return fmt.Errorf("host %s: address of %s: %w", f.spec.Hosts[i].Name, other.Name, err)
			}
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
