package membership

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// User messages of memberlist: a byte says which, then what it is about.
const (
	msgLeaving  = 'f' // the name of a host that leaves for good
	msgStopping = 's' // the name of a host that stops, and is to be called back
	msgEcho     = 'e' // a nonce that its sender wants to see again
)

const (
	// goodbyeTimeout bounds how long the departure is passed on. By then it was sent at
	// least 3 times, in each of at least 3 rounds of gossip to up to 4 hosts; those
	// that have heard it pass it on, and a host that none of it reached learns of it from
	// the next state exchange (see table.bury).
	goodbyeTimeout = time.Second
	// farewellPause is how long before the departure, and how long after the first, the
	// farewells go out. Gossip comes a round (300 ms) later at the latest.
	farewellPause = 50 * time.Millisecond
)

// sayGoodbye sends every member a farewell, then departs; as says whether to come back
// (Stopped) or not (Left). With the second step alone the others could not tell it from a
// death: memberlist's event does not say. With the first
// step as gossip, it would have to be passed on to the end before the second begins,
// which takes as long again: memberlist replaces older news of a host by newer.
func (m *Membership) sayGoodbye(as State) {
	m.delegate.leaving.Store(int32(as))
	for range 2 { // a datagram may be lost
		m.farewell(as)
		time.Sleep(farewellPause)
	}
	// An error only says that the time was up.
	if err := m.list.Leave(goodbyeTimeout); err != nil {
		m.log.Debug("leaving", "err", err)
	}
	m.farewell(as)
}

func (m *Membership) farewell(as State) {
	kind := byte(msgStopping)
	if as == Left {
		kind = msgLeaving
	}
	msg := append([]byte{kind}, m.cfg.Name...)
	for _, n := range m.list.Members() {
		if n.Name != m.cfg.Name {
			_ = m.list.SendBestEffort(n, msg) // a host without a route hears from others
		}
	}
}

// NotifyMsg takes user messages. They are claims, as all gossip is: a farewell only names
// the departure that memberlist must find by itself, and that its host can deny.
func (d *delegate) NotifyMsg(b []byte) {
	if d.ended.Load() || len(b) < 2 {
		return
	}
	switch b[0] {
	case msgLeaving, msgStopping:
		as := Stopped
		if b[0] == msgLeaving {
			as = Left
		}
		if name := string(b[1:]); name != d.cfg.Name {
			d.table.parts(name, as, time.Now())
		}
	case msgEcho:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.echo != nil && bytes.Equal(b[1:], d.nonce) {
			close(d.echo)
			d.echo = nil
		}
	}
}

// expectEcho returns a message, and a channel that is closed when it comes in. One is
// expected at a time.
func (d *delegate) expectEcho() (msg []byte, came <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nonce = make([]byte, 16)
	rand.Read(d.nonce)
	d.echo = make(chan struct{})
	return append([]byte{msgEcho}, d.nonce...), d.echo
}

// echoPatience is how long a message to oneself may take, through a translator and back;
// it is sent echoTries times.
const (
	echoPatience = 300 * time.Millisecond
	echoTries    = 3
)

// ours reports whether addr leads to this host itself: by a message that comes back.
// Names and certificates do not tell, where a folder was copied to another machine.
func (m *Membership) ours(ctx context.Context, addr netip.AddrPort) bool {
	msg, came := m.delegate.expectEcho()
	for range echoTries {
		if m.list.SendToAddress(memberlist.Address{Addr: addr.String()}, msg) != nil {
			return true // nobody else is proven to be there
		}
		select {
		case <-came:
			return true
		case <-time.After(echoPatience):
		case <-ctx.Done():
			return true
		}
	}
	return false
}

// twin returns the error that ends this membership if a live host with this host's name
// answers at addr, which a dial has found, gossip claims, or this host believes to be its
// own. A host that others hold for alive at the address that it had before it moved is
// none: there nobody answers.
func (m *Membership) twin(ctx context.Context, addr netip.AddrPort) *NameTakenError {
	if m.table.company() || ctx.Err() != nil {
		return nil // who is in the cluster stays: the other one is kept out
	}
	m.delegate.takeSelf()
	if c, err := m.transport.DialAddressTimeout(memberlist.Address{Addr: addr.String()}, twinPatience); err == nil {
		c.Close()
	}
	if m.delegate.takeSelf() != addr || m.ours(ctx, addr) {
		return nil
	}
	return &NameTakenError{Name: m.cfg.Name, Ours: m.cfg.Advertise, By: addr, Live: true}
}

// twinPatience bounds the dial of a host that is said to have this host's name. So long a
// host behind a translator that does not lead it back to itself waits before it joins.
const twinPatience = 2 * time.Second

// checkOwn returns the error that ends this membership if another live host with this
// host's name is at the address that this one advertises: then this folder is a copy, and
// what it remembers of itself is true of the original. Nothing that the members know
// would tell the two apart. Where the address is that of the socket, nobody else can be.
func (m *Membership) checkOwn(ctx context.Context) *NameTakenError {
	if addrPort(m.cfg.Endpoint.Addr()) == m.cfg.Advertise {
		return nil
	}
	return m.twin(ctx, m.cfg.Advertise)
}

// A NameTakenError means that another host goes by this host's name.
type NameTakenError struct {
	Name string
	Ours netip.AddrPort
	By   netip.AddrPort
	// Live is set if the other host was seen to answer; else the members hold it for alive.
	Live bool
}

func (e *NameTakenError) Error() string {
	if e.Live && e.By == e.Ours {
		return fmt.Sprintf("the name %q belongs to a live host at %v, which this folder takes for its own address: if the folder is a copy of that host's, "+
			"join with a token, another --name and a --dir of its own; if this host has moved, end its other agent", e.Name, e.By)
	}
	if e.Live {
		return fmt.Sprintf("the name %q belongs to a live host at %v: choose another with --name, and a folder of its own with --dir", e.Name, e.By)
	}
	return fmt.Sprintf("host name %q, ours at %v, is in use at %v: if that is another host, one of the two must join under another name; "+
		"if it is this one before it moved, it will be let in once it has been found dead there", e.Name, e.Ours, e.By)
}
