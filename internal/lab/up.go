package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Request is what [Up] asks a supervisor to make.
type Request struct {
	Name       string
	ID         string  // made by Up: marks what is this lab's
	File       string  // where Data is from, for messages
	Data       []byte  // of a grid file or a switch-tree file
	LinkRate   float64 // of a switch tree, in IP bytes/s; zero: as the file says
	Congestion string  // TCP's congestion control in every host; empty: the system's
	Seed       uint64  // of losses and jitter
}

// errExists means that a lab of the name is up, or was left over by a crash.
var errExists = errors.New("there is a lab of this name")

// Up starts a supervisor, which is this program with the arguments serve and the lab's name, and
// returns when the lab is there; when ctx ends before, there is none. The supervisor stays until [Down].
func Up(ctx context.Context, req Request, serve []string) (*State, error) {
	if err := CheckName(req.Name); err != nil {
		return nil, err
	}
	if _, err := req.parse(); err != nil { // here it costs nothing
		return nil, err
	}
	req.ID = rand.Text()
	if err := create(&req); err != nil {
		return nil, err
	}
	s, err := start(ctx, &req, serve)
	if err != nil {
		return nil, errors.Join(err, remove(req.Name, req.ID))
	}
	return s, nil
}

// upTimeout is how long a supervisor may take: 250 hosts need some seconds on a slow machine.
const upTimeout = time.Minute

func start(ctx context.Context, req *Request, serve []string) (*State, error) {
	log, err := os.OpenFile(filepath.Join(folder(req.Name), logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
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
	// A script's locks and pipes are not to be held for as long as the lab is up.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // an old kernel cannot
	cmd := exec.Command(self, append(serve, req.Name)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), envID+"="+req.ID)
	cmd.ExtraFiles = []*os.File{tell} // descriptor 3
	// A session of its own: the terminal's Ctrl-C is not meant for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.Env = append(cmd.Env, envFolder+"="+base())
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err = cmd.Start()
	tell.Close()
	if err != nil {
		return nil, fmt.Errorf("start the lab in namespaces of its own: %w", explain(err))
	}
	word, err := readWord(ctx, ready)
	if err == nil && word == readyWord {
		return Read(req.Name)
	}
	_ = cmd.Process.Kill() // it has ended, or hangs, or is not wanted any more
	_ = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("no word from the supervisor: %w", err)
	case word == "":
		text, _ := os.ReadFile(log.Name())
		word = fmt.Sprintf("the supervisor ended: %s", bytes.TrimSpace(text))
	}
	return nil, errors.New(strings.TrimSpace(word))
}

// readyWord is what a supervisor says to its starter; anything else is an error.
const readyWord = "ready"

// readWord returns what the supervisor says, up to its end of the pipe.
func readWord(ctx context.Context, f *os.File) (string, error) {
	if err := f.SetReadDeadline(time.Now().Add(upTimeout)); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })
	defer stop()
	word, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(word), err
}
