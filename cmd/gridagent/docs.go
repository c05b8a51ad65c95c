package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) docsCmd() *cobra.Command {
	cmd := parent("docs", "Write the manual of all commands", "Write the manual of all commands, as scripts/docs does for docs/cli.",
		a.docsFormatCmd("markdown", "as Markdown pages", func(root *cobra.Command, dir string) error {
			return doc.GenMarkdownTree(root, dir)
		}),
		a.docsFormatCmd("man", "as man pages", func(root *cobra.Command, dir string) error {
			return doc.GenManTree(root, &doc.GenManHeader{Title: "GRIDAGENT", Section: "1", Source: "gridagent " + versionString()}, dir)
		}))
	cmd.Hidden = true
	return cmd
}

func (a *app) docsFormatCmd(format, how string, write func(*cobra.Command, string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:     format,
		Short:   "Write the manual " + how,
		Example: "  gridagent docs " + format + " --out DIR",
		Args:    cobra.NoArgs,
	}
	out := cmd.Flags().String("out", "", "folder to write to")
	markRequired(cmd, "out")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		if err := os.MkdirAll(*out, 0o755); err != nil {
			return err
		}
		root := a.root()
		root.DisableAutoGenTag = true // a date would make every run differ
		if err := write(root, *out); err != nil {
			return fmt.Errorf("manual in %s: %w", *out, err)
		}
		return nil
	})
	return cmd
}

// markRequired marks flags that a command cannot do without.
func markRequired(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag that this command does not have: a slip of ours
		}
	}
}
