package treetest

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/exchange/phase"
	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/exchange/ring"
	"github.com/gridagent/gridagent/exchange/shuffle"
)

var (
	syncTable = flag.String("treetest.sync-table", "", "file that TestSyncTable puts its table into, between the marks of docs/switches.md")
	syncRows  = flag.String("treetest.sync-rows", "", "regular expression; TestSyncTable measures the rows in whose first three cells it is found, and keeps the others")
)

// TestLAN holds the choices inside a LAN to the bound, and to losing nothing where the ports of switches hold 48
// packets. Headers and acknowledgements alone make 1.07 to 1.08 of 1.
func TestLAN(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("exchanges of 5 MB; TestBytes runs the same code with small blocks")
	}
	const size = 64 << 10
	for _, tc := range []struct {
		name  string
		topo  *plan.Topology
		limit float64 // of the alltoall
	}{
		{"one switch", chain(t, 8), 1.10},
		{"two switches", chain(t, 4, 4), 1.12},
	} {
		gather, err := ring.Allgather(tc.topo, ring.KindLR3, uniform(8, size).gather)
		if err != nil {
			t.Fatal(err)
		}
		all, err := phase.Schedule(tc.topo, plan.AlltoallSizes{Uniform: size}, phase.Options{Sync: phase.Auto})
		if err != nil {
			t.Fatal(err)
		}
		limits := map[*plan.Plan]float64{gather: 1.10, all: tc.limit}
		LAN{Topology: tc.topo, PortQueue: 48}.Measure(t, 1, []*plan.Plan{gather, all}, func(r Reading) {
			t.Logf("%s, %s: %v, %.3f of the bound, predicted %v", tc.name, r.Plan.Algorithm, r.Makespan, r.Ratio(), r.Predicted)
			if r.Ratio() > limits[r.Plan] || r.Ratio() < 1 || r.Dropped > 0 {
				t.Errorf("%s, %s: %.3f of the bound with %d packets lost, want 1 to %.2f and none", tc.name, r.Plan.Algorithm, r.Ratio(), r.Dropped, limits[r.Plan])
			}
		})
	}
}

// TestSyncTable is no test but writes the table of docs/switches.md: which synchronisation of an alltoall takes how
// long on which switches.
func TestSyncTable(t *testing.T) {
	if *syncTable == "" {
		t.Skip("writes a table, with -treetest.sync-table FILE")
	}
	type scheme struct {
		name string
		make func(topo *plan.Topology, s plan.AlltoallSizes) (*plan.Plan, error)
	}
	aapc := func(name string, o phase.Options) scheme {
		return scheme{name, func(topo *plan.Topology, s plan.AlltoallSizes) (*plan.Plan, error) { return phase.Schedule(topo, s, o) }}
	}
	schemes := []scheme{
		aapc("auto", phase.Options{Sync: phase.Auto}),
		aapc("none", phase.Options{}), aapc("order", phase.Options{Sync: phase.Order}), aapc("sender", phase.Options{Sync: phase.Sender}),
		aapc("receiver", phase.Options{Sync: phase.Receiver}), aapc("barrier", phase.Options{Sync: phase.Barrier}),
		{"sync-shuffle", func(topo *plan.Topology, s plan.AlltoallSizes) (*plan.Plan, error) {
			return shuffle.Synchronous(topo.Hosts(), s)
		}},
	}
	rows := []string{"| switches | ports hold | block |", "|---|---:|---:|" + strings.Repeat("---:|", len(schemes))}
	for _, s := range schemes {
		rows[0] += " " + s.name + " |"
	}
	only, err := regexp.Compile(*syncRows)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(*syncTable)
	if err != nil {
		t.Fatal(err)
	}
	head, cells := len(rows), syncCells()
	for _, c := range cells {
		rows = append(rows, c.kept(string(old), len(schemes)))
	}
	for i, c := range cells {
		if !only.MatchString(c.name()) {
			continue
		}
		data, _ := configs.Topology(c.file)
		topo, err := plan.ReadTopology(c.file, data)
		if err != nil {
			t.Fatal(err)
		}
		row := c.name()
		for _, s := range schemes {
			p, err := s.make(topo, plan.AlltoallSizes{Uniform: c.size})
			if err != nil {
				t.Fatal(err)
			}
			// A cluster for each: windows that have met losses are not another scheme's.
			LAN{Topology: topo, PortQueue: c.queue}.Measure(t, 1, []*plan.Plan{p}, func(r Reading) {
				row += fmt.Sprintf(" %.2f", r.Ratio())
				if r.Dropped > 0 {
					row += fmt.Sprintf(" (%d lost)", r.Dropped)
				}
				row += " |"
			})
		}
		rows[head+i] = row
		if err := replaceTable(*syncTable, strings.Join(rows, "\n")+"\n"); err != nil { // row by row: all take minutes
			t.Fatal(err)
		}
	}
	for _, row := range rows[head:] {
		if strings.Contains(row, unmeasured) {
			t.Errorf("nobody has measured %s choose it with -treetest.sync-rows", row)
		}
	}
}

// A syncCell is one row of the table of docs/switches.md.
type syncCell struct {
	file, switches string
	size           int64
	queue          int
}

// syncCells are all rows of the table, in its order.
func syncCells() []syncCell {
	var all []syncCell
	for _, network := range []struct{ file, name string }{
		{"aapc-conf-a", "one, 24 hosts"}, {"aapc-conf-b", "four in a star, 32 hosts"}, {"aapc-conf-c", "four in a line, 32 hosts"},
	} {
		for _, size := range []int64{64 << 10, 16 << 10, 4 << 10, 1 << 10} {
			for _, queue := range []int{48, 256} {
				all = append(all, syncCell{network.file, network.name, size, queue})
			}
		}
	}
	return all
}

// name is how the row begins.
func (c syncCell) name() string {
	return fmt.Sprintf("| %s | %d packets | %d KiB |", c.switches, c.queue, c.size>>10)
}

// unmeasured is the cell of a number that nobody has measured.
const unmeasured = " – |"

// kept returns the row as it stands in old. One that old lacks has no numbers in its cells: a run that was cut short, or
// measured some rows only, must not leave a table that looks whole.
func (c syncCell) kept(old string, columns int) string {
	for line := range strings.Lines(old) {
		if strings.HasPrefix(line, c.name()) {
			return strings.TrimSpace(line)
		}
	}
	return c.name() + strings.Repeat(unmeasured, columns)
}

func TestSyncRowsAreKept(t *testing.T) {
	c := syncCell{switches: "one", size: 4 << 10, queue: 48}
	old := "| one | 48 packets | 64 KiB | 1 | 2 |\n| one | 48 packets | 4 KiB | 3 | 4 |\n| one | 256 packets | 4 KiB | 5 | 6 |\n"
	if got := c.kept(old, 2); got != "| one | 48 packets | 4 KiB | 3 | 4 |" {
		t.Errorf("a row that was measured: %q", got)
	}
	if got := c.kept("", 2); got != "| one | 48 packets | 4 KiB | – | – |" {
		t.Errorf("a row that was not measured: %q", got)
	}
}

// TestSyncTableIsWhole: the table of docs/switches.md has every row, with its numbers.
func TestSyncTableIsWhole(t *testing.T) {
	text, err := os.ReadFile("../../docs/switches.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range syncCells() {
		if row := c.kept(string(text), 1); strings.Contains(row, unmeasured) {
			t.Errorf("docs/switches.md: nobody has measured %s", row)
		}
	}
}

// replaceTable puts table between the marks of the file at path.
func replaceTable(path, table string) error {
	const begin, end = "<!-- sync table: written by TestSyncTable of internal/treetest -->\n", "<!-- end of the sync table -->"
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		return fmt.Errorf("%s has no marks for the table: want %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+table+end+after), 0o644)
}
