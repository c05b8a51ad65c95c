package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/internal/lab"
	"github.com/gridagent/gridagent/internal/processors"
	"github.com/gridagent/gridagent/probe/gridfile"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A labCheck is what lab check prints as JSON.
type labCheck struct {
	Lab      string            `json:"lab"`
	OK       bool              `json:"ok"` // of the lab; the emulator is only for comparison
	Measured []lab.Measurement `json:"measured"`
	Emulator []lab.Measurement `json:"emulator,omitempty"`
	Others   []lab.Sender      `json:"other_senders,omitempty"` // what else ran in the lab just before
	Late     lab.Late          `json:"late"`
	Missed   uint64            `json:"missed_packets"`
	Stolen   float64           `json:"stolen"` // share of the processors' time that this machine's host gave to others
}

func (a *app) labCheckCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Measure the links of a lab against what they are declared to be",
		Long: fmt.Sprintf(`Measure every port, cable and link of a lab by UDP packets between its hosts, one after the
other, and print the error: of rates within %.0f %%, of one-way delays within %v, of losses within
what chance allows. What is off by more is measured again, up to three times, and the best result
counts: a busy machine is not always busy. The exit status is 1 if one is off by more. It takes
a second or two for each port and link; 30 s for paper-3site.

Nothing else should run in the lab: what sends there is named first. What is cut, and what loses
UDP on purpose, is not measured, which is said of it and no error. Of a link with bursts the capacity is measured.

With --emulator the emulator alone is measured by the same code as well, without the kernel's
links, in this process: the two should agree. Links that lab set has changed are measured
in the lab as they are now, and in the emulator as the file says.`, 100*lab.RateTolerance, lab.DelayTolerance),
		Example: `  gridagent lab up paper-3site && gridagent lab check
  gridagent lab check --emulator
  gridagent lab check --name modern -o json`,
		Args: cobra.NoArgs,
	}
	name := labNameFlag(cmd)
	emulator := cmd.Flags().Bool("emulator", false, "measure the emulator alone as well")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		return a.onLab(*name, func(l *lab.Client) error {
			report := &labCheck{Lab: *name}
			if err := a.runLabCheck(cmd, l, report, *emulator); err != nil {
				return err
			}
			var err error
			if output.value == "json" {
				err = a.printJSON(report)
			} else {
				err = a.printLabCheck(report)
			}
			if err == nil && !report.OK {
				err = errors.New("the lab is not what it is declared to be; run it again when this machine is idle, and if it stays so use slower links" + report.theft())
			}
			return err
		})
	})
	return cmd
}

func (a *app) runLabCheck(cmd *cobra.Command, l *lab.Client, report *labCheck, emulator bool) error {
	defer a.busy.clear()
	ctx := cmd.Context()
	const look = 500 * time.Millisecond
	var err error
	if report.Others, err = l.Traffic(ctx, look); err != nil {
		return err
	}
	if len(report.Others) > 0 {
		fmt.Fprintf(a.err, "warning: other programs send in this lab, and the check and they will disturb each other: %s\n", sending(report.Others))
	}
	before, err := l.Stats(ctx)
	if err != nil {
		return err
	}
	was, _ := processors.Machine() // where it cannot be read, nothing was stolen
	report.OK = true
	err = l.Check(ctx, func(done, total int) { a.busy.show("measure the lab", done, total) }, func(m lab.Measurement) {
		report.Measured = append(report.Measured, m)
		report.OK = report.OK && m.OK
	})
	if err != nil {
		return err
	}
	if is, err := processors.Machine(); err == nil {
		report.Stolen = is.StolenSince(was)
	}
	after, err := l.Stats(ctx)
	if err != nil {
		return err
	}
	report.Missed = after.Missed - before.Missed
	report.Late = lab.Late{Packets: after.Late.Packets - before.Late.Packets, Over: after.Late.Over - before.Late.Over, Worst: after.Late.Worst}
	if !emulator {
		return nil
	}
	spec, err := lab.Made(l.State.Name)
	if err != nil {
		return err
	}
	return lab.CheckEmulated(ctx, spec, func(done, total int) { a.busy.show("measure the emulator", done, total) },
		func(m lab.Measurement) { report.Emulator = append(report.Emulator, m) })
}

func (a *app) printLabCheck(r *labCheck) error {
	head := []string{"link", "quantity", "declared", "measured", "error", "ok"}
	if len(r.Emulator) > 0 {
		head = append(head, "emulator", "difference")
	}
	t := a.table(head...)
	beside := make(map[[2]string]lab.Measurement)
	for _, m := range r.Emulator {
		beside[[2]string{m.What, m.Quantity}] = m
	}
	for _, m := range r.Measured {
		ok := "yes"
		if m.Skipped != "" {
			t.row(m.What, "-", "-", "-", "-", "not measured: "+m.Skipped)
			continue
		}
		switch {
		case !m.OK:
			ok = "NO"
		case m.Attempts > 1:
			ok = fmt.Sprintf("yes, at attempt %d", m.Attempts)
		}
		row := []any{m.What, m.Quantity, quantity(m, m.Declared), quantity(m, m.Measured), labError(m, m.Error), ok}
		if e, found := beside[[2]string{m.What, m.Quantity}]; found {
			difference := m.Measured - e.Measured
			if isRate(m) {
				difference /= e.Measured
			}
			row = append(row, quantity(e, e.Measured), labError(m, difference))
		}
		t.row(row...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.out, "\nbetween sites %d packets were missed, and %d of %d were more than 1 ms late%s\n", r.Missed, r.Late.Over, r.Late.Packets, r.theft())
	return err
}

// theft says that this machine was not there all the time, if so: the kernel's links are then slow, and it is not the lab.
func (r *labCheck) theft() string {
	const much = 0.01
	if r.Stolen < much {
		return ""
	}
	return fmt.Sprintf("; the host of this virtual machine gave %.0f %% of its processors' time to others meanwhile", 100*r.Stolen)
}

// sending names the hosts that send, the first few.
func sending(list []lab.Sender) string {
	const most = 5
	var words []string
	for _, s := range list[:min(most, len(list))] {
		words = append(words, fmt.Sprintf("%s %s", s.Host, rounded(s.Rate)))
	}
	if len(list) > most {
		words = append(words, fmt.Sprintf("and %d more hosts", len(list)-most))
	}
	return strings.Join(words, ", ")
}

// rounded prints a rate with five digits of Mbit/s: FormatRate loses none.
func rounded(v float64) string {
	mbps, _ := strconv.ParseFloat(strconv.FormatFloat(netmap.BytesPerSec(v).Mbps(), 'g', 5, 64), 64)
	return gridfile.FormatRate(netmap.BytesPerSec(mbps * 1e6 / 8))
}

func isRate(m lab.Measurement) bool {
	return m.Quantity == lab.QuantityRate || m.Quantity == lab.QuantityFlow
}

// quantity prints a value of what m is of.
func quantity(m lab.Measurement, v float64) string {
	switch {
	case isRate(m):
		return rounded(v)
	case m.Quantity == lab.QuantityDelay:
		return fmt.Sprintf("%.3fms", 1000*v)
	case m.Quantity == lab.QuantityLoss:
		return fmt.Sprintf("%.3g%%", 100*v)
	}
	return fmt.Sprint(v)
}

// labError prints an error or difference of what m is of.
func labError(m lab.Measurement, v float64) string {
	switch {
	case m.Quantity == lab.QuantityDelay:
		return fmt.Sprintf("%+.3fms", 1000*v)
	case m.Quantity == lab.QuantityReached:
		return "nothing arrived"
	case m.Quantity == lab.QuantityLoss:
		return fmt.Sprintf("%+.2g%%", 100*v)
	}
	return fmt.Sprintf("%+.2f%%", 100*v)
}
