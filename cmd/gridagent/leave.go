package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
	"github.com/gridagent/gridagent/agent/api/v1/apiv1connect"
)

func (a *app) leaveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Make the agent leave the cluster in good order and end",
		Long: `Make the agent tell the others that it leaves for good, and end; wait until its process has
ended. The others forget the host. To stop an agent that is to come back, send it SIGTERM
instead. The folder stays: gridagent join --dir DIR brings the host back all the same.`,
		Example: "  gridagent leave --dir /var/lib/gridagent",
		Args:    cobra.NoArgs,
	}
	at := placeFlags(cmd)
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "give up waiting for the agent's answer and its end after this time")
	cmd.RunE = a.command(func(cmd *cobra.Command, _ []string) error {
		_, socket, err := at.resolve()
		if err != nil {
			return err
		}
		agent, err := at.dial()
		if err != nil {
			return err
		}
		process := openProcess(socket) // before the socket is gone, and perhaps its number another's
		defer process.close()
		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()
		if _, err := within(cmd.Context(), *timeout, agent.Leave, connect.NewRequest(&apiv1.LeaveRequest{})); err != nil {
			return rpcError(err)
		}
		err = awaitSilence(ctx, agent)
		if err == nil {
			err = process.wait(ctx)
		}
		switch {
		case cmd.Context().Err() != nil:
			return cmd.Context().Err()
		case err != nil:
			return fmt.Errorf("the agent has been told to leave but still runs after %v; see its log", *timeout)
		}
		_, err = fmt.Fprintln(a.out, "left the cluster")
		return err
	})
	return cmd
}

// awaitSilence asks until nobody answers any more, or ctx ends.
func awaitSilence(ctx context.Context, agent apiv1connect.AgentServiceClient) error {
	for {
		_, err := agent.Status(ctx, connect.NewRequest(&apiv1.StatusRequest{}))
		var unreachable *unreachableError
		if err = rpcError(err); errors.As(err, &unreachable) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(memberPoll):
		}
	}
}

// A process is the agent's, -1 if it cannot be watched: the kernel does not say which it
// is (it runs in another container), is too old (before Linux 5.3), or it is this one. The
// agent closes its socket first and then says goodbye to the others, for up to three seconds.
// Only when the process has ended are its folder and its port free.
type process int

// openProcess returns the process that listens on socket.
func openProcess(socket string) process {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return -1
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return -1
	}
	fd := -1
	_ = raw.Control(func(s uintptr) {
		cred, err := unix.GetsockoptUcred(int(s), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || cred.Pid <= 0 || int(cred.Pid) == os.Getpid() {
			return
		}
		if fd, err = unix.PidfdOpen(int(cred.Pid), 0); err != nil {
			fd = -1
		}
	})
	return process(fd)
}

// wait returns nil when the process has ended, or what ended ctx before.
func (p process) wait(ctx context.Context) error {
	if p < 0 {
		return nil
	}
	poll := []unix.PollFd{{Fd: int32(p), Events: unix.POLLIN}} // readable once it has ended
	for {
		n, err := unix.Poll(poll, int(memberPoll/time.Millisecond))
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return nil // cannot be watched after all
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func (p process) close() {
	if p >= 0 {
		unix.Close(int(p))
	}
}
