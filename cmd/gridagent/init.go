package main

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent/identity"
)

func (a *app) initCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster on its first host and print a join token",
		Long: `Make a cluster: its certificate authority, the key that encrypts gossip, and this host's own
certificate, all in the folder --dir. Standard output is a join token, alone on a line; what
to do next is said on standard error. Then run gridagent join --dir DIR.

Keep the folder: it holds the key with which the cluster lets hosts in.`,
		Example: `  gridagent init --dir /var/lib/gridagent --site london --advertise 192.0.2.10:7946
  TOKEN=$(gridagent init --dir a --name a --bind 127.0.0.1:7001)`,
		Args: cobra.NoArgs,
	}
	at := placeFlags(cmd)
	host := addHostFlags(cmd)
	cluster := cmd.Flags().String("cluster", "grid", "name of the cluster")
	ttl := cmd.Flags().Duration("ttl", identity.DefaultTokenTTL, "how long the token is valid")
	uses := cmd.Flags().Int("uses", 0, "how many hosts the token can add; 0 means any number until it expires")
	setting(cmd, "cluster", "ttl")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(*cobra.Command, []string) error {
		if *ttl <= 0 || *uses < 0 {
			return usagef("--ttl %v --uses %d: want a time above 0 and a number of hosts", *ttl, *uses)
		}
		dir, _, err := at.resolve()
		if err != nil {
			return err
		}
		opts, err := host.options()
		if err != nil {
			return usagef("%w", err)
		}
		opts.Cluster = *cluster
		id, err := identity.Init(dir, opts, time.Now(), rand.Reader)
		if err != nil {
			return err
		}
		tokens, err := id.Tokens()
		if err != nil {
			return err
		}
		token, err := tokens.Create(*ttl, *uses, time.Now(), rand.Reader)
		if err != nil {
			return err
		}
		if output.value == "json" {
			return a.printJSON(struct {
				Cluster string    `json:"cluster"`
				Host    string    `json:"host"`
				Site    string    `json:"site"`
				Dir     string    `json:"dir"`
				Token   string    `json:"token"`
				TokenID string    `json:"token_id"`
				Expires time.Time `json:"expires"`
			}{id.Settings.Cluster, id.Settings.Host, id.Settings.Site, dir, token.String(), token.ID.String(), token.Expires.UTC()})
		}
		fmt.Fprintf(a.err, "cluster %s is made in %s; this host is %s.\n", id.Settings.Cluster, dir, id.Settings.Host)
		fmt.Fprintf(a.err, "run it:            gridagent join --dir %s\n", dir)
		fmt.Fprintf(a.err, "on another host:   gridagent join %s --token TOKEN\n", seedHint(id.Settings))
		fmt.Fprintf(a.err, "the token below is valid until %s:\n", token.Expires.Local().Format(time.DateTime))
		_, err = fmt.Fprintln(a.out, token)
		return err
	})
	return cmd
}

// seedHint is the address that other hosts are to be given.
func seedHint(s identity.Settings) string {
	if s.Advertise != "" {
		return s.Advertise
	}
	if at, err := netip.ParseAddrPort(s.Bind); err == nil && !at.Addr().IsUnspecified() {
		return s.Bind
	}
	return "ADDRESS-OF-THIS-HOST:" + portOf(s.Bind)
}
