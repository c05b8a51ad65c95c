package main

import (
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func (a *app) tokenCmd() *cobra.Command {
	return parent("token", "Make, list and revoke join tokens",
		`Make, list and revoke the tokens with which hosts join. Only the agent that holds the
cluster's authority (the host where gridagent init ran) can make and revoke them.`,
		a.tokenCreateCmd(), a.tokenListCmd(), a.tokenRevokeCmd())
}

func (a *app) tokenCreateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a join token and print it",
		Long: `Make a join token and print it, alone on a line. Whoever holds it can add a host to the
cluster until it expires: hand it over like a password.`,
		Example: "  gridagent token create --ttl 1h --uses 1",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	ttl := cmd.Flags().Duration("ttl", 24*time.Hour, "how long the token is valid")
	uses := cmd.Flags().Uint32("uses", 0, "how many hosts it can add; 0 means any number until it expires")
	setting(cmd, "ttl")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := checkTTL(*ttl); err != nil {
			return err
		}
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, err := agent.TokenCreate(cmd.Context(), connect.NewRequest(&apiv1.TokenCreateRequest{TtlSeconds: ttl.Seconds(), Uses: *uses}))
		if err != nil {
			return rpcError(err)
		}
		if output.value == "json" {
			return a.printProto(reply.Msg)
		}
		_, err = fmt.Fprintln(a.out, reply.Msg.GetToken())
		return err
	})
	return cmd
}

func (a *app) tokenListCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the join tokens and what is left of them",
		Example: "  gridagent token list",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		reply, err := agent.TokenList(cmd.Context(), connect.NewRequest(&apiv1.TokenListRequest{}))
		if err != nil {
			return rpcError(err)
		}
		if output.value == "json" {
			return a.printProto(reply.Msg)
		}
		t := a.table("id", "created", "expires", "uses left", "state")
		for _, k := range reply.Msg.GetTokens() {
			uses := fmt.Sprint(k.GetUsesLeft())
			if k.GetUnlimited() {
				uses = "any"
			}
			t.row(k.GetId(), k.GetCreated().AsTime().Local().Format(time.DateTime),
				k.GetExpires().AsTime().Local().Format(time.DateTime), uses, tokenState(k, time.Now()))
		}
		return t.flush()
	})
	return cmd
}

func tokenState(k *apiv1.Token, now time.Time) string {
	switch {
	case k.GetRevoked():
		return "revoked"
	case now.After(k.GetExpires().AsTime()):
		return "expired"
	case !k.GetUnlimited() && k.GetUsesLeft() == 0:
		return "used up"
	}
	return "valid"
}

func (a *app) tokenRevokeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "Make a join token useless",
		Long:    "Make a join token useless. Hosts that joined with it stay members.",
		Example: "  gridagent token revoke 3f9c1a20",
		Args:    cobra.ExactArgs(1),
	}
	at := placeFlags(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		agent, err := at.dial()
		if err != nil {
			return err
		}
		if _, err := agent.TokenRevoke(cmd.Context(), connect.NewRequest(&apiv1.TokenRevokeRequest{Id: args[0]})); err != nil {
			return rpcError(err)
		}
		_, err = fmt.Fprintf(a.out, "token %s revoked\n", args[0])
		return err
	})
	return cmd
}
