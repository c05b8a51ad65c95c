package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/gridnet"
)

// moderation is how far apart turns are while there is much to do. A turn is a thread that wakes and sleeps again, which costs
// several times what a packet does; packets that come or are due in between wait for it.
const moderation = 200 * time.Microsecond

// turnPackets is how many packets a turn takes from one TAP at most, so that under a flood others still go out.
const turnPackets = 32

// A forwarder carries packets between the TAPs of the sites and the emulated network, in turns of one goroutine. A turn
// takes what has come, hands over what is due, and says when the next one is.
type forwarder struct {
	net    *gridnet.Network
	gates  []gate
	sleep  *sleeper
	ended  chan struct{} // closed when the goroutine has ended
	asleep atomic.Bool   // what becomes due earlier than the network said must ring
	ending atomic.Bool
	log    func(format string, args ...any)

	// The goroutine's own.
	last time.Time // when the last turn began
	buf  [2048]byte
}

// A gate is where a site's packets come and go.
type gate struct {
	tap  *os.File
	wire *gridnet.Wire
	hot  bool // looked at each turn; else it wakes the sleeper
	mac  [6]byte
	lost int // packets that could not be written
}

// forward starts the goroutine, which ends with close.
func forward(cfg gridnet.Config, taps []*os.File, log func(string, ...any)) (*forwarder, error) {
	f := &forwarder{gates: make([]gate, len(taps)), ended: make(chan struct{}), log: log}
	var err error
	if f.sleep, err = newSleeper(taps); err != nil {
		return nil, err
	}
	cfg.Rouse = f.rouse
	if f.net, err = gridnet.New(cfg); err != nil {
		f.sleep.close()
		return nil, err
	}
	for i, s := range cfg.Sites {
		w, err := f.net.Attach(s.Name)
		if err != nil {
			f.sleep.close()
			return nil, errors.Join(fmt.Errorf("site %s: %w", s.Name, err), f.net.Close())
		}
		f.gates[i] = gate{tap: taps[i], wire: w, mac: [6]byte(mac(gateway(i)))}
	}
	go func() {
		defer close(f.ended)
		f.sleep.run(f.turns)
	}()
	return f, nil
}

// close ends the emulation; packets under way are lost. The TAPs stay open.
func (f *forwarder) close() error {
	f.ending.Store(true)
	f.sleep.ring()
	<-f.ended
	f.sleep.close()
	return f.net.Close()
}

// rouse is called by the network. Before it sleeps, the goroutine looks at what is due itself.
func (f *forwarder) rouse() {
	if f.asleep.Load() {
		f.sleep.ring()
	}
}

// turns does what there is to do and sets when to wake; true is the end.
func (f *forwarder) turns() (end bool) {
	for !f.ending.Load() {
		if !f.turn() {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// turn returns whether there is more to do at once.
func (f *forwarder) turn() (more bool) {
	f.asleep.Store(false)
	now := time.Now()
	busy := now.Sub(f.last) < moderation
	f.last = now
	f.sleep.rang(func(i int) { f.gates[i].hot = true })
	done := 0
	for i := range f.gates {
		g := &f.gates[i]
		if !g.hot {
			continue
		}
		n := f.in(g)
		done += n
		more = more || n == turnPackets
	}
	f.asleep.Store(true) // before Advance: what changes after it rings
	due, ok := f.net.Advance()
	for i := range f.gates {
		done += f.out(&f.gates[i])
	}
	if more {
		return true
	}
	least := now.Add(moderation)
	if busy && done > 0 {
		f.sleep.until(least, true)
		return false
	}
	for i := range f.gates {
		if g := &f.gates[i]; g.hot {
			g.hot = false
			f.sleep.watch(i, g.tap)
		}
	}
	if due.Before(least) {
		due = least
	}
	f.sleep.until(due, ok)
	return false
}

// in takes what the hosts of a site send to other sites.
func (f *forwarder) in(g *gate) (packets int) {
	for packets < turnPackets {
		n, err := readNow(g.tap, f.buf[:])
		if err == unix.EAGAIN || err == unix.EINTR {
			break
		}
		if err != nil {
			f.log("read from TAP: %v", err)
			g.hot = false // and no one watches it again
			break
		}
		packets++
		// Broadcasts of the site, such as ARP, come here as to any port of the bridge.
		if n < frameHeader || f.buf[12] != 0x08 || f.buf[13] != 0x00 || f.buf[0]&1 != 0 {
			continue
		}
		_ = g.wire.Write(f.buf[frameHeader:n]) // not IPv4, whatever the frame says
	}
	return packets
}

// out hands packets for the hosts of a site to their bridge.
func (f *forwarder) out(g *gate) (packets int) {
	buf := f.buf[:frameHeader+gridnet.MTU]
	for {
		n, ok := g.wire.TryRead(buf[frameHeader:])
		if !ok {
			return packets
		}
		packets++
		copy(buf, mac(netip.AddrFrom4([4]byte(buf[frameHeader+16:]))))
		copy(buf[6:], g.mac[:])
		buf[12], buf[13] = 0x08, 0x00 // IPv4
		if err := writeNow(g.tap, buf[:frameHeader+n]); err != nil {
			// The bridge is down or out of memory: one packet is lost. Logged at 1, 2, 4, 8 …, since there may be many.
			if g.lost++; g.lost&(g.lost-1) == 0 {
				f.log("write to TAP: %v; %d packets lost so far", err, g.lost)
			}
		}
	}
}
