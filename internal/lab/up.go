package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Request is what [Up] asks a supervisor to make.
type Request struct {
	Name       string
	File       string  // where Data is from, for messages
	Data       []byte  // of a grid file or a switch-tree file
	LinkRate   float64 // of a switch tree, in IP bytes/s; zero: as the file says
	Congestion string  // TCP's congestion control in every host; empty: the system's
	Seed       uint64  // of losses and jitter
}

// ErrExists means that a lab of the name is up, or was left over by a crash.
var ErrExists = errors.New("there is a lab of this name")

// Up starts a supervisor, which is this program with the arguments serve and the lab's name, and
// returns when the lab is there. The supervisor stays until [Down].
func Up(req Request, serve []string) (*State, error) {
	if err := CheckName(req.Name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(base(), 0o700); err != nil {
		return nil, fmt.Errorf("folder for labs: %w", err)
	}
	dir := folder(req.Name)
	if err := os.Mkdir(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: %s; end it with gridagent lab down --name %s, or choose another with --name", ErrExists, req.Name, req.Name)
	} else if err != nil {
		return nil, fmt.Errorf("folder of the lab: %w", err)
	}
	s, err := start(req, dir, serve)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// upTimeout is how long a supervisor may take: 250 hosts need some 10 s on a slow machine.
const upTimeout = time.Minute

func start(req Request, dir string, serve []string) (*State, error) {
	data, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, requestFile), data, 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()
	cmd := exec.Command(self, append(serve, req.Name)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{tell} // descriptor 3
	// A session of its own: the terminal's Ctrl-C is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return nil, fmt.Errorf("start the lab in a network namespace: %w", explain(err))
	}
	word, err := readWord(ready)
	if err == nil && word == readyWord {
		return Read(req.Name)
	}
	if err != nil {
		word = fmt.Sprintf("no word from the supervisor: %v", err)
	} else if word == "" {
		text, _ := os.ReadFile(filepath.Join(dir, logFile))
		word = "the supervisor ended: " + string(bytes.TrimSpace(text))
	}
	_ = cmd.Process.Kill() // it has ended, or hangs
	_ = cmd.Wait()
	return nil, errors.New(strings.TrimSpace(word))
}

// readyWord is what a supervisor says to its starter; anything else is an error.
const readyWord = "ready"

func readWord(f *os.File) (string, error) {
	if err := f.SetReadDeadline(time.Now().Add(upTimeout)); err != nil {
		return "", err
	}
	word, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(word), err
}
