package mpic

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gridagent/gridagent/exchange/baseline"
	"github.com/gridagent/gridagent/exchange/plan"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

func written(t testing.TB, p *plan.Plan, opt Options) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, p, opt); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// syncPlan is a small alltoall of two phases with a relayed block and each kind of order.
func syncPlan(t testing.TB) *plan.Plan {
	t.Helper()
	p, err := plan.NewAlltoall("by hand", hosts(3), plan.AlltoallSizes{Matrix: [][]int64{{0, 10, 20}, {30, 0, 40}, {50, 60, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	p.Phases = 3
	p.Transfers = []plan.Transfer{
		{ID: 0, Src: 0, Dst: 1, Blocks: []plan.Block{{Origin: 0, Dest: 1}, {Origin: 0, Dest: 2}}, Phase: 0},
		{ID: 1, Src: 2, Dst: 0, Blocks: []plan.Block{{Origin: 2, Dest: 0}}, Phase: 0},
		{ID: 2, Src: 1, Dst: 2, Blocks: []plan.Block{{Origin: 0, Dest: 2}, {Origin: 1, Dest: 2}}, Phase: 1, After: []int{0, 1}, Sync: plan.SyncSender},
		{ID: 3, Src: 1, Dst: 0, Blocks: []plan.Block{{Origin: 1, Dest: 0}}, Phase: 1, After: []int{1}, Sync: plan.SyncReceiver},
		{ID: 4, Src: 2, Dst: 1, Blocks: []plan.Block{{Origin: 2, Dest: 1}}, Phase: 2, After: []int{2, 3}, Sync: plan.SyncBarrier},
	}
	if err := plan.Verify(p, plan.Rules{}); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGolden(t *testing.T) {
	ring, err := baseline.Ring(hosts(3), []int64{65536})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"allgather": written(t, ring, Options{}),
		"alltoallv": written(t, syncPlan(t), Options{WithMain: true}),
	} {
		path := filepath.Join("testdata", name+".c.golden")
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, want) {
			t.Errorf("%s: the file has changed; go test -run Golden -update rewrites it", path)
		}
	}
}

// TestDeterministic: the same plan, the same bytes.
func TestDeterministic(t *testing.T) {
	for _, tt := range samples(t) {
		if a, b := written(t, tt.plan, Options{}), written(t, tt.plan, Options{}); !bytes.Equal(a, b) {
			t.Errorf("%s: two files of one plan differ", tt.name)
		}
	}
}

func TestNames(t *testing.T) {
	ring, err := baseline.Ring(hosts(2), []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	ring.Algorithm = "recursive-doubling"
	for name, want := range map[string]string{
		"":             "\nint gridagent_allgather_recursive_doubling(",
		"my_allgather": "\nint my_allgather(",
	} {
		if c := written(t, ring, Options{Name: name}); !strings.Contains(string(c), want) {
			t.Errorf("name %q: no %q", name, want)
		}
	}
	for _, name := range []string{"2x", "a-b", "a b", "é", "for", "start", "main", "MPI_Allgather", "mpi_x", "_x", "RANKS", "x\n"} {
		if err := Write(&bytes.Buffer{}, ring, Options{Name: name}); err == nil {
			t.Errorf("name %q is accepted", name)
		}
	}
}

// TestTaken: no name that the file defines is free for the routine.
func TestTaken(t *testing.T) {
	files, err := filepath.Glob("*.c.tmpl")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	var text []byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, data...)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "\t") || !strings.HasPrefix(line, "static ") {
			continue
		}
		head, _, _ := strings.Cut(line, "(")
		head, _, _ = strings.Cut(head, "[")
		head, _, _ = strings.Cut(head, " =")
		fields := strings.Fields(head)
		if name := strings.Trim(fields[len(fields)-1], "*"); checkName(name) == nil {
			t.Errorf("%q is defined in the file, and free as the name of the routine", name)
		}
	}
}

// TestHostileText: what comes from a plan file cannot leave the comment.
func TestHostileText(t *testing.T) {
	p, err := baseline.Ring([]string{"*/ int x = 1; /*", "a\nb", "é\\", "??/"}, []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	p.Algorithm = "*/\nint y;"
	c := string(written(t, p, Options{Name: "f"}))
	end := strings.Index(c, "*/")
	if head := c[:end]; strings.Count(head, "/*") != 1 || !strings.Contains(head, "_/ int x = 1; /_") || !strings.Contains(head, "a_b\n") {
		t.Errorf("header:\n%s", head)
	}
	if strings.Contains(c, "int y") != strings.Contains(c[:end], "int y") {
		t.Errorf("the algorithm is outside of the comment")
	}
}

func TestErrors(t *testing.T) {
	p := syncPlan(t)
	p.Transfers[2].After = []int{1} // it forwards what transfer 0 brings
	var v *plan.Violation
	if err := Write(&bytes.Buffer{}, p, Options{}); !errors.As(err, &v) || v.Property != plan.Causal {
		t.Errorf("a plan that is not causal: %v", err)
	}
	broken := errors.New("disk full")
	if err := Write(brokenWriter{broken}, syncPlan(t), Options{}); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
	// Predicted times of some other model do not matter.
	p = syncPlan(t)
	p.Transfers[0].Start, p.Transfers[0].End = 5, 6
	written(t, p, Options{})
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCompact: the file grows with the messages of the plan, by tables and not by code.
func TestCompact(t *testing.T) {
	p, err := baseline.AlltoallPairwise(hosts(64), plan.AlltoallSizes{Uniform: 65536})
	if err != nil {
		t.Fatal(err)
	}
	c := written(t, p, Options{})
	if most := 30<<10 + 60*len(p.Transfers); len(c) > most {
		t.Errorf("%d transfers take %d bytes, want at most %d", len(p.Transfers), len(c), most)
	}
	if got, most := bytes.Count(c, []byte("\n")), len(p.Transfers)+2000; got > most {
		t.Errorf("%d transfers take %d lines, want at most %d", len(p.Transfers), got, most)
	}
}

// FuzzWrite: whatever plan a file holds, it is written or refused for what is wrong with it.
func FuzzWrite(f *testing.F) {
	for _, tt := range append(samples(f), sample{"by hand", syncPlan(f)}) {
		data, err := tt.plan.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		p, err := plan.Parse(data)
		if err != nil || len(p.Hosts) > 40 {
			return // blocks of no bytes that the plan leaves out are n²
		}
		var v *plan.Violation
		var b bytes.Buffer
		err = Write(&b, p, Options{Name: name, WithMain: true})
		switch {
		case err == nil:
			if !strings.Contains(b.String(), "\nint ") || strings.Contains(b.String(), "<no value>") {
				t.Fatalf("the file has no routine:\n%s", b.String())
			}
			if len(p.Hosts) > 8 {
				return // the machine is slow
			}
			if err := checkSchedule(rand.New(rand.NewPCG(0, 0)), p); err != nil {
				t.Fatal(err)
			}
		case !errors.As(err, &v) && checkName(name) == nil:
			t.Fatal(err)
		}
	})
}

// TestRefusesPieces: the routine moves whole blocks.
func TestRefusesPieces(t *testing.T) {
	p := &plan.Plan{Collective: plan.Allgather, Hosts: hosts(2), MessageBytes: 4096, Cuts: []plan.Cut{{Origin: 0, Dest: plan.All, At: []int64{1024}}}}
	if _, err := newSchedule(p); err == nil || !strings.Contains(err.Error(), "cuts 1 blocks into pieces") {
		t.Errorf("got %v", err)
	}
}
