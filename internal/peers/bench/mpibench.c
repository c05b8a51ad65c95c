/*
 * The collective benchmark of scripts/peers, timed as gridagent bench times its own: for each size
 * warm-up calls, then iterations of barrier, clock, operation, clock, check. The time of an iteration
 * is that of the slowest rank.
 *
 *   mpibench allgather|alltoall together|apart ITERATIONS WARMUP BYTES[:FILE]...
 *
 * Ranks leave a barrier one by one. Over links of 40 ms those that are behind by as much find data on their way, and their clocks
 * show less than the operation takes. With together all begin at one moment, which rank 0 sets far enough ahead for all to hear
 * of it: they are on one machine, and CLOCK_MONOTONIC is the same for all. With apart each begins when it leaves the barrier, as in
 * benchmarks over machines whose clocks differ.
 *
 * FILE has the sizes of blocks that differ, in bytes: of an allgather one for each rank, of an alltoall a row for each source;
 * BYTES is then the largest, and the operation MPI_Allgatherv or MPI_Alltoallv.
 *
 * Rank 0 prints a line of JSON when all ranks are there, one for each size as soon as it is measured,
 * and one at the end. It pauses after each, so that who reads them can look at counters of the
 * network in between. Compiled with -DROUTINE=NAME it calls that function of a file of
 * gridagent plan -o mpi-c in place of the library's own.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

#include "pattern.h"

#ifdef ROUTINE
int ROUTINE(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
#endif

/* How long MPI_Finalize may take, in seconds, and a pause between sizes, in milliseconds. */
enum { PATIENCE = 1, PAUSE = 200 };

/* What a moment that all are to hear of is ahead beside the way there, in milliseconds, and how often that way is measured. */
enum { LEAD = 5, ASKED = 3 };

/* What the calls of one size need. */
struct job {
	int alltoall;
	int together;
	double lead;      /* how long before the moment at which all begin rank 0 says so, in seconds */
	int me, ranks;
	int size;         /* bytes of a block, of the largest one */
	const char *file; /* NULL: all blocks have that */
	int *sent, *sent_at; /* of the blocks that this rank sends: bytes, and where they begin; of an allgather there is one */
	int *got, *got_at;   /* of those that it gets, by rank */
	unsigned char *send, *recv;
};

static void fail(const char *what)
{
	fprintf(stderr, "mpibench: %s\n", what);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* end_line ends a line, whose reader may then take his time. */
static void end_line(void)
{
	struct timespec t = {0, PAUSE * 1000000L};

	printf("\n");
	fflush(stdout);
	nanosleep(&t, NULL);
}

/* key_of is the key of the block from source to dest in a call; an allgather's block is for all. */
static uint64_t key_of(const struct job *j, int call, int source, int dest)
{
	return block_key(j->alltoall, (uint64_t)j->size, call, source, j->alltoall ? dest : -1);
}

/* blocks is how many this rank sends. */
static int blocks(const struct job *j) { return j->alltoall ? j->ranks : 1; }

/* begin_of sets at to where blocks of these sizes begin, one behind the other, and returns where they end. */
static size_t begin_of(const int *sizes, int *at, int n)
{
	size_t all = 0;
	int i;

	for (i = 0; i < n; i++) {
		if (all > INT_MAX)
			fail("more bytes than MPI counts");
		at[i] = (int)all;
		all += (size_t)sizes[i];
	}
	return all;
}

/* read_sizes reads the sizes of all blocks, and keeps those of this rank's. */
static void read_sizes(const struct job *j)
{
	FILE *in = fopen(j->file, "r");
	int from, to, n;

	if (in == NULL)
		fail("no file of sizes");
	for (from = 0; from < j->ranks; from++)
		for (to = 0; to < blocks(j); to++) {
			if (fscanf(in, "%d", &n) != 1 || n < 0 || n > j->size)
				fail("file of sizes: a size is missing or out of range");
			if (from == j->me)
				j->sent[to] = n;
			if (!j->alltoall || to == j->me)
				j->got[from] = n;
		}
	fclose(in);
}

/* lay_out sets the sizes of all blocks, and gives them room. */
static void lay_out(struct job *j)
{
	size_t n = (size_t)j->ranks;
	int i;

	j->sent = calloc(n, sizeof(int));
	j->sent_at = calloc(n, sizeof(int));
	j->got = calloc(n, sizeof(int));
	j->got_at = calloc(n, sizeof(int));
	if (j->sent == NULL || j->sent_at == NULL || j->got == NULL || j->got_at == NULL)
		fail("out of memory");
	for (i = 0; i < j->ranks; i++)
		j->sent[i] = j->got[i] = j->size;
	if (j->file != NULL)
		read_sizes(j);
	j->send = malloc(begin_of(j->sent, j->sent_at, blocks(j)) + 1);
	j->recv = malloc(begin_of(j->got, j->got_at, j->ranks) + 1);
	if (j->send == NULL || j->recv == NULL)
		fail("out of memory");
}

static void clear(struct job *j)
{
	free(j->sent);
	free(j->sent_at);
	free(j->got);
	free(j->got_at);
	free(j->send);
	free(j->recv);
}

/* fill makes what this rank sends in a call, and spoils what it received in the one before. */
static void fill(struct job *j, int call)
{
	int i;

	for (i = 0; i < blocks(j); i++)
		block_fill(j->send + j->sent_at[i], (size_t)j->sent[i], key_of(j, call, j->me, i));
	for (i = 0; i < j->ranks; i++)
		memset(j->recv + j->got_at[i], 0x5a, (size_t)j->got[i]);
}

/* check returns 1 if a block is not what it must be, and says on standard error which one it is instead. */
static int check(const struct job *j, int call)
{
	int from, source, dest;

	for (from = 0; from < j->ranks; from++) {
		const unsigned char *block = j->recv + j->got_at[from];
		size_t size = (size_t)j->got[from];
		size_t wrong = block_compare(block, size, key_of(j, call, from, j->me));

		if (wrong == size)
			continue;
		fprintf(stderr, "mpibench: rank %d, call %d of %d bytes: the block from rank %d differs at byte %zu\n",
			j->me, call, j->size, from, wrong);
		for (source = 0; source < j->ranks; source++)
			for (dest = 0; dest < blocks(j); dest++)
				if (block_compare(block, size, key_of(j, call, source, dest)) == size)
					fprintf(stderr, "mpibench: it is the block from rank %d to %d\n", source, dest);
		return 1;
	}
	return 0;
}

static int operation(const struct job *j)
{
#ifdef ROUTINE
	if (j->file != NULL)
		fail("routines are for blocks of one size");
	return ROUTINE(j->send, j->size, MPI_BYTE, j->recv, j->size, MPI_BYTE, MPI_COMM_WORLD);
#else
	if (j->file != NULL && j->alltoall)
		return MPI_Alltoallv(j->send, j->sent, j->sent_at, MPI_BYTE, j->recv, j->got, j->got_at, MPI_BYTE, MPI_COMM_WORLD);
	if (j->file != NULL)
		return MPI_Allgatherv(j->send, j->sent[0], MPI_BYTE, j->recv, j->got, j->got_at, MPI_BYTE, MPI_COMM_WORLD);
	if (j->alltoall)
		return MPI_Alltoall(j->send, j->size, MPI_BYTE, j->recv, j->size, MPI_BYTE, MPI_COMM_WORLD);
	return MPI_Allgather(j->send, j->size, MPI_BYTE, j->recv, j->size, MPI_BYTE, MPI_COMM_WORLD);
#endif
}

/*
 * reach sets how far ahead rank 0 sets a moment: the longest of some round trips to all and back, in which the way to
 * them is a part, and time for the machine.
 */
static void reach(struct job *j)
{
	int i, word = 0, sum;

	j->lead = LEAD * 1e-3;
	for (i = 0; i < ASKED; i++) {
		double begun, took;

		MPI_Barrier(MPI_COMM_WORLD);
		begun = now();
		MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
		MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
		took = now() - begun + LEAD * 1e-3;
		if (took > j->lead)
			j->lead = took;
	}
}

/* begin returns when this rank is to begin a call, and the time. Who hears of the common moment too late begins at once. */
static double begin(const struct job *j)
{
	double at;

	MPI_Barrier(MPI_COMM_WORLD);
	if (j->together) {
		struct timespec t;

		at = now() + j->lead; /* rank 0's counts */
		MPI_Bcast(&at, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
		t.tv_sec = (time_t)at;
		t.tv_nsec = (long)((at - (double)t.tv_sec) * 1e9);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	}
	return now();
}

/* one times one call and returns the slowest rank's time at rank 0. It adds to wrong how many ranks got wrong bytes. */
static double one(struct job *j, int call, int *wrong)
{
	double begun, took, slowest = 0;
	int bad, all = 0;

	fill(j, call);
	begun = begin(j);
	if (operation(j) != MPI_SUCCESS)
		fail("the operation failed");
	took = now() - begun;
	MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	bad = check(j, call);
	MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	*wrong += all;
	return slowest;
}

/* measure runs the calls of one size and prints their line. */
static void measure(struct job *j, int iterations, int warmup)
{
	int call, wrong = 0;
	double *seconds = calloc((size_t)iterations, sizeof *seconds);

	if (seconds == NULL)
		fail("out of memory");
	lay_out(j);
	if (j->together)
		reach(j);
	for (call = 0; call < warmup + iterations; call++) {
		double took = one(j, call, &wrong);

		if (call >= warmup)
			seconds[call - warmup] = took;
	}
	if (j->me == 0) {
		printf("{\"size_bytes\":%d,\"ranks\":%d,\"wrong_ranks\":%d,\"seconds\":[", j->size, j->ranks, wrong);
		for (call = 0; call < iterations; call++)
			printf("%s%.9f", call > 0 ? "," : "", seconds[call]);
		printf("]}");
		end_line();
	}
	free(seconds);
	clear(j);
}

/* number reads a whole number of least to INT_MAX. */
static int number(const char *text, int least)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || n < least || n > INT_MAX) {
		fprintf(stderr, "mpibench: %s is not a number of %d to %d\n", text, least, INT_MAX);
		exit(2);
	}
	return (int)n;
}

/* size_of reads BYTES[:FILE]; file becomes NULL where there is none. */
static int size_of(char *text, const char **file)
{
	char *colon = strchr(text, ':');
	int n;

	*file = colon == NULL ? NULL : colon + 1;
	if (colon != NULL)
		*colon = '\0';
	n = number(text, 0);
	if (colon != NULL)
		*colon = ':';
	return n;
}

static void leave(int signal)
{
	(void)signal;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct job j = {0};
	int i, iterations, warmup;

	if (argc < 6 || (strcmp(argv[1], "allgather") != 0 && strcmp(argv[1], "alltoall") != 0) ||
		(strcmp(argv[2], "together") != 0 && strcmp(argv[2], "apart") != 0)) {
		fprintf(stderr, "usage: mpibench allgather|alltoall together|apart ITERATIONS WARMUP BYTES[:FILE]...\n");
		return 2;
	}
	j.alltoall = strcmp(argv[1], "alltoall") == 0;
	j.together = strcmp(argv[2], "together") == 0;
	iterations = number(argv[3], 1);
	warmup = number(argv[4], 0);
	for (i = 5; i < argc; i++)
		size_of(argv[i], &j.file);

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &j.me);
	MPI_Comm_size(MPI_COMM_WORLD, &j.ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	if (j.me == 0) {
		printf("{\"begin\":true}");
		end_line();
	}
	for (i = 5; i < argc; i++) {
		j.size = size_of(argv[i], &j.file);
		measure(&j, iterations, warmup);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (j.me == 0) {
		printf("{\"done\":true}");
		end_line();
	}
	/* MPICH over UCX has been seen to hang in MPI_Finalize over long delays. All is measured and printed. */
	signal(SIGALRM, leave);
	alarm(PATIENCE);
	MPI_Finalize();
	return 0;
}
