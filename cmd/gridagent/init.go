package main

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/internal/shell"
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
		if *uses < 0 {
			return usagef("--uses %d: want a number of hosts, or 0 for any number", *uses)
		}
		if err := checkTTL(*ttl); err != nil {
			return err
		}
		dir, _, err := at.resolve()
		if err != nil {
			return err
		}
		opts, err := host.options(*cluster)
		if err != nil {
			return usagef("%w", err)
		}
		id, err := identity.Init(dir, opts, time.Now(), rand.Reader)
		if err != nil {
			return err
		}
		token, err := firstToken(id, *ttl, *uses)
		if err != nil {
			return tokenless(dir, err)
		}
		if output.value == "json" {
			err = a.printJSON(struct {
				Cluster string    `json:"cluster"`
				Host    string    `json:"host"`
				Site    string    `json:"site"`
				Dir     string    `json:"dir"`
				Token   string    `json:"token"`
				TokenID string    `json:"token_id"`
				Expires time.Time `json:"expires"`
			}{id.Settings.Cluster, id.Settings.Host, id.Settings.Site, dir, token.String(), token.ID.String(), token.Expires.UTC()})
		} else {
			fmt.Fprintf(a.err, "cluster %s is made in %s; this host is %s.\n", id.Settings.Cluster, dir, id.Settings.Host)
			fmt.Fprintf(a.err, "run it:            gridagent join --dir %s\n", shell.Quote(dir))
			fmt.Fprintf(a.err, "on another host:   gridagent join %s\n", seedHint(id.Settings, dir))
			fmt.Fprintf(a.err, "the token below is valid until %s:\n", token.Expires.Local().Format(time.DateTime))
			_, err = fmt.Fprintln(a.out, token)
		}
		if err != nil {
			return tokenless(dir, err)
		}
		return nil
	})
	return cmd
}

func firstToken(id *identity.Identity, ttl time.Duration, uses int) (identity.Token, error) {
	tokens, err := id.Tokens()
	if err != nil {
		return identity.Token{}, err
	}
	return tokens.Create(ttl, uses, time.Now(), rand.Reader)
}

// tokenless explains an err that came up when the cluster was there and its token was not
// in the caller's hands, as on a full disk: init cannot be run again, nor need it be.
func tokenless(dir string, err error) error {
	return fmt.Errorf("the cluster is made in %s, but not its join token: %w; mend that, run gridagent join --dir %s, and then gridagent token create --dir %s",
		dir, err, shell.Quote(dir), shell.Quote(dir))
}

// seedHint is what other hosts are to be given: the address of this one, and the token.
func seedHint(s identity.Settings, dir string) string {
	at, err := netip.ParseAddrPort(s.Bind)
	told, _ := netip.ParseAddrPort(s.Advertise)
	switch {
	case told.IsValid() && told.Port() == 0 && at.Port() != 0:
		return netip.AddrPortFrom(told.Addr(), at.Port()).String() + " --token TOKEN"
	case told.IsValid() && told.Port() != 0:
		return s.Advertise + " --token TOKEN"
	case err != nil: // no bind: the agent's default
		return "ADDRESS-OF-THIS-HOST:" + defaultPort + " --token TOKEN"
	case at.Port() == 0:
		return "ADDRESS --token TOKEN; the system picks the port at each start,\n" +
			"                   so take ADDRESS from gridagent status --dir " + shell.Quote(dir) + ", or give --bind a port"
	case at.Addr().IsUnspecified():
		return fmt.Sprintf("ADDRESS-OF-THIS-HOST:%d --token TOKEN", at.Port())
	}
	return s.Bind + " --token TOKEN"
}
