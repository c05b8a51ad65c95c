package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/gridagent/gridagent/agent/identity"
	"github.com/gridagent/gridagent/internal/shell"
	"github.com/gridagent/gridagent/probe"
)

// The checks in this file find in flags what the agent would refuse later: after a token
// was spent, a folder written, or while other ranks wait. All of their errors are the
// caller's mistakes. The limits are those of the packages that are named beside them.

const (
	maxRanks      = 1 << 16              // package group
	maxJob        = 256                  // bytes; package group
	maxTTL        = 366 * 24 * time.Hour // of a token; package identity
	minTTL        = time.Second
	maxSocketPath = 107 // bytes: what the kernel takes for a Unix socket
)

func checkTTL(ttl time.Duration) error {
	if ttl < minTTL || ttl > maxTTL {
		return usagef("--ttl %v: want %v to %v, which is 366 days", ttl, minTTL, maxTTL)
	}
	return nil
}

// checkJob checks the name of a group, which appears in logs and on terminals everywhere.
func checkJob(job string) error {
	switch {
	case job == "" || len(job) > maxJob:
		return usagef("--job %.40q has %d bytes: want a name of 1 to %d", job, len(job), maxJob)
	case !utf8.ValidString(job):
		return usagef("--job %.40q: want UTF-8", job)
	case strings.ContainsFunc(job, func(r rune) bool { return !unicode.IsPrint(r) }):
		return usagef("--job %.40q: want printable characters", job)
	}
	return nil
}

func checkRanks(rank, ranks int) error {
	if ranks < 1 || ranks > maxRanks || rank < 0 || rank >= ranks {
		return usagef("--rank %d --ranks %d: want 0 ≤ rank < ranks ≤ %d", rank, ranks, maxRanks)
	}
	return nil
}

// checkHost checks who this host is to be.
func checkHost(o identity.Options) error {
	// Package identity checks these values where it reads them from its file.
	data, err := json.Marshal(identity.Settings{Version: 1, Cluster: o.Cluster, Host: o.Host, Site: o.Site, Bind: o.Bind, Advertise: o.Advertise})
	if err != nil {
		return err
	}
	if _, err := identity.ParseSettings(data); err != nil {
		return &usageError{err}
	}
	// Package membership refuses these as well.
	if at, err := netip.ParseAddrPort(o.Advertise); err == nil && (at.Addr().IsMulticast() || at.Addr().Zone() != "") {
		return usagef("advertise address %q: other hosts cannot reach it; want an address of this host without a zone", o.Advertise)
	}
	return nil
}

// check checks how the agent is to run.
func (r *runFlags) check() error {
	// To package probe 0 means its default, which is not what somebody means who writes it.
	if err := (probe.Config{Interval: r.probeInterval}).Check(); err != nil || r.probeInterval == 0 {
		return usagef("--probe-interval %v: want at least 5s", r.probeInterval)
	}
	if err := (probe.Config{Share: r.probeShare}).Check(); err != nil || r.probeShare == 0 {
		return usagef("--probe-share %v: want more than 0 and at most 0.1", r.probeShare)
	}
	if err := (probe.Config{HourlyCap: int64(r.probeCap)}).Check(); err != nil {
		return usagef("--probe-cap %v: want at least 1MiB, or 0B for none", &r.probeCap)
	}
	if r.mapWait < 0 {
		return usagef("--map-wait %v: want 0 or more", r.mapWait)
	}
	if r.spool == "" {
		return nil
	}
	if err := canHoldFolder(r.spool); err != nil {
		return usagef("--spool: %w", err)
	}
	info, err := os.Stat(r.spool)
	if err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return usagef("--spool: other users can put files into %s, which has mode %04o: run chmod go-w %s, or give another folder",
			r.spool, info.Mode().Perm(), shell.Quote(r.spool))
	}
	return nil
}

// canHoldFolder says why path is no folder that this user can write to, and cannot become one.
func canHoldFolder(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a folder", path)
		case err == nil:
			if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path):
			return err
		}
		path = filepath.Dir(path)
	}
}

// checkSpool checks that no agent uses the folder spool: not another one, and not this one for its identity in dir.
func checkSpool(spool, dir string) error {
	if spool == "" {
		return nil
	}
	if here, err := filepath.Abs(spool); err == nil {
		if folder, err := filepath.Abs(dir); err == nil && here == folder {
			return usagef("--spool %s: it is the folder of --dir: give another, or leave it to the agent", spool)
		}
	}
	// An agent locks this file in its spool as in its folder, and says so only at the start.
	f, err := os.Open(filepath.Join(spool, identity.FileLock))
	if err != nil {
		return nil
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return usagef("--spool %s: an agent is already running with it: give another", spool)
	}
	return nil
}

// checkSocket checks that an agent can listen at socket, beside the folder dir that it may
// still have to make.
func checkSocket(socket, dir string) error {
	if len(socket) > maxSocketPath {
		return usagef("socket path %.64q… has %d bytes, and the kernel takes %d: give a shorter one with --socket", socket, len(socket), maxSocketPath)
	}
	if info, err := os.Lstat(socket); err == nil && info.Mode().Type() != fs.ModeSocket {
		return usagef("%s exists and is not a socket: give another path with --socket", socket)
	}
	parent := filepath.Dir(socket)
	if parent == filepath.Clean(dir) {
		return nil
	}
	if info, err := os.Stat(parent); err != nil {
		return usagef("--socket %s: its folder: %w", socket, err)
	} else if !info.IsDir() {
		return usagef("--socket %s: %s is not a folder", socket, parent)
	}
	return nil
}
