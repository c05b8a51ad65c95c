package headroom

import (
	"testing"
	"unsafe"
)

// deep calls itself until about so many bytes of stack are in use, and returns where b lies then.
//
//go:noinline
func deep(bytes int, b *byte) uintptr {
	var frame [256]byte
	frame[bytes%len(frame)] = *b
	if bytes > len(frame) {
		return deep(bytes-len(frame), b) + uintptr(frame[0])
	}
	return uintptr(unsafe.Pointer(b))
}

// TestGrow: after it the stack is not moved by calls that need some kilobytes.
func TestGrow(t *testing.T) {
	moved := make(chan bool)
	for range 100 {
		go func() {
			Grow()
			var b byte
			at := uintptr(unsafe.Pointer(&b))
			moved <- deep(2<<10, &b) != at
		}()
		if <-moved {
			t.Fatal("the stack was moved by 2 KiB of frames")
		}
	}
}

// BenchmarkGrow is what it costs to begin a goroutine that needs a larger stack deep down, with and without.
func BenchmarkGrow(b *testing.B) {
	for name, grow := range map[string]func(){"at-the-top": func() { Grow() }, "deep-down": func() {}} {
		b.Run(name, func(b *testing.B) {
			done := make(chan uintptr)
			for b.Loop() {
				go func() {
					grow()
					var v byte
					done <- deep(5<<10, &v)
				}()
				<-done
			}
		})
	}
}
