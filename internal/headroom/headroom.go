// Package headroom makes the stack of a goroutine larger while there is little on it.
//
// A goroutine begins with a small stack, and one that writes to a TLS connection, or reads from one, needs twice as much. The runtime then
// copies what is there and adjusts every pointer into it, frame by frame. Where that happens at the bottom of fifteen frames it takes tens of
// microseconds: of an alltoall between many hosts, which begins two such goroutines for each pair of them, 4 % of the CPU time (docs/design/lanes.md, "What a packet costs").
package headroom

// size is what fits no stack of 4 KiB, and leaves one of 8 KiB to those who come next.
const size = 5 << 10

// Grow makes room on the stack of the goroutine that calls it, of about 8 KiB in all. It belongs at the goroutine's begin.
//
//go:noinline
func Grow() byte {
	var room [size]byte
	return touch(&room)
}

// touch keeps the compiler from leaving room out.
//
//go:noinline
func touch(room *[size]byte) byte { return room[size/2] }
