/*
 * Prints what an MPI library says of a control variable of its own: the description, and the values
 * of its enumeration, if it has one, as "= VALUE NAME".
 *
 *   variables NAME
 */
#include <stdio.h>
#include <string.h>

#include <mpi.h>

enum { LONG = 8192, SHORT = 512 };

static void values(MPI_T_enum enumeration)
{
	char name[SHORT];
	int i, items, length = SHORT;

	if (MPI_T_enum_get_info(enumeration, &items, name, &length) != MPI_SUCCESS)
		return;
	for (i = 0; i < items; i++) {
		int value;

		length = SHORT;
		if (MPI_T_enum_get_item(enumeration, i, &value, name, &length) == MPI_SUCCESS)
			printf("= %d %s\n", value, name);
	}
}

int main(int argc, char **argv)
{
	static char name[SHORT], description[LONG];
	int i, variables, provided;

	if (argc != 2) {
		fprintf(stderr, "usage: variables NAME\n");
		return 2;
	}
	if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS || MPI_T_cvar_get_num(&variables) != MPI_SUCCESS)
		return 1;
	for (i = 0; i < variables; i++) {
		int name_length = SHORT, description_length = LONG, verbosity, binding, scope;
		MPI_Datatype type;
		MPI_T_enum enumeration = MPI_T_ENUM_NULL;

		if (MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &enumeration,
				description, &description_length, &binding, &scope) != MPI_SUCCESS)
			continue;
		if (strcmp(name, argv[1]) != 0)
			continue;
		puts(description);
		if (enumeration != MPI_T_ENUM_NULL)
			values(enumeration);
		MPI_T_finalize();
		return 0;
	}
	fprintf(stderr, "variables: the library has no %s\n", argv[1]);
	return 1;
}
