package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/exchange/plan"
)

// runFlags say how the agent runs, whatever cluster it belongs to.
type runFlags struct {
	level, format *choice
	spool         string
	probeInterval time.Duration
	probeShare    float64
	probeCap      byteSize
	mapWait       time.Duration
	switches      string
	lane          *choice
}

func addRunFlags(cmd *cobra.Command) *runFlags {
	r := &runFlags{
		level:  choiceFlag(cmd, "log-level", "", "least level that is logged", "info", "debug", "warn", "error"),
		format: choiceFlag(cmd, "log-format", "", "how log lines look, on standard error", "text", "json"),
		lane:   choiceFlag(cmd, "lane", "", "over what the data of exchanges go: quic, TLS over tcp, or what suits each host; with quic no TCP port is open, and UDP must get through", agent.LaneModes()...),
	}
	cmd.Flags().StringVar(&r.spool, "spool", "", "folder for payloads handed over as files, best on a memory file system (default DIR/spool)")
	cmd.Flags().DurationVar(&r.probeInterval, "probe-interval", time.Minute, "pause between two measurements of the same pair of hosts")
	cmd.Flags().Float64Var(&r.probeShare, "probe-share", 0.01, "share of a link that measuring may take in the long run, above 0 and at most 0.1")
	r.probeCap = 256 << 20
	cmd.Flags().Var(&r.probeCap, "probe-cap", "bytes that measuring may send from this host in an hour, at least 1MiB; 0B for no cap beside the share")
	cmd.Flags().DurationVar(&r.mapWait, "map-wait", 10*time.Second, "how long an operation waits for a map of its hosts before it falls back to a ring")
	cmd.Flags().StringVar(&r.switches, "switches", "", "switch-tree file of this host's site, the same at all its hosts that give one; without it a site is taken for one switch")
	setting(cmd, "log-level", "log-format", "spool", "probe-interval", "probe-share", "probe-cap", "map-wait", "switches", "lane")
	return r
}

// hourlyCap is the cap as package probe counts it, to which 0 is its default.
func (r *runFlags) hourlyCap() int64 {
	if r.probeCap == 0 {
		return -1
	}
	return int64(r.probeCap)
}

// switchTree returns the file of --switches, nil without one.
func (r *runFlags) switchTree() ([]byte, error) {
	if r.switches == "" {
		return nil, nil
	}
	name, data, err := readTopologyFile(r.switches)
	if err != nil {
		return nil, err
	}
	if _, err := plan.ReadTopology(name, data); err != nil {
		return nil, err
	}
	return data, nil
}

// logger returns the agent's log, written to w.
func (r *runFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(r.level.value)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", r.level.value, err)
	}
	opts := &slog.HandlerOptions{Level: level}
	if r.format.value == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return slog.New(slog.NewTextHandler(w, opts)), nil
}
