package membership

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/gridagent/gridagent/agent/identity"
)

// maxRTT is the longest round trip that is believed. Whatever arrives over the
// network is checked: one NaN once infected whole clusters (consul#3023).
const maxRTT = time.Minute

// maxComplaints bounds what is remembered so as not to be logged twice.
const maxComplaints = 256

// A delegate hears what memberlist finds out. memberlist calls most of it with its
// own lock held: nothing here blocks or calls back.
type delegate struct {
	cfg     *Config
	log     *slog.Logger
	table   *table
	leaving atomic.Bool
	ended   atomic.Bool // the view stays as it was: memberlist's timers fire on after its end

	mu         sync.Mutex // guards the fields below
	complaints map[string]struct{}
	mergeErr   error // of the last merge refused, until takeMergeErr
}

// A NameTakenError means that another live host goes by this host's name.
type NameTakenError struct {
	Name string
	Ours netip.AddrPort
	By   netip.AddrPort
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("host name %q, ours at %v, is in use at %v: if that is another host, one of the two must join under another name; "+
		"if it is this one before it moved, it will be let in once it has been found dead there", e.Name, e.Ours, e.By)
}

// once reports whether key is complained about for the first time.
func (d *delegate) once(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.complaints[key]; ok || len(d.complaints) >= maxComplaints {
		return false
	}
	d.complaints[key] = struct{}{}
	return true
}

// NodeMeta is what this host says of itself.
func (d *delegate) NodeMeta(limit int) []byte {
	m := d.cfg.Meta
	m.Leaving = d.leaving.Load()
	b := m.appendTo(nil)
	return b[:min(len(b), limit)] // at most 76 bytes, limit is 512
}

// The user messages and state of memberlist are not used: what is larger than
// metadata travels on lanes.

func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
func (d *delegate) AckPayload() []byte              { return nil }
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.alive(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.alive(n) }

// member converts n, whose bytes memberlist may change later.
func member(n *memberlist.Node, s State, now time.Time) (Member, error) {
	addr, _ := netip.AddrFromSlice(n.Addr)
	meta, err := parseMeta(n.Meta)
	return Member{Name: n.Name, Addr: normal(netip.AddrPortFrom(addr, n.Port)), State: s, Since: now, Meta: meta}, err
}

func (d *delegate) alive(n *memberlist.Node) {
	if d.ended.Load() {
		return
	}
	m, err := member(n, Alive, time.Now())
	if err != nil && d.once("meta "+n.Name) {
		d.log.Warn("member's metadata not understood", "host", n.Name, "err", err)
	}
	if old, ok := d.table.get(m.Name); ok && old.State == Alive {
		m.Since = old.Since
	}
	if old, known := d.table.set(m); m.Name != d.cfg.Name && (!known || old.State != Alive) {
		d.log.Info("member joined", "host", m.Name, "addr", m.Addr, "site", m.Site)
	}
}

// NotifyLeave is told of deaths and of departures alike; a departure announces itself
// in the metadata first.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	if d.ended.Load() {
		return
	}
	m, _ := member(n, Failed, time.Now())
	if m.Leaving || m.Name == d.cfg.Name {
		m.State = Left
	}
	d.table.set(m)
	if m.Name == d.cfg.Name {
		return
	}
	if m.State == Left {
		d.log.Info("member left", "host", m.Name, "addr", m.Addr)
	} else {
		d.log.Warn("member failed", "host", m.Name, "addr", m.Addr)
	}
}

// NotifyAlive keeps claims out that cannot be true or useful.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	m, _ := member(n, Alive, time.Time{})
	if m.Name == d.cfg.Name {
		return nil // conflicts are NotifyConflict's
	}
	name, err := identity.HostName(m.Name)
	if err == nil && name != m.Name {
		err = &identity.NameError{What: "host name", Name: m.Name, Reason: "is not in its normal form"}
	}
	if err == nil {
		err = checkAddr(m.Addr)
	}
	if err == nil && m.Addr.Addr().IsLoopback() && !d.cfg.Advertise.Addr().IsLoopback() {
		err = &AdvertiseError{Host: m.Name, Addr: m.Addr, Peer: d.cfg.Advertise}
	}
	if err != nil && d.once("alive "+m.Name+" "+m.Addr.String()) {
		d.log.Warn("member refused", "host", m.Name, "addr", m.Addr, "err", err)
	}
	return err
}

// NotifyConflict is told of two addresses under one name; memberlist keeps the first.
// It is only logged: a gossip claim never evicts a host.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	mine, _ := member(existing, Alive, time.Time{})
	theirs, _ := member(other, Alive, time.Time{})
	if !d.once("conflict " + mine.Name + " " + theirs.Addr.String()) {
		return
	}
	if mine.Name == d.cfg.Name {
		d.log.Error("another host uses this host's name", "err", &NameTakenError{Name: mine.Name, Ours: mine.Addr, By: theirs.Addr})
		return
	}
	d.log.Warn("two hosts under one name", "host", mine.Name, "kept", mine.Addr, "refused", theirs.Addr)
}

// NotifyMerge refuses to join a cluster in which another host has our name.
func (d *delegate) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.Name != d.cfg.Name || n.State != memberlist.StateAlive && n.State != memberlist.StateSuspect {
			continue
		}
		if m, _ := member(n, Alive, time.Time{}); m.Addr != d.cfg.Advertise {
			err := &NameTakenError{Name: m.Name, Ours: d.cfg.Advertise, By: m.Addr}
			d.mu.Lock()
			d.mergeErr = err
			d.mu.Unlock()
			return err
		}
	}
	return nil
}

// takeMergeErr returns why a merge was refused since the last call: memberlist
// passes errors on as text only.
func (d *delegate) takeMergeErr() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.mergeErr
	d.mergeErr = nil
	return err
}

func (d *delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	if d.cfg.RTT != nil && !d.ended.Load() && rtt > 0 && rtt < maxRTT {
		d.cfg.RTT(n.Name, rtt)
	}
}
