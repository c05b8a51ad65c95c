package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/gridagent/gridagent/agent/api/ends"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
	"github.com/gridagent/gridagent/agent/client"
)

// An unreachableError says that nobody listens on the agent's socket, or that this user may not speak to who does.
type unreachableError struct {
	socket string
	err    error
}

func (e *unreachableError) Error() string {
	if errors.Is(e.err, fs.ErrPermission) {
		return fmt.Sprintf("no access to the agent on %s (%v): its socket is for the agent's own user and root: run this as that user", e.socket, e.err)
	}
	return fmt.Sprintf("no agent answers on %s (%v): start it with gridagent join --dir DIR, or name another with --dir or --socket", e.socket, e.err)
}
func (e *unreachableError) Unwrap() error { return e.err }

// A goneError says that the agent ended, or was killed, in the middle of a call. One that ends in good order says so itself.
type goneError struct{ err error }

func (e *goneError) Error() string {
	return fmt.Sprintf("the agent on this host is gone (%v); see its log, and start it again with gridagent join --dir DIR", e.err)
}
func (e *goneError) Unwrap() error { return e.err }

// place says where an agent lives: its cluster folder and its socket.
type place struct{ dir, socket string }

// placeFlags adds --dir and --socket, by which every command finds its agent.
func placeFlags(cmd *cobra.Command) *place {
	p := new(place)
	cmd.Flags().StringVar(&p.dir, "dir", "~/.gridagent", "folder that holds the agent's identity and state")
	cmd.Flags().StringVar(&p.socket, "socket", "", "Unix socket of the agent (default DIR/agent.sock)")
	setting(cmd, "dir", "socket")
	return p
}

// resolve returns the folder and the socket as paths.
func (p *place) resolve() (dir, socket string, err error) {
	dir, socket = p.dir, p.socket
	if dir == "" { // as of a variable that is not set
		return "", "", usagef("--dir \"\": want a folder")
	}
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", "", fmt.Errorf("folder %s: %w; give --dir", dir, err)
		}
		dir = filepath.Join(home, rest)
	}
	if socket == "" {
		socket = filepath.Join(dir, "agent.sock")
	}
	return dir, socket, nil
}

// client returns a client of the agent at p. It connects on the first call.
func (p *place) client() (*client.Client, error) {
	socket := p.socket
	if socket == "" { // else the folder does not matter
		var err error
		if _, socket, err = p.resolve(); err != nil {
			return nil, err
		}
	}
	return client.NewDialer(func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil && ctx.Err() == nil {
			return nil, &unreachableError{socket: socket, err: socketReason(err)}
		}
		return conn, err
	}), nil
}

// dial returns the local API of the agent at p.
func (p *place) dial() (apiv1connect.AgentServiceClient, error) {
	c, err := p.client()
	if err != nil {
		return nil, err
	}
	return impatient{c.API(), answerTime}, nil
}

// socketReason strips the address from a dial error, which the message already holds.
func socketReason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		err = sys.Err
	}
	return err
}

// rpcError turns an error of the local API into what a person should read: its message
// without the RPC's framing. The end of a group stays a [*client.GroupError].
func rpcError(err error) error {
	if err == nil {
		return nil
	}
	var unreachable *unreachableError
	if errors.As(err, &unreachable) {
		return unreachable
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return err
	}
	// A process that is killed in the middle of a word leaves half of it.
	if !connect.IsWireError(err) && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)) {
		return &goneError{err: ce.Unwrap()}
	}
	if ends.Says(ce) {
		return &goneError{err: ce.Unwrap()}
	}
	switch ce.Code() {
	case connect.CodeUnavailable:
		if !connect.IsWireError(err) { // not the agent's own word: the connection broke
			return &goneError{err: ce.Unwrap()}
		}
	case connect.CodeCanceled:
		return context.Canceled
	case connect.CodeUnimplemented:
		return fmt.Errorf("the agent on this host is of another version and cannot do this: %s", ce.Message())
	}
	return errors.New(ce.Message())
}
