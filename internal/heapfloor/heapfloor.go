// Package heapfloor keeps the garbage collector of a process with little memory from running all the time.
//
// The collector runs when the heap has grown by as much as was live after the last run (GOGC=100). An agent has 3 MB live: in operations that follow one
// another it ran seven times a second, each time over every goroutine's stack, which it shrinks as well. That was a seventh of what an alltoall of 16 KiB
// in one site takes (docs/design/lanes.md, "What a packet costs").
package heapfloor

import (
	"os"
	"runtime"
)

// Hold has the collector count so many bytes as live, until release is called: it lets the heap grow to twice as much and twice what is live before it runs. They
// are never touched, so that they take no memory: what does is the garbage that stays longer, as many bytes at most. It does nothing
// where the variable GOGC says when to collect.
func Hold(bytes int) (release func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	held := make([]byte, bytes) // without pointers: it is not scanned
	return func() { runtime.KeepAlive(held) }
}
