package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// What a file that a person names may hold: it may be a pipe, or a device without an end.
const (
	maxSettingsBytes = 1 << 20
	// maxPlanBytes is for plans, and what they are made from: an allgather over 1,024 hosts has about a
	// million transfers of some 120 bytes, and each matrix of a grid as many numbers.
	maxPlanBytes = 1 << 30
)

// readAll reads r to its end, which must come within limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return data, err
}

// readFile returns what the file at path holds, which must be within limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= limit {
		return os.ReadFile(path) // in one piece
	}
	data, err := readAll(f, limit)
	if named := (*fs.PathError)(nil); err != nil && !errors.As(err, &named) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
