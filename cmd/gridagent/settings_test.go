package main

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

const settingsFile = "../../configs/gridagent.yaml"

func testApp() *app { return &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard} }

// TestSettingsFile compares the documented settings with the flags: the same keys, the same defaults.
func TestSettingsFile(t *testing.T) {
	data, err := os.ReadFile(settingsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := settings(testApp().root())
	if len(want) < 10 {
		t.Fatalf("only %d settings: the flags are not marked", len(want))
	}
	if _, err := checkSettings(settingsFile, data, want); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[key]; !ok {
			t.Errorf("%s lacks %q", settingsFile, key)
		} else if v != want[key] {
			t.Errorf("%s: %s is %q, the flag's default is %q", settingsFile, key, v, want[key])
		}
	}
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		if line != "" && line[0] != '#' && !strings.HasPrefix(lines[i-1], "#") {
			t.Errorf("%s:%d: %q has no comment above it", settingsFile, i+1, line)
		}
	}
}

// ownMeaning lists flags that share a setting's name and not its meaning: verify's --duplex
// asks about a plan instead of shaping one, and the algorithms for alltoall are others.
var ownMeaning = map[string]bool{"verify --duplex": true, "alltoall --algorithm": true}

// TestSettingsAgree checks that a key means the same to every command that has it.
func TestSettingsAgree(t *testing.T) {
	root := testApp().root()
	type first struct{ cmd, def, kind string }
	seen := make(map[string]first)
	walk(root, func(cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			key := settings(root)[f.Name]
			if f.Annotations[settingMark] == nil {
				if key != "" && !ownMeaning[cmd.Name()+" --"+f.Name] {
					t.Errorf("%s --%s is a setting elsewhere but not here", cmd.CommandPath(), f.Name)
				}
				return
			}
			was, ok := seen[f.Name]
			if !ok {
				seen[f.Name] = first{cmd.CommandPath(), f.DefValue, f.Value.Type()}
			} else if was.def != f.DefValue || was.kind != f.Value.Type() {
				t.Errorf("--%s of %s is %s %q, of %s %s %q", f.Name, cmd.CommandPath(), f.Value.Type(), f.DefValue, was.cmd, was.kind, was.def)
			}
		})
	})
}

// configured returns flag name of gridagent join after args, the environment and a settings file.
func configured(t *testing.T, file string, args ...string) (*cobra.Command, error) {
	t.Helper()
	a := testApp()
	join, rest, err := a.root().Find(append([]string{"join"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "gridagent.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		rest = append(rest, "--config", path)
	}
	if err := join.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	return join, a.configure(join, nil)
}

func TestPrecedence(t *testing.T) {
	tests := []struct {
		name, env, file string
		args            []string
		want            string
	}{
		{name: "default", want: "info"},
		{name: "file", file: "log-level: warn\n", want: "warn"},
		{name: "variable over file", env: "error", file: "log-level: warn\n", want: "error"},
		{name: "flag over variable", env: "error", file: "log-level: warn\n", args: []string{"--log-level", "debug"}, want: "debug"},
		{name: "key of another command", file: "duplex: half\n", want: "info"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GRIDAGENT_LOG_LEVEL", tt.env)
			cmd, err := configured(t, tt.file, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := cmd.Flag("log-level").Value.String(); got != tt.want {
				t.Errorf("log-level is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSettingsAsWritten: a value of the file is the text that stands there, whatever YAML would take it for.
func TestSettingsAsWritten(t *testing.T) {
	for file, want := range map[string]string{
		"site: 1.10": "1.10", "site: 007": "007", "site: 1e3": "1e3", "site: yes": "yes", "site: 2024-01-02": "2024-01-02", "site: 0x10 # c": "0x10",
		`site: "1.10"`: "1.10", "site: 'a b'": "a b", "site: |-\n  lyon": "lyon", "site:": "", "site: null": "", "site: ~": "", `site: "~"`: "~",
	} {
		cmd, err := configured(t, file+"\n")
		if err != nil {
			t.Errorf("%q: %v", file, err)
		} else if got := cmd.Flag("site").Value.String(); got != want {
			t.Errorf("%q: site is %q, want %q", file, got, want)
		}
	}
	cmd, err := configured(t, "probe-share: 0.050\nno-progress: true\nprobe-interval: 5m\n")
	if err != nil || cmd.Flag("probe-share").Value.String() != "0.05" || cmd.Flag("probe-interval").Value.String() != "5m0s" {
		t.Errorf("numbers and times: %v", err)
	}
	t.Setenv("GRIDAGENT_SITE", "1.20")
	if cmd, err = configured(t, "site: 1.10\n"); err != nil || cmd.Flag("site").Value.String() != "1.20" {
		t.Errorf("the variable: site is %q, %v, want 1.20", cmd.Flag("site").Value, err)
	}
}

func TestSettingsFileByVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte("site: here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GRIDAGENT_CONFIG", path)
	cmd, err := configured(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := cmd.Flag("site").Value.String(); got != "here" {
		t.Errorf("site is %q, want here", got)
	}
}

func TestSettingsErrors(t *testing.T) {
	tests := []struct{ name, env, file, want string }{
		{"bad value in a variable", "loud", "", `GRIDAGENT_LOG_LEVEL: log-level "loud": want info or debug`},
		{"bad value in the file", "", "# c\nlog-level: loud\n", `gridagent.yaml:2: log-level "loud": want info or debug`},
		{"bad duration", "", "probe-interval: 10\n", `gridagent.yaml:1: probe-interval "10": want a time with its unit, such as 30s or 5m`},
		{"bad number", "", "probe-share: much\n", `gridagent.yaml:1: probe-share "much": want a number`},
		{"unknown key", "", "site: x\nsiet: y\n", `gridagent.yaml:2: unknown setting "siet"`},
		{"twice", "", "site: x\nname: n\nsite: y\n", `gridagent.yaml`},
		{"nested", "", "site:\n  name: x\n", `gridagent.yaml:2: setting "site" needs a single value`},
		{"not a mapping", "", "- site\n", `gridagent.yaml:1: settings are a list of`},
		{"not YAML", "", "site: x\n\tname: y\n", `gridagent.yaml: line 2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GRIDAGENT_LOG_LEVEL", tt.env)
			_, err := configured(t, tt.file)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q in it", err, tt.want)
			}
		})
	}
}

func FuzzCheckSettings(f *testing.F) {
	data, err := os.ReadFile(settingsFile)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("site: &a x\nname: *a\n"))
	f.Add([]byte("- a\n--- \n\t"))
	known := settings(testApp().root())
	f.Fuzz(func(t *testing.T, in []byte) {
		values, err := checkSettings("f", in, known)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("error %q does not begin with the file", err)
			}
			return
		}
		for key, v := range values {
			if v.line < 1 || v.line > 1+bytes.Count(in, []byte("\n")) {
				t.Errorf("%s is said to be on line %d of %q", key, v.line, in)
			}
		}
	})
}
