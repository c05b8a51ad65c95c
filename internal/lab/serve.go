package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Serve is the supervisor's main: it makes the lab that the request in the folder of name asks for,
// tells who started it, by ready, and answers until ctx ends. Then it takes all down, the folder too:
// that is left only if something would not go, with the log in it.
func Serve(ctx context.Context, name string, ready *os.File) error {
	err := serve(ctx, name, func() error {
		_, err := ready.WriteString(readyWord)
		return errors.Join(err, ready.Close())
	})
	if err != nil {
		// Lost if it was ready before: then the log has it.
		_, _ = ready.WriteString(err.Error())
	}
	return err
}

func serve(ctx context.Context, name string, ready func() error) (err error) {
	if err := CheckName(name); err != nil {
		return err
	}
	req, err := readRequest(name)
	if err != nil {
		return err
	}
	if req.ID == "" || req.ID != os.Getenv(envID) {
		return fmt.Errorf("the request for lab %s is not for this supervisor", name)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	l, err := newLab(req, func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) })
	if err != nil {
		return errors.Join(err, remove(name, req.ID))
	}
	if l.wan != nil {
		if err := urgent(); err != nil {
			log.Info("links between sites may be late while this machine is busy", "error", err)
		}
	}
	told := false
	defer func() {
		closed := l.Close()
		if closed == nil && (err == nil || !told) {
			closed = remove(name, req.ID) // whoever asked for it has gone, or ended it
		}
		err = errors.Join(err, closed)
	}()
	if err := writeWhole(filepath.Join(folder(name), hostsFile), l.hostNames()); err != nil {
		return err
	}
	// Programs in hosts may run as anybody.
	if err := os.Chmod(filepath.Join(folder(name), hostsFile), 0o644); err != nil {
		return err
	}
	sock, err := net.Listen("unix", filepath.Join(folder(name), socketFile))
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	state, err := l.state(req)
	if err != nil {
		return err
	}
	if err := state.write(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("lab %s was ended while it was being made", name)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{Handler: l.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(sock) }() // ends with Shutdown, below, or the process
	if err := ready(); err != nil {
		server.Close()
		return err // who started it has died, and nobody else knows of this lab
	}
	told = true
	log.Info("lab is up", "name", name, "hosts", len(state.Hosts), "pid", state.PID)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end() // checks that run
	bye, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(bye); err != nil { // an answer is under way to somebody who does not read it
		server.Close()
	}
	<-served
	return nil
}

func (l *Lab) state(req *Request) (*State, error) {
	started, err := startOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	s := &State{
		Name: req.Name, ID: req.ID, PID: os.Getpid(), Started: started,
		File: req.File, Notes: l.spec.Notes,
	}
	if os.Getenv(envFolder) != "" {
		if s.User, err = inodeAt("/proc/self/ns/user"); err != nil {
			return nil, err
		}
	}
	for i, h := range l.spec.Hosts {
		ns := l.fabric.hosts[i].ns
		s.Hosts = append(s.Hosts, StateHost{
			Name: h.Name, Site: l.spec.Sites[h.Site], Addr: h.Addr.String(),
			FD: int(ns.file.Fd()), Inode: ns.inode,
		})
	}
	return s, nil
}

// hostNames is /etc/hosts of every host.
func (l *Lab) hostNames() []byte {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n")
	for _, h := range l.spec.Hosts {
		fmt.Fprintf(&b, "%v %s\n", h.Addr, h.Name)
	}
	return []byte(b.String())
}

// A change is the body of a POST to /set, /cut or /heal.
type change struct {
	Link   Link   `json:"link"`
	Both   bool   `json:"both,omitempty"` // the other direction too
	Change Change `json:"change"`
}

func (l *Lab) handler() http.Handler {
	mux := http.NewServeMux()
	edit := func(path string, do func(change) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var c change
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&c); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if err := do(c); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	edit("/set", func(c change) error { return l.Change(c.Link, c.Both, c.Change) })
	edit("/cut", func(c change) error { return l.Cut(c.Link, c.Both, true) })
	edit("/heal", func(c change) error { return l.Cut(c.Link, c.Both, false) })
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		s, err := l.Stats()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) // who asked has gone
	})
	mux.HandleFunc("POST /check", l.serveCheck)
	return mux
}
