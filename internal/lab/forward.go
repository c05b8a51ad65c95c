package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// A forwarder carries packets between the TAPs of the sites and the emulated network.
type forwarder struct {
	net   *gridnet.Network
	taps  []*os.File
	wires []*gridnet.Wire
	group sync.WaitGroup
	log   func(format string, args ...any)
}

// forward starts two goroutines a site, which end with close.
func forward(cfg gridnet.Config, taps []*os.File, log func(string, ...any)) (*forwarder, error) {
	n, err := gridnet.New(cfg)
	if err != nil {
		return nil, err
	}
	f := &forwarder{net: n, taps: taps, log: log}
	for _, s := range cfg.Sites {
		w, err := n.Attach(s.Name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("site %s: %w", s.Name, err), n.Close())
		}
		f.wires = append(f.wires, w)
	}
	for i, w := range f.wires {
		f.group.Go(func() { f.in(taps[i], w) })
		f.group.Go(func() { f.out(taps[i], w, i) })
	}
	return f, nil
}

// close ends the emulation and closes the TAPs; packets under way are lost.
func (f *forwarder) close() error {
	err := f.net.Close() // ends the readers of wires
	for _, t := range f.taps {
		err = errors.Join(err, t.Close()) // ends the readers of TAPs
	}
	f.group.Wait()
	return err
}

// in takes what the hosts of a site send to other sites.
func (f *forwarder) in(tap *os.File, w *gridnet.Wire) {
	buf := make([]byte, 2048)
	for {
		n, err := tap.Read(buf)
		if err != nil {
			f.ended("read from TAP", err)
			return
		}
		// Broadcasts of the site, such as ARP, come here as to any port of the bridge.
		if n < frameHeader || buf[12] != 0x08 || buf[13] != 0x00 || buf[0]&1 != 0 {
			continue
		}
		if err := w.Write(buf[frameHeader:n]); errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// out hands packets for the hosts of a site to their bridge.
func (f *forwarder) out(tap *os.File, w *gridnet.Wire, site int) {
	buf := make([]byte, frameHeader+gridnet.MTU)
	copy(buf[6:], mac(gateway(site)))
	buf[12] = 0x08 // IPv4
	for failed := 0; ; {
		n, err := w.Read(buf[frameHeader:])
		if err != nil {
			f.ended("read from the emulated network", err)
			return
		}
		copy(buf, mac(netip.AddrFrom4([4]byte(buf[frameHeader+16:]))))
		if _, err := tap.Write(buf[:frameHeader+n]); err != nil {
			if errors.Is(err, fs.ErrClosed) {
				return
			}
			// The bridge is down or out of memory: one packet is lost. Logged at 1, 2, 4, 8 …, since there may be many.
			if failed++; failed&(failed-1) == 0 {
				f.log("write to TAP: %v; %d packets lost so far", err, failed)
			}
		}
	}
}

func (f *forwarder) ended(what string, err error) {
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, fs.ErrClosed) {
		f.log("%s: %v", what, err)
	}
}
