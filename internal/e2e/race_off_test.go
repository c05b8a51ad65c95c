//go:build !race

package e2e

// raceFlag builds the binary with the race detector if the tests have it.
const raceFlag = "-race=false"

// bigFile is a rank's share that takes seconds to move, bytes.
const bigFile = 48 << 20
