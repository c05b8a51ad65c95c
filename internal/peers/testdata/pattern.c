/* Checks bench/pattern.h: a block is told from every other one, and from itself where a byte differs. */
#include <stdio.h>
#include <stdlib.h>

#include "pattern.h"

enum { LONGEST = 67 };

static int wrong;

static void expect(const char *what, size_t size, size_t got, size_t want)
{
	if (got == want)
		return;
	printf("%s, %zu bytes: first difference at %zu, want %zu\n", what, size, got, want);
	wrong = 1;
}

int main(void)
{
	unsigned char block[LONGEST + 8];
	size_t size, i;

	for (size = 0; size <= LONGEST; size++) {
		uint64_t key = block_key(1, size, 3, 4, 5);
		const uint64_t others[] = {
			block_key(0, size, 3, 4, 5),     /* another collective */
			block_key(1, size + 1, 3, 4, 5), /* of another size */
			block_key(1, size, 2, 4, 5),     /* left from the call before */
			block_key(1, size, 3, 5, 4),     /* source and destination swapped */
			block_key(1, size, 3, 4, 6),     /* for the next rank */
			block_key(1, size, 3, 3, 5),     /* from the rank before */
			block_key(1, size, 3, 4, -1),    /* for all */
		};

		memset(block, 0x5a, sizeof block);
		block_fill(block, size, key);
		expect("itself", size, block_compare(block, size, key), size);
		for (i = size; i < sizeof block; i++)
			if (block[i] != 0x5a)
				expect("written behind the end", size, i, size);
		for (i = 0; i < size; i++) {
			block[i] ^= 0x10;
			expect("one bit", size, block_compare(block, size, key), i);
			block[i] ^= 0x10;
		}
		/* Eight equal bytes of two blocks are no accident; one can be. */
		if (size < 8)
			continue;
		for (i = 0; i < sizeof others / sizeof others[0]; i++)
			if (block_compare(block, size, others[i]) >= 8) {
				printf("%zu bytes: another block, number %zu, is taken for this one\n", size, i);
				wrong = 1;
			}
		for (i = 1; i < 9 && size > 16; i++) {
			memmove(block + 1, block, LONGEST); /* shifted by i bytes */
			if (block_compare(block, size, key) >= 16) {
				printf("%zu bytes: shifted by %zu and not found\n", size, i);
				wrong = 1;
			}
		}
	}
	return wrong;
}
