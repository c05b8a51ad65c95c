package lane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

// QUIC application errors with which connections end.
const (
	codeClosed quic.ApplicationErrorCode = 0 // in good order
	codeBusy   quic.ApplicationErrorCode = 2 // there are too many already
)

// maxStreams is how many streams a peer may have open on one connection. Each costs a
// goroutine; an exchange takes one or two for each rank pair and lane, memberlist one at a time.
const maxStreams = 1024

// usualPacket is what a packet carries of a stream, in bytes, or so.
const usualPacket = 1250

// Config is what an [Endpoint] needs.
type Config struct {
	// Conn is the agent's socket. The endpoint owns it and closes it. In production
	// it is the bare *net.UDPConn: a wrapped one costs twice the CPU (no GSO).
	Conn net.PacketConn
	// OpenSocket opens one more socket of this host, on any free port, for a lane above 0
	// that this end dials: the endpoint closes it when the lane has ended. Networks tell
	// flows by address and port, so only lanes with ports of their own are held, queued and
	// routed each by itself. It must not block. Nil: all lanes share Conn.
	OpenSocket func() (net.PacketConn, error)
	// Listener takes the connections of TCP lanes. The endpoint owns it and closes it. Peers
	// look for it at the number of Conn's port. Nil: this host takes none.
	Listener net.Listener
	// DialTCP connects to the TCP port at addr, over the congestion control with that name, or the
	// system's if it is empty. In production it is that of [DialTCP]. Nil: this host dials no TCP lanes.
	DialTCP     func(ctx context.Context, addr net.Addr, congestion string) (net.Conn, error)
	Credentials Credentials
	// StatelessReset keys the resets by which a restarted agent ends its peers' old
	// connections at once. All zero disables them.
	StatelessReset [32]byte
	// IdleTimeout ends a connection on which nothing has arrived for so long after a
	// ping was sent: the loss of a peer is noticed within KeepAlive + IdleTimeout of its
	// last packet (or 3 retransmission timeouts, on a path where those are longer). Zero
	// means 6 s: the loss of a host must reach every rank within 10 s. Under 5 s a peer
	// with a larger one takes it for 5 s; under the longest outages of a path, lanes break
	// for nothing.
	IdleTimeout time.Duration
	// KeepAlive is the pause after which an idle connection is pinged, at most half
	// of IdleTimeout. Zero means a third of it.
	KeepAlive time.Duration
	// Window is the largest receive window of one connection, in bytes: no more than
	// this arrives in a round trip. One stream gets at most three quarters of it, so that
	// a stream that nobody reads does not stop the others. It grows to what the path
	// needs, from 1.5 MiB, whatever Window says. Zero means 128 MiB, with which one stream
	// gets 800 Mbit/s of a path of 1 Gbit/s × 100 ms; see defaultWindow.
	Window int
	// WindowBudget bounds the sum, over all connections, of what the windows grow
	// beyond their beginning, in bytes: the memory that senders can fill while nobody
	// reads. Zero means 256 MiB. When it is used up, further connections stay at 1.5 MiB,
	// which is 120 Mbit/s over a round trip of 100 ms.
	WindowBudget int
	// Resolve returns the current address of a member. It must not block.
	Resolve func(name string) (net.Addr, bool)
	// Refused is told of every connection refused for its certificate, by either end,
	// once for each attempt. It must not block.
	Refused func(from net.Addr, err error)
	// Log receives state changes. Nil discards.
	Log *slog.Logger
}

// withDefaults returns c with its defaults, or why it cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Conn == nil || c.Credentials.Roots == nil || len(c.Credentials.Certificate.Certificate) == 0 {
		return c, errors.New("socket, certificate and roots are required")
	}
	if c.IdleTimeout < 0 || c.KeepAlive < 0 {
		return c, fmt.Errorf("idle timeout of %v, keep-alive of %v: want positive, or 0 for the default", c.IdleTimeout, c.KeepAlive)
	}
	if c.Window < 0 || c.WindowBudget < 0 {
		return c, fmt.Errorf("window of %d bytes, budget of %d bytes: want positive, or 0 for the default", c.Window, c.WindowBudget)
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 6 * time.Second
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = c.IdleTimeout / 3
	}
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.WindowBudget == 0 {
		c.WindowBudget = defaultBudget
	}
	if c.Resolve == nil {
		c.Resolve = func(string) (net.Addr, bool) { return nil, false }
	}
	if c.Refused == nil {
		c.Refused = func(net.Addr, error) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// An Endpoint is an agent's place in the network. Its methods may be called
// concurrently; handlers are registered before [Endpoint.Run].
type Endpoint struct {
	cfg       Config
	self      string // host name in the certificate
	log       *slog.Logger
	transport *quic.Transport
	quicConf  *quic.Config
	windows   *budget
	tcp       tcpLanes
	tunnels   *tunnels // nil without TCP
	carried   carried
	copies    copies
	door      door
	streams   map[StreamKind]func(context.Context, *Stream)
	packets   map[PacketKind]func(p []byte, from net.Addr, at time.Time)

	tunnelTransport *quic.Transport // over tunnels

	ctx    context.Context // ends when Run's does; bounds every connection
	cancel context.CancelFunc
	tasks  sync.WaitGroup // every goroutine the endpoint started

	mu     sync.Mutex // guards the fields below; never held over I/O
	ran    bool       // Run, or Close in its place, cleans up
	closed bool
	links  links
}

// New returns an endpoint on cfg.Conn. Nothing is read before [Endpoint.Run], and one
// that will not run is to be closed.
func New(cfg Config) (*Endpoint, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("lane endpoint: %w", err)
	}
	self, err := ownName(cfg.Credentials)
	if err != nil {
		return nil, fmt.Errorf("lane endpoint: %w", err)
	}
	e := &Endpoint{
		cfg: cfg, self: self, log: cfg.Log,
		windows: newBudget(uint64(cfg.WindowBudget)),
		streams: make(map[StreamKind]func(context.Context, *Stream)),
		packets: make(map[PacketKind]func([]byte, net.Addr, time.Time)),
		links:   newLinks(),
	}
	e.streams[StreamVia], e.streams[StreamCarried] = e.carry, e.serveCarried
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.transport = e.transportOn(e.copies.over(fastUDP(cfg.Conn)))
	e.transport.ConnContext = e.arrive
	e.transport.VerifySourceAddress = func(net.Addr) bool { return e.door.crowded() }
	e.quicConf = &quic.Config{
		HandshakeIdleTimeout:           10 * time.Second,
		MaxIdleTimeout:                 cfg.IdleTimeout,
		KeepAlivePeriod:                cfg.KeepAlive,
		MaxIncomingStreams:             maxStreams,
		MaxIncomingUniStreams:          -1,
		InitialStreamReceiveWindow:     initialStreamWindow,
		InitialConnectionReceiveWindow: initialConnWindow,
		MaxStreamReceiveWindow:         max(uint64(cfg.Window)/4*3, initialStreamWindow),
		MaxConnectionReceiveWindow:     max(uint64(cfg.Window), initialConnWindow),
		AllowConnectionWindowIncrease:  e.windows.grow,
		EnableDatagrams:                true, // for Stream.Payload and Nudge
		// InitialPacketSize stays 0: larger values make the pacer spin in virtual time.
	}
	if cfg.Listener != nil || cfg.DialTCP != nil {
		e.tunnels = newTunnels(cfg.Conn.LocalAddr())
		e.tunnelTransport = e.transportOn(e.tunnels)
		e.tunnelTransport.ConnContext = e.arrive
		e.packets[PacketTry] = e.tried
	}
	return e, nil
}

// Addr is the address of the socket.
func (e *Endpoint) Addr() net.Addr { return e.cfg.Conn.LocalAddr() }

// HandleStreams registers h for incoming streams of one kind. h runs in a goroutine
// of its own, which Run waits for; ctx ends with the connection, and so do the stream's
// reads and writes. h owns the stream and must end it.
func (e *Endpoint) HandleStreams(k StreamKind, h func(ctx context.Context, s *Stream)) {
	e.streams[k] = h
}

// Run serves until ctx ends, then closes every connection and the socket. When it
// returns, every goroutine of the endpoint has ended. It returns an error if it could
// not start or the socket has failed. Of an endpoint that is closed it returns nil.
func (e *Endpoint) Run(ctx context.Context) error {
	e.mu.Lock()
	ran, closed := e.ran, e.closed
	e.ran = true
	e.mu.Unlock()
	switch {
	case closed:
		return nil
	case ran:
		return errors.New("lane endpoint runs already")
	}
	listener, err := e.transport.Listen(serverTLS(e.cfg.Credentials, e.cfg.Refused), e.quicConf)
	if err != nil {
		e.shutdown()
		return fmt.Errorf("listen on %v: %w", e.Addr(), err)
	}
	listeners := []*quic.Listener{listener}
	defer context.AfterFunc(ctx, e.cancel)()
	e.start(func() { e.readPackets(e.transport) })
	if e.tunnels != nil {
		inside, err := e.tunnelTransport.Listen(serverTLS(e.cfg.Credentials, e.cfg.Refused), e.quicConf)
		if err != nil {
			e.shutdown(listener)
			return fmt.Errorf("listen for what comes in tunnels: %w", err)
		}
		listeners = append(listeners, inside)
		e.start(func() { e.readPackets(e.tunnelTransport) })
		e.start(func() { e.acceptConns(inside, true) })
	}
	broken := make(chan error, 1)
	e.start(func() { broken <- e.acceptConns(listener, false) })
	if l := e.cfg.Listener; l != nil {
		e.start(func() { e.listenTCP(l) })
		context.AfterFunc(e.ctx, func() { l.Close() })
	}
	select {
	case <-e.ctx.Done():
	case err = <-broken:
	}
	if err != nil && errors.Is(e.cfg.Conn.SetReadDeadline(time.Time{}), net.ErrClosed) {
		// Whoever has closed our socket knows: it is how tests cut the power.
		e.log.Warn("socket was closed by somebody else", "addr", e.Addr())
		<-e.ctx.Done()
		err = nil
	}
	e.shutdown(listeners...)
	if err != nil {
		return fmt.Errorf("socket %v has failed: %w", e.Addr(), err)
	}
	return nil
}

// Close ends Run, which still says goodbye to the peers and is to be waited for. Of an
// endpoint that never ran it releases everything before it returns.
func (e *Endpoint) Close() {
	e.mu.Lock()
	ran := e.ran
	e.ran = true
	e.mu.Unlock()
	e.cancel()
	if !ran {
		e.shutdown()
	}
}

// shutdown closes connections before the socket, so that peers are told.
func (e *Endpoint) shutdown(listeners ...*quic.Listener) {
	e.cancel()
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	if e.cfg.Listener != nil {
		e.cfg.Listener.Close()
	}
	for _, l := range listeners {
		l.Close() // first: handlers may take their time to end, and nobody should wait in vain for that
		// Connections whose handshake was completed after acceptConns had ended.
		// Without a word from us their peers would open streams on them until they time out.
		for {
			conn, err := l.Accept(context.Background()) // returns what is queued, then an error
			if err != nil {
				break
			}
			conn.CloseWithError(codeClosed, "closing")
		}
	}
	e.tasks.Wait() // each connection's goroutine closes it when e.ctx ends
	if e.tunnels != nil {
		e.tunnelTransport.Close()
		e.tunnels.Close()
	}
	e.transport.Close()
	e.cfg.Conn.Close()
}

// start runs f as a goroutine of the endpoint, unless it is closed.
func (e *Endpoint) start(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.tasks.Go(f)
	return true
}

// Stats returns the statistics of the member's lane 0, if it is connected.
func (e *Endpoint) Stats(name string) (quic.ConnectionStats, bool) {
	e.mu.Lock()
	l := e.links.find(target{name: name})
	e.mu.Unlock()
	if l == nil {
		return quic.ConnectionStats{}, false
	}
	return l.conn.ConnectionStats(), true
}

// Connected returns when the last of the QUIC connections with the member was made that are open now, zero if there is none.
func (e *Endpoint) Connected(name string) (at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.links.of[name] {
		if l.up.Err() == nil && l.made.After(at) {
			at = l.made
		}
	}
	return at
}

// Received returns what has arrived from the member on the connections that are open now, in bytes of
// QUIC packets, and how many packets that was. It falls when one of them ends. What has come over TCP
// lanes counts as packets of the usual size, whether it can be read yet or not.
func (e *Endpoint) Received(name string) (bytes, packets uint64) {
	e.mu.Lock()
	ls := slices.Clone(e.links.of[name])
	e.mu.Unlock()
	for _, l := range ls {
		st := l.conn.ConnectionStats()
		bytes, packets = bytes+st.BytesReceived, packets+st.PacketsReceived
	}
	over := e.tcp.arrived(name)
	bytes, packets = bytes+over, packets+over/usualPacket
	return bytes, packets
}
