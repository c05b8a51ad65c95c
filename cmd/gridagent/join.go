package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gridagent/gridagent/agent"
	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/exchange/lane"
)

func (a *app) joinCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "join [SEED[,SEED]]",
		Short: "Run this host's agent, joining a cluster first if a seed is given",
		Long: `Run this host's agent until Ctrl-C, SIGTERM or gridagent leave. After the first two the others
go on calling it until it is back; after the last they forget it.

With a SEED (HOST:PORT of any running agent) and a token, fetch a certificate into --dir first.
Without one, run the agent of the cluster that --dir holds: on the first host after
gridagent init, and at every restart. It goes back to the members that it remembers.`,
		Example: `  gridagent join --dir /var/lib/gridagent
  gridagent join 192.0.2.10:7946 --token T --dir /var/lib/gridagent --site paris
  GRIDAGENT_TOKEN=T gridagent join hostA,hostB`,
		Args: cobra.MaximumNArgs(1),
	}
	at := placeFlags(cmd)
	host := addHostFlags(cmd)
	token := cmd.Flags().String("token", "", "join token from gridagent init or token create (better as GRIDAGENT_TOKEN: others can see a command line)")
	run := addRunFlags(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		dir, socket, err := at.resolve()
		if err != nil {
			return err
		}
		if err := errors.Join(run.check(), host.check(), checkSocket(socket, dir), checkSpool(run.spool, dir)); err != nil {
			return err
		}
		switches, err := run.switchTree()
		if err != nil {
			return err
		}
		log, err := run.logger(a.err)
		if err != nil {
			return err
		}
		var seeds []string
		if len(args) == 1 {
			if *token == "" {
				return usagef("join %s: give the cluster's token with --token or GRIDAGENT_TOKEN; gridagent token create prints one", args[0])
			}
			if seeds, err = fetchIdentity(cmd.Context(), args[0], *token, dir, host, switches); err != nil {
				return err
			}
		}
		id, err := identity.Load(dir)
		if err != nil {
			return err
		}
		if !host.named(id.Settings.Host) {
			if given(cmd, "name") {
				return usagef("--name %s: this host is %s, by the certificate in %s: leave --name away, or join anew in another folder", host.name, id.Settings.Host, dir)
			}
			log.Warn("another name in the settings does not count: this host has the one of its certificate", "name", id.Settings.Host, "settings", host.name)
		}
		for _, w := range id.Warnings {
			log.Warn(w)
		}
		warnOfTokens(log, id)
		host.override(cmd.Flags(), &id.Settings)
		return a.runAgent(cmd.Context(), agentSettings{identity: id, socket: socket, seeds: seeds, run: run, switches: switches, log: log})
	})
	return cmd
}

// fetchIdentity asks a seed for a certificate and writes dir. It returns the addresses of members. That costs one use of the token, so
// what would keep the agent from starting is looked at before.
func fetchIdentity(ctx context.Context, seedText, token, dir string, host *hostFlags, switches []byte) ([]string, error) {
	opts, err := host.options("grid") // the seed tells its cluster's own name
	if err != nil {
		return nil, usagef("%w", err)
	}
	if switches != nil {
		if err := agent.CheckSwitches(switches, opts.Host); err != nil {
			return nil, err
		}
	}
	seeds, err := resolveSeeds(ctx, seedText)
	if err != nil {
		return nil, err
	}
	// The socket that the agent will use: the seed sees from it at which address the
	// others will reach this host.
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", host.bind)
	if err != nil {
		return nil, fmt.Errorf("socket on %s: %w; choose another with --bind", host.bind, err)
	}
	defer conn.Close()
	from, _ := netip.ParseAddrPort(host.bind)
	opts.DialTCP = lane.DialTCP(from.Addr())
	_, members, err := identity.Request(ctx, conn, seeds, token, dir, opts)
	switch {
	case errors.Is(err, context.Canceled):
		return nil, context.Canceled
	case unanswered(err):
		return nil, fmt.Errorf("%w: no agent answers there; does one run (gridagent status), is its port the one given, and does every firewall between let UDP pass, or at least TCP?", err)
	case err != nil:
		return nil, err
	}
	for _, s := range seeds {
		members = append(members, s.String())
	}
	return members, nil
}

// unanswered says that a seed did not refuse this host, but was silent.
func unanswered(err error) bool {
	var refusal *identity.Refusal
	var silence net.Error
	return !errors.As(err, &refusal) && errors.As(err, &silence) && silence.Timeout()
}

// warnOfTokens logs that join tokens cannot be read, which ends no agent but keeps every
// new host out.
func warnOfTokens(log *slog.Logger, id *identity.Identity) {
	if id.Authority == nil {
		return // another host keeps them
	}
	tokens, err := id.Tokens()
	if err == nil {
		_, err = tokens.List()
	}
	if err != nil {
		log.Warn("join tokens are not readable, so no host can join: mend the file, or remove it and make new ones with gridagent token create", "err", err)
	}
}

// named says that nothing given calls this host otherwise than name.
func (h *hostFlags) named(name string) bool {
	given, err := identity.HostName(h.name)
	return h.name == "" || err == nil && given == name
}

// override lets what the operator gives now stand above what the folder remembers.
func (h *hostFlags) override(flags *pflag.FlagSet, s *identity.Settings) {
	if flags.Changed("site") {
		s.Site = h.site
	}
	if flags.Changed("bind") || s.Bind == "" {
		s.Rebind(h.bind)
	}
	if flags.Changed("advertise") {
		s.Advertise = h.advertise
	}
}
