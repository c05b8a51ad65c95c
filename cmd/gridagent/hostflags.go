package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent/identity"
)

// defaultPort is where agents listen unless told otherwise.
const defaultPort = "7946"

// hostFlags say who this host is in its cluster.
type hostFlags struct {
	name, site, bind, advertise string
}

func addHostFlags(cmd *cobra.Command) *hostFlags {
	h := new(hostFlags)
	cmd.Flags().StringVar(&h.name, "name", "", "this host's name in the cluster (default: its host name)")
	cmd.Flags().StringVar(&h.site, "site", "", "label for where this host stands, for people and as a hint to probing")
	cmd.Flags().StringVar(&h.bind, "bind", "0.0.0.0:"+defaultPort, "IP:PORT of the agent's UDP socket, and of the TCP port for data where that is cheaper (--lane)")
	cmd.Flags().StringVar(&h.advertise, "advertise", "", "IP:PORT at which the other hosts reach this one; port 0: the port of --bind (default: found out)")
	setting(cmd, "name", "site", "bind", "advertise")
	return h
}

// options returns what package identity wants to know of a host of cluster, checked.
func (h *hostFlags) options(cluster string) (identity.Options, error) {
	name := h.name
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return identity.Options{}, fmt.Errorf("name of this host: %w; give --name", err)
		}
		// Some systems report the full domain name; within a cluster the first label is enough.
		name, _, _ = strings.Cut(host, ".")
		if name, err = identity.HostName(name); err != nil {
			return identity.Options{}, fmt.Errorf("%w; give --name", err)
		}
	}
	name, err := identity.HostName(name) // as the cluster has it, for who compares it
	if err != nil {
		return identity.Options{}, err
	}
	opts := identity.Options{Cluster: cluster, Host: name, Site: h.site, Bind: h.bind, Advertise: h.advertise}
	return opts, checkHost(opts)
}

// check checks the flags alone: an agent that starts again needs no name, and so no good
// host name either.
func (h *hostFlags) check() error {
	name := h.name
	if name == "" {
		name = "host"
	}
	return checkHost(identity.Options{Cluster: "grid", Host: name, Site: h.site, Bind: h.bind, Advertise: h.advertise})
}
