/* Routines in place of MPI_Allgather that go wrong, for a test of the check: WRONG says how. */
#include <string.h>

#include <mpi.h>

int routine(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm);

enum { NOTHING, SWAPPED, STALE, SHIFTED, LAST_BYTE };

int routine(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
	void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
	static char kept[3 << 16];
	static int calls;
	int me, err = MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
	char *to = recvbuf, swap;
	size_t size = (size_t)recvcount, i;

	MPI_Comm_rank(comm, &me);
	calls++;
	if (me != 1)
		return err;
	switch (WRONG) {
	case SWAPPED:
		for (i = 0; i < size; i++) {
			swap = to[i];
			to[i] = to[2 * size + i];
			to[2 * size + i] = swap;
		}
		break;
	case STALE: /* the second call and those behind it leave a block of the one before */
		if (calls > 1)
			memcpy(to, kept, size);
		else
			memcpy(kept, to, size);
		break;
	case SHIFTED:
		memmove(to + 1, to, size - 1);
		break;
	case LAST_BYTE:
		to[3 * size - 1] ^= 1;
		break;
	}
	return err;
}
