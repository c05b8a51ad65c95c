package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestEveryCommandIsExplained checks that --help of each command shows an example and that
// every flag says what it does.
func TestEveryCommandIsExplained(t *testing.T) {
	n := 0
	walk(testApp().root(), func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
		if cmd.HasSubCommands() || cmd.Hidden {
			return
		}
		n++
		if !strings.Contains(cmd.Example, "gridagent ") {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: usage %q: want a phrase without a final period", cmd.CommandPath(), f.Name, f.Usage)
			}
		})
	})
	if n < 10 {
		t.Errorf("only %d commands were looked at", n)
	}
}

// TestManualIsCurrent compares docs/cli with what scripts/docs would write.
func TestManualIsCurrent(t *testing.T) {
	const kept = "../../docs/cli"
	made := t.TempDir()
	if status := testApp().run(t.Context(), []string{"docs", "markdown", "--out", made}); status != exitOK {
		t.Fatalf("docs markdown: status %d", status)
	}
	want := pages(t, made)
	have := pages(t, kept)
	for name, text := range want {
		if have[name] != text {
			t.Errorf("docs/cli/%s differs from gridagent's help: run scripts/docs", name)
		}
	}
	for name := range have {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/cli/%s describes no command: run scripts/docs", name)
		}
	}
	if len(want) < 15 {
		t.Errorf("only %d pages", len(want))
	}
}

func TestManPages(t *testing.T) {
	made := t.TempDir()
	if status := testApp().run(t.Context(), []string{"docs", "man", "--out", made}); status != exitOK {
		t.Fatalf("docs man: status %d", status)
	}
	page, err := os.ReadFile(filepath.Join(made, "gridagent-plan-allgather.1"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), ".TH") || !strings.Contains(string(page), "duplex") {
		t.Errorf("no man page: %.80q", page)
	}
}

// pages returns the generated pages in dir by file name.
func pages(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "gridagent*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(f)] = string(text)
	}
	return all
}
