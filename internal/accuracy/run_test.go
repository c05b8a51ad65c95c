package main

import (
	"context"
	"errors"
	"testing"
)

// An interrupted run is no success, though what it has measured is shown.
func TestEnded(t *testing.T) {
	interrupted, stop := context.WithCancel(context.Background())
	stop()
	failed := errors.New("failed")
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		err     error
		missing int
		want    error
	}{
		{"whole", context.Background(), nil, 0, nil},
		{"whole, and the readings say what failed", context.Background(), failed, 0, nil},
		{"part", context.Background(), failed, 1, failed},
		{"interrupted", interrupted, context.Canceled, 1, context.Canceled},
		{"interrupted as the last cell ended", interrupted, context.Canceled, 0, nil},
	} {
		if err := ended(tt.ctx, tt.err, tt.missing); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}
