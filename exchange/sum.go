package exchange

import "hash/crc32"

// The checksum of a block is the sum, mod 2⁶⁴, of one mixed word per chunk, made of the
// chunk's index and its CRC-32C.
//
// Why not one hash over the block: chunks arrive out of order over several lanes, and a
// hash of the whole would read a large block from memory a second time. This one is
// taken chunk by chunk while the bytes are in the cache, in any order.
// Why CRC-32C inside: an instruction computes it at over 10 GB/s, and within a chunk
// (under 2³¹ bits) it catches every error of up to three bits and every burst of up to 32,
// which a 64-bit hash only does with high probability. Bytes on the wire are already
// authenticated by TLS, hop by hop; what is left to catch are faults of memory, of a
// forwarding host and of this package. For those that confuse chunks, the 64-bit mix
// of index and CRC makes a collision a matter of 2⁻⁶⁴ unless a CRC collides (2⁻³²).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumWord returns what chunk index with the given CRC-32C adds to its block's checksum.
func sumWord(index int, crc uint32) uint64 {
	return mix(uint64(index)<<32 | uint64(crc))
}

// mix is a bijection of 64-bit words in which every input bit changes about half of
// the output bits: the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
