//go:build race

package netmap

// raceDetector makes arithmetic about ten times slower: tests that start no goroutine are left out.
const raceDetector = true
