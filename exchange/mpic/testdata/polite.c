/*
 * Idle ranks give way. MPICH's ranks spin while they wait, and with more ranks than cores each wait
 * costs whole time slices of the others. This goes between a program and the library, by the
 * profiling interface (MPI 3.1, chapter 14), and turns every wait into tests with pauses.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include <mpi.h>

static void pause_a_little(void)
{
	static const struct timespec little = {0, 20000};

	nanosleep(&little, NULL);
}

static int finish(int err, MPI_Request *request)
{
	int done = 0;

	while (err == MPI_SUCCESS && !done) {
		err = PMPI_Test(request, &done, MPI_STATUS_IGNORE);
		if (!done)
			pause_a_little();
	}
	return err;
}

int MPI_Waitsome(int n, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	for (;;) {
		int err = PMPI_Testsome(n, requests, done, indices, statuses);

		if (err != MPI_SUCCESS || *done != 0)
			return err;
		pause_a_little();
	}
}

int MPI_Barrier(MPI_Comm comm)
{
	MPI_Request r;

	return finish(PMPI_Ibarrier(comm, &r), &r);
}

int MPI_Allreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	MPI_Request r;

	return finish(PMPI_Iallreduce(from, to, n, type, op, comm, &r), &r);
}

int MPI_Allgather(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm comm)
{
	MPI_Request q;

	return finish(PMPI_Iallgather(s, sn, st, r, rn, rt, comm, &q), &q);
}

int MPI_Allgatherv(const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm)
{
	MPI_Request q;

	return finish(PMPI_Iallgatherv(s, sn, st, r, rn, rd, rt, comm, &q), &q);
}

int MPI_Alltoall(const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm comm)
{
	MPI_Request q;

	return finish(PMPI_Ialltoall(s, sn, st, r, rn, rt, comm, &q), &q);
}

#ifndef OPEN_MPI /* whose MPI_Ialltoallv is wrong in place, or hangs (4.1.4) */
int MPI_Alltoallv(const void *s, const int sn[], const int sd[], MPI_Datatype st,
	void *r, const int rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm)
{
	MPI_Request q;

	return finish(PMPI_Ialltoallv(s, sn, sd, st, r, rn, rd, rt, comm, &q), &q);
}
#endif
