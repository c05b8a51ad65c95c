/*
 * The time of one collective, for SMPI: bench allgather|alltoall BYTES.
 *
 * With -DROUTINE=f it is that of f, which has the arguments of MPI_Allgather (-DALLGATHER) or of
 * MPI_Alltoall, else that of the library. Clocks are simulated: they agree, and reading them takes no
 * time. So the ranks agree on an instant to begin at, and no barrier is needed, which
 * they would leave at different times.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef ROUTINE
int ROUTINE(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
#endif

static void collective(int gather, char *out, char *in, int bytes)
{
#ifdef ROUTINE
	(void)gather;
	ROUTINE(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
#else
	if (gather)
		MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
	else
		MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
#endif
}

int main(int argc, char **argv)
{
	const double begin = 1000; /* s, when the preparation is long over */
	int rank, ranks, gather, bytes, i;
	long wrong = 0, all_wrong;
	double now, end;
	char *out, *in;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (argc != 3) {
		fprintf(stderr, "usage: bench allgather|alltoall BYTES\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
		return 2;
	}
	gather = strcmp(argv[1], "allgather") == 0;
	bytes = atoi(argv[2]);
	out = malloc((size_t)ranks * bytes + 1);
	in = calloc((size_t)ranks * bytes + 1, 1);
	if (out == NULL || in == NULL) {
		fprintf(stderr, "no memory for %d blocks of %d bytes\n", ranks, bytes);
		MPI_Abort(MPI_COMM_WORLD, 1);
		return 1;
	}
	for (i = 0; i < ranks; i++) /* block i of this rank: its number and, for an alltoall, the receiver's */
		memset(out + (size_t)i * bytes, gather ? rank + 1 : rank * 7 + i * 3 + 1, bytes);

	collective(gather, out, in, 0); /* what the first call of a routine prepares */
	now = MPI_Wtime();
	usleep((useconds_t)((begin - now) * 1e6));
	now = MPI_Wtime();
	collective(gather, out, in, bytes);
	end = MPI_Wtime() - now;

	for (i = 0; i < ranks && bytes > 0; i++) {
		char want = (char)(gather ? i + 1 : i * 7 + rank * 3 + 1);
		char *block = in + (size_t)i * bytes;

		wrong += block[0] != want || memcmp(block, block + 1, bytes - 1) != 0;
	}
	MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	/* The last rank to end, each counted from its own begin: those differ by a microsecond at most. */
	now = end;
	MPI_Reduce(&now, &end, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("gridagent-smpi ranks=%d wrong=%ld seconds=%.9f\n", ranks, all_wrong, end);
	free(in);
	free(out);
	MPI_Finalize();
	return 0;
}
