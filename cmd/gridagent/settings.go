package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"gopkg.in/yaml.v3"
)

// settingMark annotates the flags that the YAML file may also give. Every flag can be
// given as a GRIDAGENT_* variable; what belongs to one call alone (--rank, --in) has no
// place in a file.
const settingMark = "gridagent_setting"

// setting marks flags of cmd as keys of the YAML file.
func setting(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f.Annotations == nil {
			f.Annotations = make(map[string][]string)
		}
		f.Annotations[settingMark] = []string{"true"}
	}
}

// standingMark annotates the flags that a settings file or a variable has filled in for all commands.
const standingMark = "gridagent_standing"

// given reports whether a flag was given for this call alone: one that nothing looks at is refused then.
func given(cmd *cobra.Command, name string) bool {
	f := cmd.Flags().Lookup(name)
	return f != nil && f.Changed && f.Annotations[standingMark] == nil
}

// settings returns the default of every key of the YAML file, from the flags of the
// whole command tree. Where several commands share a key they share its default
// (TestSettingsAgree).
func settings(root *cobra.Command) map[string]string {
	keys := make(map[string]string)
	walk(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Annotations[settingMark] != nil {
				keys[f.Name] = f.DefValue
			}
		})
	})
	return keys
}

// walk calls visit for cmd and every command under it.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// configure fills the flags that the command line leaves open from the environment and
// the YAML file. After it, flags are the only place where a command looks.
func (a *app) configure(cmd *cobra.Command, _ []string) error {
	v := viper.New()
	v.SetEnvPrefix("GRIDAGENT")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	file := v.GetString("config")
	if f := cmd.Flags().Lookup("config"); f != nil && f.Changed {
		file = f.Value.String()
	}
	var inFile map[string]setValue
	if file != "" {
		data, err := readFile(file, maxSettingsBytes)
		if err != nil {
			return fmt.Errorf("settings file: %w", err)
		}
		if inFile, err = checkSettings(file, data, settings(cmd.Root())); err != nil {
			return err
		}
		// The values as they are written: of a site called 1.10 viper's own reading makes 1.1.
		written := make(map[string]any, len(inFile))
		for key, value := range inFile {
			if !value.null {
				written[key] = value.text
			}
		}
		if err := v.MergeConfigMap(written); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "config" {
			return
		}
		env := "GRIDAGENT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		from := env
		value, ok := inFile[f.Name]
		switch {
		case os.Getenv(env) != "":
		case ok && !value.null && f.Annotations[settingMark] != nil:
			from = fmt.Sprintf("%s:%d", file, value.line)
		default:
			return
		}
		if err := cmd.Flags().Set(f.Name, v.GetString(f.Name)); err != nil {
			if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
				err = valueError(f, invalid.Unwrap()) // pflag's own words speak of a flag that nobody typed
			}
			errs = append(errs, fmt.Errorf("%s: %s %.64q: %w", from, f.Name, v.GetString(f.Name), err))
		}
		if f.Annotations[settingMark] != nil {
			f.Annotations[standingMark] = []string{"true"}
		}
	})
	return errors.Join(errs...)
}

// A setValue is what a settings file gives for a key.
type setValue struct {
	text string
	line int
	null bool // as good as none
}

// checkSettings checks a settings file against the known keys and returns the value of
// each key that it gives, as it is written: YAML would make 1.1 of a site called 1.10. Errors name file, line and reason.
func checkSettings(name string, data []byte, known map[string]string) (map[string]setValue, error) {
	values := make(map[string]setValue)
	var top *yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			// yaml reports "yaml: line 3: reason".
			return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Value == "" {
			continue // nothing but comments
		}
		if top != nil {
			return nil, fmt.Errorf("%s:%d: a second document, the first is on line %d: settings are one", name, doc.Content[0].Line, top.Line)
		}
		top = doc.Content[0]
	}
	if top == nil {
		return values, nil
	}
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: settings are a list of \"key: value\" lines", name, top.Line)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if _, ok := known[key.Value]; !ok {
			return nil, fmt.Errorf("%s:%d: unknown setting %q; known are %s", name, key.Line, key.Value, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if value.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s:%d: setting %q needs a single value", name, value.Line, key.Value)
		}
		if first, ok := values[key.Value]; ok {
			return nil, fmt.Errorf("%s:%d: setting %q is given twice, first on line %d", name, key.Line, key.Value, first.line)
		}
		given := setValue{text: value.Value, line: key.Line}
		if value.Tag == "!!null" {
			given.text, given.null = "", true
		}
		values[key.Value] = given
	}
	return values, nil
}
