/*
 * A routine in place of MPI_Allgather that spoils what a rank gets unless all ranks have begun it within 20 ms, beside a barrier
 * that rank 1 leaves 60 ms after the others, as if it were far away.
 */
#define _POSIX_C_SOURCE 200809L

#include <time.h>

#include <mpi.h>

int routine(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

int MPI_Barrier(MPI_Comm comm)
{
	struct timespec far = {0, 60000000L};
	int me, err = PMPI_Barrier(comm);

	MPI_Comm_rank(comm, &me);
	if (me == 1)
		nanosleep(&far, NULL);
	return err;
}

int routine(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	struct timespec t;
	double begun, first, last;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &t);
	begun = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
	err = MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
	MPI_Allreduce(&begun, &first, 1, MPI_DOUBLE, MPI_MIN, comm);
	MPI_Allreduce(&begun, &last, 1, MPI_DOUBLE, MPI_MAX, comm);
	if (last - first > 0.02)
		((unsigned char *)recvbuf)[0] ^= 1;
	return err;
}
