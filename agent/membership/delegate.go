package membership

import (
	"encoding/json"
	"errors"
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
	leaving atomic.Int32 // Stopped or Left once this host is about to be so, else 0
	ended   atomic.Bool  // the view stays as it was: memberlist's timers fire on after its end
	met     atomic.Bool  // a join was let in: this host is in the cluster

	mu         sync.Mutex // guards the fields below
	complaints map[string]struct{}
	mergeErr   error          // of the last merge refused, until takeMergeErr
	selfAt     netip.AddrPort // where the last dial met this host's own name, until takeSelf
	nonce      []byte         // of the echo that is expected
	echo       chan struct{}  // closed when it comes; nil if none is expected
	probes     probeClock
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
	b := d.cfg.Meta.appendTo(nil)
	return b[:min(len(b), limit)] // at most 76 bytes, limit is 512
}

// LocalState is what a state exchange carries besides memberlist's own: who has left,
// which memberlist forgets after some seconds. Hosts that were down meanwhile would call
// those who left back for ever.
func (d *delegate) LocalState(bool) []byte {
	left := d.table.left(maxTold)
	if len(left) == 0 {
		return nil
	}
	b, err := json.Marshal(peersFile{Version: peersVersion, Peers: left})
	if err != nil {
		d.log.Error("who has left is not told", "err", err)
	}
	return b
}

// MergeRemoteState takes in who has left.
func (d *delegate) MergeRemoteState(b []byte, _ bool) {
	if d.ended.Load() {
		return
	}
	left, err := ParsePeers(b)
	if err != nil {
		if d.once("state") {
			d.log.Warn("a member's state is not understood", "err", err)
		}
		return
	}
	d.table.bury(left[:min(len(left), maxTold)], time.Now())
}

// Gossip of our own is not used: what is larger than metadata travels on lanes.

func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) AckPayload() []byte              { return nil }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.alive(n) }
func (d *delegate) NotifyJoin(n *memberlist.Node) {
	d.company(n, 1)
	d.alive(n)
}

// company counts the hosts that memberlist probes.
func (d *delegate) company(n *memberlist.Node, by int) {
	if n.Name == d.cfg.Name {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes.company(by, time.Now())
}

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

// NotifyLeave is told of deaths and of departures alike; a departure is announced by a
// farewell.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.company(n, -1)
	if d.ended.Load() {
		return
	}
	m, _ := member(n, Failed, time.Now())
	if m.Name == d.cfg.Name {
		m.State = State(d.leaving.Load())
	} else if old, _ := d.table.get(m.Name); old.parting != Unseen {
		m.State = old.parting
	}
	d.table.set(m)
	if m.Name == d.cfg.Name {
		return
	}
	switch m.State {
	case Left:
		d.log.Info("member left", "host", m.Name, "addr", m.Addr)
	case Stopped:
		d.log.Info("member stopped", "host", m.Name, "addr", m.Addr)
	default:
		d.log.Warn("member failed", "host", m.Name, "addr", m.Addr)
	}
}

// errNotMet keeps out what is said of others before this host has met any of them.
var errNotMet = errors.New("this host has not joined yet")

// NotifyAlive keeps claims out that cannot be true or useful, and all of them until a join, of this host's or another one's, has been let in: what members say to the host
// that they know by this one's name may come here, and would make this host a member without anybody having asked whose the name is.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	m, _ := member(n, Alive, time.Time{})
	if m.Name == d.cfg.Name {
		return nil // conflicts are NotifyConflict's
	}
	if !d.met.Load() {
		return errNotMet
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
	d.met.Store(true)
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

// metSelf notes that this host's own name answered at addr.
func (d *delegate) metSelf(addr netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.selfAt = addr
}

// takeSelf returns where a dial has met this host's own name since the last call.
func (d *delegate) takeSelf() netip.AddrPort {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr := d.selfAt
	d.selfAt = netip.AddrPort{}
	return addr
}

func (d *delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	d.mu.Lock()
	d.probes.answered(time.Now().Add(-rtt))
	d.mu.Unlock()
	if d.cfg.RTT != nil && !d.ended.Load() && rtt > 0 && rtt < maxRTT {
		d.cfg.RTT(n.Name, rtt)
	}
}
