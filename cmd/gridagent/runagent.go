package main

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/internal/beat"
	"github.com/gridagent/gridagent/internal/heapfloor"
	"github.com/gridagent/gridagent/internal/processors"
)

// agentSettings are what gridagent join has read from flags and folder.
type agentSettings struct {
	identity *identity.Identity
	socket   string
	seeds    []string // IP:PORT
	run      *runFlags
	switches []byte // the file of --switches; nil without one
	log      *slog.Logger
}

// heapFloor is how much memory an agent may have as garbage, in bytes, however little is live.
const heapFloor = 8 << 20

// runAgent runs the agent until ctx ends or it is told to leave. Both are a good end.
func (a *app) runAgent(ctx context.Context, s agentSettings) error {
	if err := agent.CheckSegmentation(); err != nil {
		s.log.Warn("QUIC sends packet by packet, at twice the CPU time: the kernel's segmentation offload is of no use", "err", err)
		os.Setenv(agent.NoSegmentation, "true")
	}
	daemon, err := agent.New(agent.Options{
		Identity:      s.identity,
		Seeds:         s.seeds,
		Socket:        s.socket,
		Spool:         s.run.spool,
		ProbeInterval: s.run.probeInterval,
		ProbeShare:    s.run.probeShare,
		ProbeCap:      s.run.hourlyCap(),
		MapWait:       s.run.mapWait,
		Switches:      s.switches,
		Lane:          s.run.lane.value,
		Version:       versionString(),
		Log:           s.log,
	})
	if err != nil {
		return err
	}
	var governor sync.WaitGroup
	defer governor.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	governor.Go(func() { processors.Govern(ctx, beat.Of(s.identity.Settings.Host), s.log) })
	defer heapfloor.Hold(heapFloor)()
	return daemon.Run(ctx)
}
