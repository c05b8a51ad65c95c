package exchange

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/gridagent/gridagent/exchange/lane"
	"github.com/gridagent/gridagent/exchange/plan"
)

// BenchmarkLoopback moves one block between two engines over real sockets, on a QUIC and on a
// TCP lane, and the same bytes with a bare loop over the same library, in turns. Reported are the CPU
// seconds of all of the process per GiB moved (both ends), their ratio, and the engines' rate.
func BenchmarkLoopback(b *testing.B) {
	for _, kind := range []string{"quic", "tcp"} {
		for _, chunk := range []int{4 << 10, 32 << 10, 128 << 10, 512 << 10} {
			b.Run(fmt.Sprintf("%s/chunk=%dKiB", kind, chunk>>10), func(b *testing.B) { benchmarkLoopback(b, kind == "tcp", chunk) })
		}
		b.Run(kind+"/chunk=128KiB,observed", func(b *testing.B) {
			benchmarkLoopback(b, kind == "tcp", 128<<10, func(c *Config, _ *lane.Config) { c.Observe = func(Sample) {} })
		})
	}
}

const loopbackBytes = 64 << 20

// cpu returns the CPU time that this process has taken.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchmarkLoopback(b *testing.B, tcp bool, chunk int, edits ...edit) {
	connect := bareQUIC
	if tcp {
		connect = bareTCP
	}
	bare, done := bareMove(b, connect)
	defer done()
	engines, stop := engineMove(b, tcp, chunk, edits...)
	defer stop()
	bare() // windows and buffers grow
	engines()
	b.SetBytes(loopbackBytes)
	b.ReportAllocs()
	var took [2]time.Duration // CPU
	var wall time.Duration
	n := 0
	for b.Loop() {
		at := cpu()
		bare()
		took[0] += cpu() - at
		at, began := cpu(), time.Now()
		engines()
		took[1] += cpu() - at
		wall += time.Since(began)
		n++
	}
	perGiB := float64(1<<30) / (float64(n) * loopbackBytes)
	b.ReportMetric(took[0].Seconds()*perGiB, "bare-cpu-s/GiB")
	b.ReportMetric(took[1].Seconds()*perGiB, "cpu-s/GiB")
	b.ReportMetric(float64(took[1])/float64(took[0]), "x-bare")
	b.ReportMetric(8e-9*loopbackBytes*float64(n)/wall.Seconds(), "Gbit/s")
}

// engineMove returns what moves the bytes through two engines.
func engineMove(b *testing.B, tcp bool, chunk int, edits ...edit) (move, done func()) {
	g := newLoopbackGrid(b, hostNames(2), tcp, edits...)
	pl := newPlanner(plan.Allgather, 2)
	pl.add(0, 1, plan.Block{Origin: 0, Dest: plan.All})
	pl.add(1, 0, plan.Block{Origin: 1, Dest: plan.All})
	pl.p.Sizes = []int64{loopbackBytes, 0}
	bufs := [2][]byte{make([]byte, loopbackBytes), make([]byte, loopbackBytes)}
	layout := func(bl Block) []Segment { return []Segment{{0, bl.Size}} }
	n := uint64(0)
	return func() {
		n++
		parts, err := Split(pl.p, ID{byte(n), byte(n >> 8), byte(n >> 16)}, chunk, nil)
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		for h, part := range parts {
			wg.Go(func() {
				if _, err := g.engines[hostNames(2)[h]].Run(context.Background(), part, Data{Result: bufs[h], Layout: layout}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}, g.stop
}

// newLoopbackGrid is newQUICGrid over the kernel's sockets, with all data over TCP lanes if tcp.
func newLoopbackGrid(t testing.TB, hosts []string, tcp bool, edits ...edit) *quicGrid {
	t.Helper()
	sockets := make(map[string]*net.UDPConn)
	listen := func(host string) net.PacketConn { return sockets[host] }
	listeners := make(map[string]net.Listener)
	for _, h := range hosts {
		l, err := lane.ListenTCP("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		a := l.Addr().(*net.TCPAddr)
		if sockets[h], err = net.ListenUDP("udp", &net.UDPAddr{IP: a.IP, Port: a.Port}); err != nil {
			t.Fatal(err)
		}
		listeners[h] = l
	}
	if tcp {
		edits = append([]edit{func(c *Config, edge *lane.Config) {
			edge.Listener, edge.DialTCP = listeners[c.Self], lane.DialTCP(netip.Addr{})
		}}, edits...)
	}
	g := prepareQUICGrid(t, hosts, listen, 1, edits...)
	for h, e := range g.engines {
		ep := g.eps[h]
		if tcp {
			e.cfg.Open = func(ctx context.Context, host string, _ int) (Stream, error) {
				return ep.OpenTCP(ctx, host, "", lane.StreamData)
			}
			ep.HandleTCPStreams(lane.StreamData, e.AcceptTCP)
		}
	}
	g.start()
	return g
}

// bareMove returns what moves the bytes from a writer of 128 KiB pieces to a reader.
func bareMove(b *testing.B, connect func(*testing.B) (w io.Writer, r io.Reader, done func())) (move, done func()) {
	w, r, done := connect(b)
	out, in := make([]byte, loopbackBytes), make([]byte, loopbackBytes)
	return func() {
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := 0; n < len(out); n += 128 << 10 {
				if _, err := w.Write(out[n : n+128<<10]); err != nil {
					b.Error(err)
					return
				}
			}
		})
		if _, err := io.ReadFull(r, in); err != nil {
			b.Error(err)
		}
		wg.Wait()
	}, done
}

func bareConfigs(b *testing.B) (client, server *tls.Config) {
	ca := newAuthority(b)
	conf := func(host string) *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{ca.credentials(b, host).Certificate}, MinVersion: tls.VersionTLS13,
			NextProtos: []string{"bare"}, InsecureSkipVerify: true, DynamicRecordSizingDisabled: true,
		}
	}
	return conf("c"), conf("s")
}

func bareTCP(b *testing.B) (io.Writer, io.Reader, func()) {
	client, server := bareConfigs(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	in := make(chan *tls.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			close(in)
			return
		}
		s := tls.Server(c, server)
		s.Handshake()
		in <- s
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		b.Fatal(err)
	}
	s := <-in
	return c, s, func() { c.NetConn().Close(); s.NetConn().Close() }
}

func bareQUIC(b *testing.B) (io.Writer, io.Reader, func()) {
	client, server := bareConfigs(b)
	conf := &quic.Config{InitialStreamReceiveWindow: 1 << 20, InitialConnectionReceiveWindow: 3 << 19,
		MaxStreamReceiveWindow: 96 << 20, MaxConnectionReceiveWindow: 128 << 20}
	l, err := quic.ListenAddr("127.0.0.1:0", server, conf)
	if err != nil {
		b.Fatal(err)
	}
	c, err := quic.DialAddr(b.Context(), l.Addr().String(), client, conf)
	if err != nil {
		b.Fatal(err)
	}
	s, err := c.OpenStreamSync(b.Context())
	if err == nil {
		_, err = s.Write([]byte{1})
	}
	if err != nil {
		b.Fatal(err)
	}
	sc, err := l.Accept(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	r, err := sc.AcceptStream(b.Context())
	if err == nil {
		_, err = io.ReadFull(r, make([]byte, 1))
	}
	if err != nil {
		b.Fatal(err)
	}
	return s, r, func() { c.CloseWithError(0, ""); l.Close() }
}
