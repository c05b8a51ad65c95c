//go:build !race

package netmap

const raceDetector = false
