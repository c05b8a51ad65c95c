/*
 * Errors on demand, between a program and the library: the fifth send of rank 0 fails, or with
 * FAIL_WAIT the third wait does, in the way in which MPI_Waitsome reports it (MPI 3.1, §3.7.5).
 */
#include <mpi.h>

enum { CODE = 4242 };

#ifdef FAIL_WAIT
int MPI_Waitsome(int n, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[])
{
	static int calls;
	int rank, i, err = PMPI_Waitsome(n, requests, done, indices, statuses);

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (err != MPI_SUCCESS || rank != 0 || ++calls < 3)
		return err;
	for (i = 0; i < *done; i++)
		statuses[i].MPI_ERROR = MPI_SUCCESS;
	statuses[*done - 1].MPI_ERROR = CODE;
	return MPI_ERR_IN_STATUS;
}
#else
int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request)
{
	static int calls;
	int rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0 && ++calls == 5)
		return CODE;
	return PMPI_Isend(data, n, type, to, tag, comm, request);
}
#endif
