package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A State is what is known of a lab from outside: the file lab.json in its folder.
type State struct {
	Name    string      `json:"name"`
	ID      string      `json:"id"` // of this lab and no other: a mark of its processes and namespaces
	PID     int         `json:"pid"`
	Started uint64      `json:"started"`                  // of the supervisor, in clock ticks since boot: tells it from a later process with its number
	User    uint64      `json:"user_namespace,omitempty"` // inode of the lab's own; zero: it has none
	File    string      `json:"file"`                     // what the lab was made from
	Hosts   []StateHost `json:"hosts"`
	Notes   []string    `json:"notes,omitempty"`
}

// A StateHost is how to get into a host.
type StateHost struct {
	Name  string `json:"name"`
	Site  string `json:"site"`
	Addr  string `json:"addr"`
	FD    int    `json:"fd"`    // of the supervisor: its namespace
	Inode uint64 `json:"inode"` // of the namespace
}

// ErrNoLab means that there is no lab of the name.
var ErrNoLab = errors.New("no such lab")

// ErrNotUp means that there is the folder of a lab that is being made, or never was whole.
var ErrNotUp = errors.New("the lab is not up yet")

// Read returns the state of a lab, which may have crashed (see Alive). The error is ErrNoLab
// where there is none, and ErrNotUp where one is being made.
func Read(name string) (*State, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := checkBase(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(folder(name), stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(folder(name)); err == nil {
			return nil, fmt.Errorf("%w: %s; if it stays so, clear it away with gridagent lab down --name %s", ErrNotUp, name, name)
		}
		return nil, fmt.Errorf("%w: %s", ErrNoLab, name)
	} else if err != nil {
		return nil, err
	}
	s := new(State)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder(name), stateFile), err)
	}
	return s, nil
}

// write puts s into its folder.
func (s *State) write() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(folder(s.Name), stateFile), data)
}

// Alive tells whether the supervisor runs.
func (s *State) Alive() bool {
	started, err := startOf(s.PID)
	return err == nil && started == s.Started
}

// crashed is the error of what needs a supervisor.
func (s *State) crashed() error {
	return fmt.Errorf("lab %s has crashed; clear it away with gridagent lab down --name %s", s.Name, s.Name)
}

// host returns the entry of a host.
func (s *State) host(name string) (*StateHost, error) {
	for i := range s.Hosts {
		if s.Hosts[i].Name == name {
			return &s.Hosts[i], nil
		}
	}
	var names []string
	for _, h := range s.Hosts {
		names = append(names, h.Name)
	}
	return nil, fmt.Errorf("no host %q in lab %s; it has %s", name, s.Name, shorten(names))
}

// shorten keeps an error readable.
func shorten(names []string) string {
	const most = 40
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
