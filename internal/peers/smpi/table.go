package smpi

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gridagent/gridagent/probe/gridfile"
)

// WriteTable writes rows for people, under a heading for every collective, size and model, and then
// records of SMPI alone. A ratio is ours over SimGrid's.
func WriteTable(out io.Writer, rows []Row, others []Record) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heading := ""
	for _, r := range rows {
		if h := fmt.Sprintf("%s of %s, SimGrid's model %s", r.Collective, gridfile.FormatSize(r.Bytes), r.Model); h != heading {
			heading = h
			fmt.Fprintf(w, "\n%s\nALGORITHM\tENGINE\tQUEUED\tSIMGRID\tRATIO\tIN STEP\tSMPI'S OWN\tRATIO\tNAME\n", h)
		}
		if r.Error != "" {
			fmt.Fprintf(w, "%s\t%s\n", r.Algorithm, r.Error)
			continue
		}
		fmt.Fprintf(w, "%s\t%.6f\t%.6f\t%.6f\t%.4f", r.Algorithm, r.Engine, r.Queued, r.Plan.Seconds, r.Queued/r.Plan.Seconds)
		if r.Own != nil {
			fmt.Fprintf(w, "\t%.6f\t%.6f\t%.4f\t%s", r.InStep, r.Own.Seconds, r.InStep/r.Own.Seconds, r.Own.Algorithm)
		}
		fmt.Fprintln(w)
	}
	if len(others) > 0 {
		fmt.Fprint(w, "\nSMPI alone\nCOLLECTIVE\tBLOCK\tMODEL\tALGORITHM\tSECONDS\n")
	}
	for _, r := range others {
		result := fmt.Sprintf("%.6f", r.Seconds)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Collective, gridfile.FormatSize(r.Bytes), r.Model, r.Algorithm, cmp.Or(r.Error, result))
	}
	return w.Flush()
}
