/*
 * Gives the TCP sockets of an MPI program the congestion control that PEERS_CONGESTION names. Preloaded,
 * it takes the place of socket; what a listening socket accepts inherits it.
 *
 * A network namespace can only be set to what net.ipv4.tcp_allowed_congestion_control lists, for the
 * whole machine. A socket can be set to what the kernel has, by who is root in the namespace.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int socket(int domain, int type, int protocol)
{
	static int (*real)(int, int, int);
	const char *name = getenv("PEERS_CONGESTION");
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "socket");
	fd = real(domain, type, protocol);
	if (fd < 0 || name == NULL || (domain != AF_INET && domain != AF_INET6) || (type & ~flags) != SOCK_STREAM)
		return fd;
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) != 0) {
		/* Another one in its place would be a wrong result. */
		fprintf(stderr, "congestion control %s: %m\n", name);
		_exit(1);
	}
	return fd;
}
