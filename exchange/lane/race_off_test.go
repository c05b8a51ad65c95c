//go:build !race

package lane_test

const raceDetector = false
