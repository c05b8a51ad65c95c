/*
 * What is in the blocks of the benchmark. Every byte depends on the collective, the size, the call,
 * the block's source and destination and the offset in it, so that blocks that are swapped,
 * left from an earlier call or shifted are found. splitmix64 (Steele, Lea & Flood, OOPSLA 2014) mixes.
 */
#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* block_key tells blocks apart; dest is -1 for a block that is for all. */
static uint64_t block_key(int alltoall, uint64_t size, int call, int source, int dest)
{
	uint64_t key = mix((uint64_t)alltoall);

	key = mix(key ^ size);
	key = mix(key ^ (uint64_t)call);
	key = mix(key ^ (uint64_t)source);
	return mix(key ^ (uint64_t)(dest + 1));
}

/* word is the w-th eight bytes of a block. */
static uint64_t word(uint64_t key, size_t w) { return mix(key + (uint64_t)w); }

/* block_fill writes the block of key. */
static void block_fill(unsigned char *block, size_t size, uint64_t key)
{
	size_t at;

	for (at = 0; at < size; at += 8) {
		uint64_t x = word(key, at / 8);

		memcpy(block + at, &x, size - at < 8 ? size - at : 8);
	}
}

/* block_compare returns the offset of the first byte that is not that of key's block, or size if all are. */
static size_t block_compare(const unsigned char *block, size_t size, uint64_t key)
{
	size_t at;

	for (at = 0; at < size; at += 8) {
		uint64_t x = word(key, at / 8);
		size_t n = size - at < 8 ? size - at : 8, i;

		if (memcmp(block + at, &x, n) == 0)
			continue;
		for (i = 0; block[at + i] == ((unsigned char *)&x)[i]; i++)
			;
		return at + i;
	}
	return size;
}

#endif
