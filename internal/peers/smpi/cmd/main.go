// Command cmd compares our simulator with SimGrid's SMPI (package smpi).
//
//	go run ./internal/peers/smpi/cmd --grid configs/grids/paper-3site.yaml --size 64KiB,256KiB
//	go run ./internal/peers/smpi/cmd --topology tree.json --collective alltoall -o json
//
// ENGINE is what gridagent simulate says. QUEUED is plan.Simulate with whole blocks that follow one
// another, SIMGRID the same plan there. IN STEP is plan.Simulate with blocking send-receives, SMPI'S
// OWN the algorithm in SMPI's code. It exits with 3 if SimGrid is not installed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gridagent/gridagent/exchange/plan"
	"github.com/gridagent/gridagent/internal/peers/smpi"
	"github.com/gridagent/gridagent/probe/gridfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, smpi.ErrMissing):
		fmt.Fprintln(os.Stderr, "smpi:", err)
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, "smpi:", err)
	os.Exit(1)
}

// A question is what the flags ask.
type question struct {
	world       *smpi.World
	collectives []plan.Collective
	sizes       []int64
	models      []smpi.Model
	algorithms  []string
	json        bool
}

func parse(args []string) (*question, error) {
	flags := flag.NewFlagSet("smpi", flag.ContinueOnError)
	grid := flags.String("grid", "", "grid `file` with sites and WAN links")
	topology := flags.String("topology", "", "switch-tree `file`")
	sizes := flags.String("size", "64KiB,256KiB", "bytes of a block, with commas between")
	collectives := flags.String("collective", "allgather,alltoall", "what to compare")
	models := flags.String("model", "even", "models of SimGrid: even, tcp")
	algorithms := flags.String("algorithms", "", "only these, and none of SMPI's alone (default: all)")
	format := flags.String("o", "table", "table or json")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *format != "table" && *format != "json" {
		return nil, fmt.Errorf("-o %q: want table or json", *format)
	}
	q := &question{json: *format == "json"}
	for _, text := range strings.Split(*sizes, ",") {
		size, err := gridfile.ParseSize(text)
		if err != nil {
			return nil, err
		}
		q.sizes = append(q.sizes, size)
	}
	for _, text := range strings.Split(*collectives, ",") {
		c := plan.Collective(text)
		if c != plan.Allgather && c != plan.Alltoall {
			return nil, fmt.Errorf("collective %q: want %s or %s", text, plan.Allgather, plan.Alltoall)
		}
		q.collectives = append(q.collectives, c)
	}
	for _, text := range strings.Split(*models, ",") {
		m, err := smpi.ParseModel(text)
		if err != nil {
			return nil, err
		}
		q.models = append(q.models, m)
	}
	if *algorithms != "" {
		q.algorithms = strings.Split(*algorithms, ",")
	}
	var err error
	switch {
	case (*grid == "") == (*topology == ""):
		err = errors.New("give --grid FILE or --topology FILE")
	case *grid != "":
		q.world, err = smpi.LoadGrid(*grid)
	default:
		q.world, err = smpi.LoadTopology(*topology)
	}
	return q, err
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	q, err := parse(args)
	if err != nil {
		return err
	}
	tool, err := smpi.Find(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gridagent-smpi-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bench, err := tool.NewBench(ctx, dir, q.world)
	if err != nil {
		return err
	}
	rows, others, err := q.answer(ctx, bench)
	if err != nil {
		return err
	}
	if !q.json {
		fmt.Fprintf(out, "SimGrid %s on %s\n", tool.Version(), q.world.Name)
		return smpi.WriteTable(out, rows, others)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Compared []smpi.Row    `json:"compared"`
		Alone    []smpi.Record `json:"alone"`
	}{rows, others})
}

// answer runs everything. A prediction that SimGrid refuses says so in its place.
func (q *question) answer(ctx context.Context, b *smpi.Bench) (rows []smpi.Row, others []smpi.Record, err error) {
	for _, c := range q.collectives {
		for _, size := range q.sizes {
			for _, m := range q.models {
				more, err := smpi.Compare(ctx, b, q.world, c, size, m, q.algorithms...)
				if err != nil {
					return nil, nil, err
				}
				rows = append(rows, more...)
				if q.algorithms != nil {
					continue
				}
				for _, name := range smpi.Others(c) {
					r, err := b.Collective(ctx, m, c, name, size)
					if err != nil && ctx.Err() != nil {
						return nil, nil, ctx.Err()
					}
					others = append(others, r)
				}
			}
		}
	}
	return rows, others, nil
}
