//go:build race

package gridtest

// Race says whether the race detector is on: code is about twelve times slower with it, and tests leave
// their largest worlds out, which scripts/test runs without it.
const Race = true
