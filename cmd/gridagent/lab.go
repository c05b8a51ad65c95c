package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/configs"
	"github.com/gridagent/gridagent/internal/lab"
)

func (a *app) labCmd() *cobra.Command {
	return parent("lab", "Run real programs on a grid of network namespaces on this machine",
		`A lab is a grid on this machine: a network namespace for each host, a bridge for each
site or switch, ports and cables held to their rates by the kernel, and links between sites
with the rate, delay, jitter, loss and queue of a grid file. Any program runs in it: agents, MPI
programs, iperf3. Nothing is added to the machine's own network, and after down nothing is left.

A lab needs Linux, and root or an unprivileged user namespace; for links between sites also a
/dev/net/tun that the user may open. No netem.

Rates are of IP bytes. Within a site packets take what the kernel takes, some 0.05 ms,
whatever latency the grid file says.

A host has a network of its own and nothing else: its programs see the machine's files and processes,
with the rights of who started them. It keeps nobody in.`,
		a.labUpCmd(), a.labExecCmd(), a.labStatusCmd(), a.labCheckCmd(), a.labStatsCmd(), a.labSetCmd(), a.labCutCmd(), a.labHealCmd(),
		a.labDownCmd(), a.labServeCmd())
}

// labNameFlag adds --name.
func labNameFlag(cmd *cobra.Command) *string {
	name := cmd.Flags().String("name", "lab", "name of the lab; there can be several")
	_ = cmd.RegisterFlagCompletionFunc("name", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		names, _ := lab.Names()
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	return name
}

// checkLabName refuses a --name that no lab can have.
func checkLabName(name string) error {
	if err := lab.CheckName(name); err != nil {
		return usagef("--name: %w", err)
	}
	return nil
}

func (a *app) labUpCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up GRID",
		Short: "Make a lab from a grid file or switch-tree file",
		Long: `Make a lab from GRID, a grid file with sites and wan, a switch-tree file, or the name of one
that is built in. The lab stays until gridagent lab down, kept by a process in the background.`,
		Example: `  gridagent lab up paper-3site
  gridagent lab up configs/grids/modern-4site.yaml --name modern --congestion bbr
  gridagent lab up aapc-conf-b --link-rate 10Mbps      # a switch tree, slower than its file says
  gridagent lab exec ut0 -- ping -c 3 uk0
  gridagent lab down`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNames(func() []string { return append(configs.Grids(), configs.Topologies()...) }),
	}
	name := labNameFlag(cmd)
	var linkRate bitRate
	cmd.Flags().Var(&linkRate, "link-rate", "rate of every port and cable of a switch tree, in place of its file's")
	congestion := cmd.Flags().String("congestion", "", "TCP's congestion control in all hosts, such as cubic or bbr (default: the system's)")
	seed := cmd.Flags().Uint64("seed", 1, "seed of losses and jitter")
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		if err := checkLabName(*name); err != nil {
			return err
		}
		file, data, err := readAnyNetwork(args[0])
		if err != nil {
			return err
		}
		defer a.busy.working("make the lab")()
		state, err := lab.Up(cmd.Context(), lab.Request{
			Name: *name, File: file, Data: data, LinkRate: float64(linkRate), Congestion: *congestion, Seed: *seed,
		}, []string{"lab", "serve"})
		if err != nil {
			return err
		}
		if output.value == "json" {
			return a.printJSON(state)
		}
		fmt.Fprintf(a.out, "lab %s is up: %s\n", state.Name, hostsBySite(state))
		for _, n := range state.Notes {
			fmt.Fprintf(a.out, "note: %s\n", n)
		}
		option := ""
		if *name != "lab" {
			option = " --name " + *name
		}
		first, last := state.Hosts[0].Name, state.Hosts[len(state.Hosts)-1].Name
		_, err = fmt.Fprintf(a.out, "try: gridagent lab exec%s %s -- ping -c 3 %s\nend: gridagent lab down%s\n", option, first, last, option)
		return err
	})
	return cmd
}

// readAnyNetwork reads the grid or switch-tree file at path, or the built-in one of that name.
func readAnyNetwork(path string) (name string, data []byte, err error) {
	builtIn := func(name string) ([]byte, bool) {
		if data, ok := configs.Grid(name); ok {
			return data, true
		}
		return configs.Topology(name)
	}
	name, data, err = readNetwork(path, "", builtIn, func() []string { return append(configs.Grids(), configs.Topologies()...) })
	if err != nil {
		err = fmt.Errorf("grid or switch-tree file: %w", err)
	}
	return name, data, err
}

func hostsBySite(s *lab.State) string {
	var sites []string
	count := make(map[string]int)
	for _, h := range s.Hosts {
		if count[h.Site] == 0 {
			sites = append(sites, h.Site)
		}
		count[h.Site]++
	}
	for i, site := range sites {
		sites[i] = fmt.Sprintf("%s (%d hosts)", site, count[site])
	}
	return strings.Join(sites, ", ")
}

func (a *app) labStatusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the labs, or the hosts of one",
		Example: `  gridagent lab status
  gridagent lab status --name modern -o json`,
		Args: cobra.NoArgs,
	}
	name := labNameFlag(cmd)
	output := outputFlag(cmd)
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := checkLabName(*name); err != nil {
			return err
		}
		if cmd.Flags().Changed("name") {
			return a.printLab(*name, output.value)
		}
		names, err := lab.Names()
		if err != nil {
			return err
		}
		if len(names) == 1 && output.value != "json" { // whose shape must not depend on how many there are
			return a.printLab(names[0], output.value)
		}
		return a.printLabs(names, output.value)
	})
	return cmd
}

func (a *app) printLab(name, output string) error {
	s, err := lab.Read(name)
	if err != nil {
		return err
	}
	if output == "json" {
		return a.printJSON(s)
	}
	fmt.Fprintf(a.out, "lab %s, %s, from %s: %s\n", s.Name, labState(s), s.File, hostsBySite(s))
	t := a.table("host", "site", "address")
	for _, h := range s.Hosts {
		t.row(h.Name, h.Site, h.Addr)
	}
	return t.flush()
}

func labState(s *lab.State) string {
	switch {
	case s.PID == 0:
		return "not up yet"
	case s.Alive():
		return fmt.Sprintf("up (process %d)", s.PID)
	}
	return "crashed"
}

func (a *app) printLabs(names []string, output string) error {
	states := make([]*lab.State, 0, len(names))
	for _, n := range names {
		s, err := lab.Read(n)
		switch {
		case errors.Is(err, lab.ErrNoLab): // it has just ended
			continue
		case errors.Is(err, lab.ErrNotUp):
			s = &lab.State{Name: n}
		case err != nil:
			return err
		}
		states = append(states, s)
	}
	if output == "json" {
		return a.printJSON(states)
	}
	t := a.table("lab", "state", "hosts", "from")
	for _, s := range states {
		t.row(s.Name, labState(s), len(s.Hosts), s.File)
	}
	return t.flush()
}

func (a *app) labDownCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End a lab and everything that runs in it",
		Long: `End the processes in the hosts of a lab (SIGTERM, and SIGKILL for what is left after 3 s), and
take the lab down. Also clears away a lab that crashed.`,
		Example: `  gridagent lab down
  gridagent lab down --all`,
		Args: cobra.NoArgs,
	}
	name := labNameFlag(cmd)
	all := cmd.Flags().Bool("all", false, "end all labs of this user")
	cmd.MarkFlagsMutuallyExclusive("name", "all")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := checkLabName(*name); err != nil {
			return err
		}
		names := []string{*name}
		if *all {
			var err error
			if names, err = lab.Names(); err != nil {
				return err
			}
		}
		defer a.busy.working("end the lab")()
		var err error
		for _, n := range names {
			err = errors.Join(err, lab.Down(cmd.Context(), n))
		}
		return err
	})
	return cmd
}

func (a *app) labServeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "serve NAME",
		Short:  "Hold a lab (lab up starts this)",
		Long:   "Hold a lab until it is told to end. lab up starts this and says what to make.",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
	}
	cmd.RunE = a.command(func(cmd *cobra.Command, args []string) error {
		const told = 3 // the descriptor that lab up passes
		return lab.Serve(cmd.Context(), args[0], os.NewFile(told, "ready"))
	})
	return cmd
}
