package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// An app is one run of the command line: where it reads, writes and complains.
type app struct {
	in       io.Reader
	out, err io.Writer
	parsed   bool        // a command's own code has begun
	busy     *statusLine // what a command that computes for long is at
}

// run executes the command in args and returns its exit status.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	out := &rememberer{w: a.out}
	root.SetOut(out)
	root.SetErr(a.err)
	strict(root, args)
	cmd, err := root.ExecuteContextC(ctx)
	if out.err != nil { // help and completions, of which cobra loses or rewords it
		err, a.parsed = out.err, true
	}
	if err != nil && !a.parsed {
		err = fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
	}
	return a.report(err, a.parsed)
}

// A rememberer keeps the first error of w: cobra writes help without looking.
type rememberer struct {
	w   io.Writer
	err error
}

func (r *rememberer) Write(b []byte) (int, error) {
	n, err := r.w.Write(b)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// strict makes the commands that cobra adds refuse what they do not know: as they come,
// "completion foo" and "help foo" print help with status 0.
func strict(root *cobra.Command, args []string) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() } // only then are its arguments looked at
		case "help":
			c.Args = func(_ *cobra.Command, topic []string) error {
				if _, rest, err := root.Find(topic); err != nil || len(rest) > 0 {
					return fmt.Errorf("no command %.64q to help with", strings.Join(topic, " "))
				}
				return nil
			}
		}
	}
}

// The headings under which --help lists the commands.
const (
	groupAgent  = "agent"
	groupData   = "data"
	groupPlan   = "plan"
	groupOthers = "others"
)

// root returns the command tree. It is made anew for each run: cobra keeps flag values in it.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "gridagent",
		Short: "Move data between sites at the speed of the wires",
		Long: `gridagent runs one agent on each host of several sites. The agents find each other,
measure the network between them, keep a map of it, and move data between the ranks
of a distributed computation by a schedule made for that network.

Settings come from flags, then from GRIDAGENT_* variables (--log-level is
GRIDAGENT_LOG_LEVEL), then from the YAML file that --config names.`,
		Example: `  gridagent init --dir /var/lib/gridagent --site london     # first host: makes the cluster, prints a token
  gridagent join --dir /var/lib/gridagent                   # runs its agent
  gridagent join hostA:7946 --token T --dir /var/lib/gridagent --site paris
  gridagent members --dir /var/lib/gridagent
  gridagent simulate allgather --grid configs/grids/paper-3site.yaml --size 64KiB`,
		Args:              cobra.NoArgs,
		SilenceErrors:     true, // printed by report, as one line
		SilenceUsage:      true,
		PersistentPreRunE: a.configure,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().String("config", "", "YAML file with settings, see configs/gridagent.yaml (GRIDAGENT_CONFIG)")
	root.AddGroup(
		&cobra.Group{ID: groupAgent, Title: "The agent and its cluster:"},
		&cobra.Group{ID: groupData, Title: "Moving data:"},
		&cobra.Group{ID: groupPlan, Title: "Plans, from files alone:"},
		&cobra.Group{ID: groupOthers, Title: "Others:"},
	)
	root.SetHelpCommandGroupID(groupOthers)
	root.SetCompletionCommandGroupID(groupOthers)
	a.add(root, groupAgent, a.initCmd(), a.joinCmd(), a.tokenCmd(), a.leaveCmd(), a.statusCmd(), a.membersCmd(), a.mapCmd(), a.probeCmd(), a.poolsCmd())
	a.add(root, groupData, a.demoCmd(), a.allgatherCmd(), a.alltoallCmd(), a.broadcastCmd(), a.barrierCmd(), a.benchCmd(), a.tuneCmd())
	a.add(root, groupPlan, a.planCmd(), a.verifyCmd(), a.simulateCmd(), a.studyCmd())
	a.add(root, groupOthers, a.labCmd(), a.versionCmd(), a.docsCmd())
	return root
}

func (a *app) add(root *cobra.Command, group string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// parent returns a command that only holds others.
func parent(use, short, long string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sub...)
	return cmd
}
