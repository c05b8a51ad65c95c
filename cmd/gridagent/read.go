package main

import (
	"fmt"
	"io"
)

// maxPlanBytes bounds a plan from a pipe: an allgather over 1,024 hosts has about a
// million transfers of some 120 bytes.
const maxPlanBytes = 1 << 30

// readAll reads r to its end, which must come within limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}
