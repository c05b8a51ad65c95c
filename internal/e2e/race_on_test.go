//go:build race

package e2e

// raceFlag builds the binary with the race detector if the tests have it.
const raceFlag = "-race"

// bigFile is a rank's share that takes seconds to move, bytes. Race-detecting agents move
// an eighth of what others do.
const bigFile = 24 << 20
