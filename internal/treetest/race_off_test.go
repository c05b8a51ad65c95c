//go:build !race

package treetest

const raceDetector = false
