//go:build race

package treetest

// raceDetector makes real TLS and QUIC about twelve times slower: only small blocks are moved.
const raceDetector = true
