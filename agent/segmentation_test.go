package agent

import (
	"strings"
	"testing"
)

// TestCheckSegmentation: this kernel cuts packets, and the switch is heeded.
func TestCheckSegmentation(t *testing.T) {
	t.Setenv(NoSegmentation, "")
	if err := CheckSegmentation(); err != nil {
		t.Errorf("Linux since 4.18 does: %v", err)
	}
	t.Setenv(NoSegmentation, "true")
	if err := CheckSegmentation(); err == nil || !strings.Contains(err.Error(), NoSegmentation) {
		t.Errorf("switched off: %v", err)
	}
}
