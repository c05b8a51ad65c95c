package labtest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/internal/e2e/e2etest"
)

// TestForwarderCost sends full packets one by one, evenly spaced, half of them each way between two sites, and says what one costs
// the lab's process: processor time and switches of its threads. What it takes, the hosts of the lab do not get.
func TestForwarderCost(t *testing.T) {
	mustBeAll(t)
	l := up(t, "cost", "testdata/fast.yaml")
	for _, tt := range []struct {
		rate int     // packets a second
		most float64 // switches a packet: two wakes, or less where packets come closer than turns
	}{{200, 4}, {2000, 3}, {8000, 1.5}} {
		var ends []*e2etest.Process
		for _, h := range l.hosts {
			ends = append(ends, l.exec(t, h.Name, os.Args[0], packetSink))
		}
		for i, h := range l.hosts {
			to := l.hosts[1-i].Addr + ":" + packetPort
			ends = append(ends, l.exec(t, h.Name, os.Args[0], packetSender, to, strconv.Itoa(tt.rate/2)))
		}
		time.Sleep(2 * time.Second) // they start, and the links fill
		before, began := l.spent(t), l.stats(t)
		time.Sleep(4 * time.Second)
		after, ended := l.spent(t), l.stats(t)
		for _, p := range ends {
			p.Signal(unix.SIGKILL)
			p.Wait(t, patience)
		}
		packets := float64(ended.Late.Packets - began.Late.Packets)
		if want := float64(tt.rate) * (ended.Seconds - began.Seconds); packets < 0.8*want || packets > 1.2*want {
			t.Errorf("%.0f packets came, want about %.0f", packets, want)
		}
		switches := (after.switches - before.switches) / packets
		if switches > tt.most {
			t.Errorf("%d packets/s: %.2f switches a packet, want at most %.1f", tt.rate, switches, tt.most)
		}
		t.Logf("%d packets/s: %.1f µs and %.2f switches a packet; %.2f %% over 1 ms late, %d missed; the machine switched %.2f times a packet", tt.rate,
			1e6*(after.time-before.time).Seconds()/packets, switches,
			100*float64(ended.Late.Over-began.Late.Over)/packets, ended.Missed-began.Missed, (after.machine-before.machine)/packets)
	}
}

// spent is what a process has taken so far: of all threads that it has now.
type spent struct {
	time     time.Duration
	switches float64 // of its threads
	machine  float64 // switches of all processes
}

func (l *lab) spent(t *testing.T) (sum spent) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", l.pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		var ns, waited, slices int64
		if _, err := fmt.Sscan(read(t, filepath.Join(task, "schedstat")), &ns, &waited, &slices); err != nil {
			t.Fatal(err)
		}
		sum.time += time.Duration(ns)
		sum.switches += number(t, read(t, filepath.Join(task, "status")), "voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")
	}
	sum.machine = number(t, read(t, "/proc/stat"), "ctxt")
	return sum
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// number adds up what stands behind names in text.
func number(t *testing.T, text string, names ...string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		for _, name := range names {
			if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
				n, err := strconv.ParseFloat(fields[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
	}
	return sum
}

// With these words this test is the program that it runs in hosts.
const (
	packetSink   = "packet-sink"
	packetSender = "packet-sender"
	packetPort   = "9999"
)

// packets takes UDP packets, or sends them at a rate, until it is ended.
func packets(args []string) error {
	if args[0] == packetSink {
		conn, err := net.ListenPacket("udp4", ":"+packetPort)
		for buf := make([]byte, 2048); err == nil; {
			_, _, err = conn.ReadFrom(buf)
		}
		return err
	}
	rate, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	conn, err := net.Dial("udp4", args[1])
	if err != nil {
		return err
	}
	defer conn.Close()
	buf := make([]byte, 1472)
	start := time.Now()
	for n := 0; ; n++ {
		// Not time.Sleep, which is up to 1 ms late in an idle process.
		wait := time.Until(start.Add(time.Duration(float64(n) / rate * 1e9)))
		if ts := unix.NsecToTimespec(int64(wait)); wait > 0 {
			_ = unix.Nanosleep(&ts, nil) // a signal: one packet is early
		}
		if _, err := conn.Write(buf); err != nil && !strings.Contains(err.Error(), "refused") { // the sink starts later
			return err
		}
	}
}
