package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/agent/group"
)

// A spool is the folder through which clients and agent hand payloads to each other:
// files that both map or read. It is emptied when the agent starts and when it ends.
type spool struct {
	dir  string
	lock *os.File
	next atomic.Uint64
}

// openSpool takes the folder for this agent alone: hosts of one machine that were
// given the same one would empty it under each other's hands.
func openSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&os.ModeSticky == 0 {
		return nil, fmt.Errorf("spool: %s has mode %04o, so other users could put files in place of ours: run chmod go-w %s, or give another folder with --spool",
			dir, mode.Perm(), dir)
	}
	lock, err := lockDir(dir, "with the spool")
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &spool{dir: dir, lock: lock}
	s.clear() // an agent that was killed could not
	return s, nil
}

// ours are the names of payloads. A folder for them, as /dev/shm, may hold what is somebody else's.
var ours = regexp.MustCompile(`^gridagent-[a-z]+-[0-9]+\.blk$`)

// clear removes every payload. What a client has mapped stays readable to it.
func (s *spool) clear() {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return // what is left is removed at the next start
	}
	for _, e := range entries {
		if ours.MatchString(e.Name()) {
			os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
}

// close empties the folder and lets go of it.
func (s *spool) close() {
	s.clear()
	s.lock.Close()
}

// create makes an empty file of size bytes whose space is reserved: writing to it
// later cannot find the disk full, which in mapped memory would kill the agent.
// With fill all of it is written, too.
func (s *spool) create(kind string, size int64, fill bool) (*os.File, error) {
	name := filepath.Join(s.dir, fmt.Sprintf("gridagent-%s-%d.blk", kind, s.next.Add(1)))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := reserve(f, size, fill); err != nil {
		f.Close()
		os.Remove(name)
		return nil, fmt.Errorf("spool %s: no room for %d bytes: %w", s.dir, size, err)
	}
	return f, nil
}

func reserve(f *os.File, size int64, fill bool) error {
	if size == 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && !fill:
			return nil
		case err == nil || errors.Is(err, unix.EOPNOTSUPP): // some file systems: write zeros instead
			return writeZeros(f, size)
		}
		return err
	}
}

// filling is what files are filled with, piece by piece.
var filling [1 << 20]byte

func writeZeros(f *os.File, size int64) error {
	for off := int64(0); off < size; off += int64(len(filling)) {
		if _, err := f.WriteAt(filling[:min(int64(len(filling)), size-off)], off); err != nil {
			return err
		}
	}
	return nil
}

// maxHeld is up to how many bytes a result is kept in the agent's memory and becomes a file only if a client asks for one: most travel inside the
// answer to the call (the client's maxInline), and to make, map and remove a file costs more than such a result itself.
const maxHeld = 256 << 10

// alloc makes the buffer of an operation's result. It is for group.Config.Alloc.
func (s *spool) alloc(_ group.ID, _ uint64, size int64) (group.Buffer, error) {
	if size <= maxHeld {
		return &held{spool: s, data: make([]byte, size)}, nil
	}
	return s.mapped(size)
}

// maxScratch is up to how many bytes of what is sent are copied to memory. More go to a file, whose pages the kernel can write out.
const maxScratch = 8 << 20

// scratch makes a buffer for what is sent and no client sees. It is for group.Config.Scratch.
func (s *spool) scratch(size int64) (group.Buffer, error) {
	switch {
	case size <= maxHeld:
		return &held{spool: s, data: make([]byte, size)}, nil
	case size > maxScratch:
		return s.mapped(size)
	}
	b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	return anonymous(b), err
}

// An anonymous buffer is memory that the collector does not count.
type anonymous []byte

func (b anonymous) Bytes() []byte       { return b }
func (anonymous) Path() (string, error) { return "", nil }
func (b anonymous) Release()            { unix.Munmap(b) }

// A held buffer is memory of the agent, and a spool file from when one is asked for.
type held struct {
	spool *spool
	data  []byte

	once sync.Once
	path string // of the file, and err why there is none, once it was asked for
	err  error
}

func (h *held) Bytes() []byte { return h.data }

// Path writes the file, once.
func (h *held) Path() (string, error) {
	h.once.Do(func() { h.path, h.err = h.spool.write(h.data) })
	return h.path, h.err
}

// Release is called when nobody asks for the path any more.
func (h *held) Release() {
	if h.path != "" {
		os.Remove(h.path)
	}
}

// write makes a file of data, which is to be read.
func (s *spool) write(data []byte) (path string, err error) {
	f, err := s.create("result", int64(len(data)), false)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o400), f.Close()); err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("spool: %w", err)
	}
	return f.Name(), nil
}

// A mapped buffer is a spool file in memory.
type mapped struct {
	path string
	data []byte
}

// maxFilled is up to how many bytes a file is filled before it is mapped. Each page of a mapped file that is written for the first time costs the kernel 6 µs
// on ext4, and a quarter of that if it is there (8 MiB: 12 ms and 2.5, BenchmarkSpool). A larger result may be on the disk before its bytes come, and again behind them.
const maxFilled = 64 << 20

func (s *spool) mapped(size int64) (*mapped, error) {
	f, err := s.create("result", size, size <= maxFilled)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &mapped{path: f.Name()}
	// Ranks of one host share a result, and it is sent on from there for a moment after they have it: it is to be read.
	if err := f.Chmod(0o400); err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("spool: %w", err)
	}
	m.data, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		os.Remove(f.Name())
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return m, nil
}

func (m *mapped) Bytes() []byte         { return m.data }
func (m *mapped) Path() (string, error) { return m.path, nil }

func (m *mapped) Release() {
	unix.Munmap(m.data)
	os.Remove(m.path)
}

// A spooledInput is a payload that the client wrote into a spool file. It is read
// rather than mapped: a client that cuts its file short gets an error, not us a SIGBUS.
type spooledInput struct {
	f    *os.File
	size int64
}

func (in *spooledInput) Size() int64 { return in.size }

func (in *spooledInput) CopyTo(dst []byte) error {
	if n, err := in.f.ReadAt(dst, 0); n < len(dst) {
		return fmt.Errorf("%s: %d of %d bytes: %w", in.f.Name(), n, len(dst), err)
	}
	return nil
}

// check refuses what is not as the client was told to leave it: another file in place of ours, whose bytes we would not have, or one
// that has grown.
func (in *spooledInput) check() error {
	was, err := in.f.Stat()
	if err != nil {
		return err
	}
	switch is, err := os.Stat(in.f.Name()); {
	case err != nil:
		return err
	case !os.SameFile(was, is):
		return fmt.Errorf("spool file %s is another one than Spool made: write into that file, rather than put yours in its place", in.f.Name())
	case is.Size() > in.size:
		return fmt.Errorf("spool file %s has %d bytes, and Spool was asked for bytes: %d", in.f.Name(), is.Size(), in.size)
	}
	return nil
}

// remove closes the file, and removes it if it is still ours.
func (in *spooledInput) remove() {
	was, err := in.f.Stat()
	if is, statErr := os.Stat(in.f.Name()); err == nil && statErr == nil && os.SameFile(was, is) {
		os.Remove(in.f.Name())
	}
	in.f.Close()
}
