//go:build race

package lane_test

// raceDetector makes code about twelve times slower: bulk transfers are left out.
const raceDetector = true
