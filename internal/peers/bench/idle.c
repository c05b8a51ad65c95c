/*
 * Makes the ranks of an MPI program sleep while they wait. Preloaded, it takes the place of poll and
 * epoll_wait.
 *
 * MPICH and Open MPI ask for news in a loop, with a timeout of zero, as fast as they can: dozens of
 * ranks on two cores leave nothing for those that have work, nor for the network. Here, once
 * QUIET calls in a row have brought no news, the next ones wait up to PAUSE milliseconds. The
 * kernel ends the wait as soon as there is news, so what the network brings is not late; only
 * work that no descriptor announces can be, by at most PAUSE.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>

enum { QUIET = 20, PAUSE = 1 };

static __thread int quiet;

static int patience(int timeout) { return timeout == 0 && quiet >= QUIET ? PAUSE : timeout; }

static int heard(int events)
{
	quiet = events > 0 ? 0 : quiet < QUIET ? quiet + 1 : QUIET;
	return events;
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	static int (*real)(struct pollfd *, nfds_t, int);

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "poll");
	return heard(real(fds, n, patience(timeout)));
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	static int (*real)(int, struct epoll_event *, int, int);

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
	return heard(real(fd, events, max, patience(timeout)));
}
