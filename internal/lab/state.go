package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A State is what is known of a lab from outside: the file lab.json in its folder.
type State struct {
	Name    string      `json:"name"`
	ID      string      `json:"id"` // alias of every host's interface
	PID     int         `json:"pid"`
	Started uint64      `json:"started"` // of the supervisor, in clock ticks since boot: tells it from a later process with its number
	User    bool        `json:"user_namespace,omitempty"`
	File    string      `json:"file"` // what the lab was made from
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

// Files in a lab's folder.
const (
	stateFile   = "lab.json"
	socketFile  = "control.sock"
	logFile     = "log"
	hostsFile   = "hosts"   // /etc/hosts of every host
	requestFile = "request" // what the supervisor is to make
)

// ErrNoLab means that there is no lab of the name.
var ErrNoLab = errors.New("no such lab")

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,30}$`)

// CheckName refuses a name that cannot be a folder's.
func CheckName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("lab name %q: want up to 31 of a-z, 0-9, '-' and '_', the first a letter or digit", name)
	}
	return nil
}

// base is where labs of this user are kept: gone after a boot, as the labs themselves.
func base() string {
	if os.Getuid() == 0 {
		return "/run/gridagent-lab"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "gridagent-lab")
	}
	return filepath.Join(os.TempDir(), "gridagent-lab-"+strconv.Itoa(os.Getuid()))
}

func folder(name string) string { return filepath.Join(base(), name) }

// Names lists the labs of this user, those that crashed included.
func Names() ([]string, error) {
	entries, err := os.ReadDir(base())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && nameRE.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Read returns the state of a lab, which may have crashed (see Alive). The error is ErrNoLab
// where there is none, or one that has not come up yet.
func Read(name string) (*State, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(folder(name), stateFile))
	if errors.Is(err, fs.ErrNotExist) {
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

// write puts s into its folder, whole or not at all.
func (s *State) write() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(folder(s.Name), stateFile)
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// Alive tells whether the supervisor runs.
func (s *State) Alive() bool {
	started, err := startOf(s.PID)
	return err == nil && started == s.Started
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

// startOf returns when a process began, in clock ticks since boot; an error if there is none,
// or only what its parent has not yet taken note of.
func startOf(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the program's name, may hold blanks and brackets.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const state, start = 0, 19
	if len(fields) <= start || fields[state] == "Z" || fields[state] == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(fields[start], 10, 64)
}
