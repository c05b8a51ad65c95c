package lab

import (
	"context"
	"crypto/rand"
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

// Serve is the supervisor's main: it makes the lab that the request in the folder of name asks for, tells
// who started it, by ready, and answers until ctx ends or a client says down.
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
	dir := folder(name)
	data, err := os.ReadFile(filepath.Join(dir, requestFile))
	if err != nil {
		return err
	}
	req := new(Request)
	if err := json.Unmarshal(data, req); err != nil {
		return fmt.Errorf("%s: %w", requestFile, err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	id := "gridagent lab " + rand.Text()
	l, err := newLab(req, id, func(format string, args ...any) { log.Warn(fmt.Sprintf(format, args...)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := os.WriteFile(filepath.Join(dir, hostsFile), l.hostNames(), 0o644); err != nil {
		return err
	}
	sock, err := net.Listen("unix", filepath.Join(dir, socketFile))
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	state, err := l.state(req, id)
	if err != nil {
		return err
	}
	if err := state.write(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	server := &http.Server{Handler: l.handler(end), BaseContext: func(net.Listener) context.Context { return ctx }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(sock) }()
	if err := ready(); err != nil {
		return err
	}
	log.Info("lab is up", "name", name, "hosts", len(state.Hosts), "pid", state.PID)
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bye, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := server.Shutdown(bye); err != nil { // an answer is under way to somebody who does not read it
		server.Close()
	}
	<-served
	return nil
}

func (l *Lab) state(req *Request, id string) (*State, error) {
	started, err := startOf(os.Getpid())
	if err != nil {
		return nil, err
	}
	s := &State{
		Name: req.Name, ID: id, PID: os.Getpid(), Started: started, User: inUserNamespace(),
		File: req.File, Notes: l.spec.Notes,
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

// inUserNamespace tells whether root here is somebody else outside.
func inUserNamespace() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(data))
	return err == nil && (len(fields) != 3 || fields[1] != "0" || fields[2] != "4294967295")
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

func (l *Lab) handler(end func()) http.Handler {
	mux := http.NewServeMux()
	edit := func(path string, do func(Link, Change) error) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var c change
			dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&c); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			err := do(c.Link, c.Change)
			if back := (Link{c.Link.To, c.Link.From}); err == nil && c.Both && c.Link.To != "" && l.Reaches(back) {
				err = do(back, c.Change)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	edit("/set", l.Change)
	edit("/cut", func(link Link, _ Change) error { return l.Cut(link, true) })
	edit("/heal", func(link Link, _ Change) error { return l.Cut(link, false) })
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
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { end() })
	return mux
}
