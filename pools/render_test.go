package pools

import (
	"testing"

	"github.com/gridagent/gridagent/probe/netmap"
)

func TestFormatMbps(t *testing.T) {
	for mbps, want := range map[float64]string{0.5: "0.5", 1.192: "1.19", 94.14: "94.1", 999.4: "999", 999.6: "1000", 3254: "3254", 21716.4: "21716"} {
		if got := formatMbps(netmap.BytesPerSec(mbps)*netmap.Mbps, 3); got != want {
			t.Errorf("%g Mbit/s is shown as %s, want %s", mbps, got, want)
		}
	}
}
