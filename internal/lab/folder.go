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
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files in a lab's folder.
const (
	stateFile   = "lab.json"
	socketFile  = "control.sock"
	logFile     = "log"
	hostsFile   = "hosts"   // /etc/hosts of every host
	requestFile = "request" // what the supervisor is to make
)

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
	// In the user namespace of a lab everybody is root: the supervisor and programs in hosts are told.
	if dir := os.Getenv(envFolder); dir != "" {
		return dir
	}
	if os.Getuid() == 0 {
		return "/run/gridagent-lab"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "gridagent-lab")
	}
	return filepath.Join(os.TempDir(), "gridagent-lab-"+strconv.Itoa(os.Getuid()))
}

func folder(name string) string { return filepath.Join(base(), name) }

// checkBase refuses a folder for labs that others can write to: in /tmp somebody may have made it
// before, and what lies in a lab's folder says where programs run.
func checkBase() error {
	info, err := os.Lstat(base())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("folder for labs: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("folder for labs: %s is not a folder of this user alone (mode %v); remove it, or set XDG_RUNTIME_DIR to one that is",
			base(), info.Mode())
	}
	return nil
}

// Names returns the names of the labs of this user, in order, also of those that crashed.
func Names() ([]string, error) {
	if err := checkBase(); err != nil {
		return nil, err
	}
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

// create makes the folder of a lab with its request in it.
func create(req *Request) error {
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	// The last lab that ends takes the folder for labs with it, perhaps just now, and again. A
	// number of attempts would be the luck of who runs when.
	for end := time.Now().Add(createTime); ; {
		if err = tryCreate(req, data); !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			return err
		}
	}
}

// createTime is how long create tries where others make and end labs at the same moment.
const createTime = 5 * time.Second

func tryCreate(req *Request, data []byte) error {
	if err := os.MkdirAll(base(), 0o700); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("folder for labs: %w", fs.ErrNotExist) // it was there, and has gone before MkdirAll looked what it is
	} else if err != nil {
		return fmt.Errorf("folder for labs: %w", err)
	}
	if err := checkBase(); err != nil {
		return err
	}
	return alone(func() error {
		err := os.Mkdir(folder(req.Name), 0o700)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s; end it with gridagent lab down --name %s, or choose another with --name", errExists, req.Name, req.Name)
		} else if err != nil {
			return fmt.Errorf("folder of the lab: %w", err)
		}
		if err := writeWhole(filepath.Join(folder(req.Name), requestFile), data); err != nil {
			return errors.Join(fmt.Errorf("folder of the lab: %w", err), os.RemoveAll(folder(req.Name)))
		}
		return nil
	})
}

// remove takes the folder of a lab away unless it is another lab's by now: a supervisor that ends and
// a Down may both do it while somebody makes the next lab of the name.
func remove(name, id string) error {
	err := alone(func() error {
		if req, err := readRequest(name); err == nil && req.ID != id {
			return nil
		}
		if err := os.RemoveAll(folder(name)); err != nil {
			return err
		}
		_ = os.Remove(base()) // only if no other lab is in it
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readRequest reads what a lab was made from.
func readRequest(name string) (*Request, error) {
	path := filepath.Join(folder(name), requestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	req := new(Request)
	if err := json.Unmarshal(data, req); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return req, nil
}

// alone runs f while no other process of this user makes or removes the folder of a lab.
func alone(f func() error) error {
	for {
		dir, err := os.Open(base())
		if err != nil {
			return err
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
		if err != nil {
			dir.Close()
			return fmt.Errorf("lock %s: %w", base(), err)
		}
		// Who had the lock may have removed the folder, and somebody made it anew: that one is
		// locked by others.
		if mine, err := inodeOf(dir); err == nil {
			if now, err := inodeAt(base()); err == nil && now == mine {
				defer dir.Close() // gives the lock back
				return f()
			}
		}
		dir.Close()
	}
}

// writeWhole writes a file whole or not at all.
func writeWhole(path string, data []byte) error {
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}
