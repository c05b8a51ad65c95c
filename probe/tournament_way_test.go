package probe

import (
	"testing"
	"time"
)

// Long probes of both directions of a link never begin together, and every host of a site of up to
// fullAcross has turns in which it may.
func TestOurWay(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for hosts := int64(1); hosts <= fullAcross; hosts++ {
		begun := make(map[int64]bool)
		for i := range time.Hour / time.Second {
			now := begin.Add(i * time.Second)
			there, back := ourWay("a", "b", now), ourWay("b", "a", now)
			if there && back {
				t.Fatalf("both directions after %v", i*time.Second)
			}
			if number := now.UnixNano() / int64(bulkTurn); there {
				begun[number%hosts] = true
			}
		}
		if len(begun) != int(hosts) {
			t.Errorf("of %d hosts %d may begin in an hour", hosts, len(begun))
		}
	}
}
