package lane_test

import (
	"testing"
	"time"
)

// Lanes above 0 stay warm for a while, so many of them, unless a stream is open there.
func TestCloseWarm(t *testing.T) {
	inBubble(t, func(t *testing.T, c *cluster) {
		s := &sockets{c: c, host: "a0"}
		a, b := c.start("a0", s.config), c.start("b0")
		cool := func(most, want int, why string) {
			t.Helper()
			a.CloseWarm(63, quiet, most)
			b.CloseWarm(63, quiet, most) // has dialed none
			time.Sleep(2 * time.Second)
			if n, m := a.Links(), b.Links(); n != want || m != want {
				t.Errorf("%s: %d and %d connections, want %d", why, n, m, want)
			}
		}
		for _, l := range []int{0, 1, 2, 3, 64} {
			a.mustTalk(t, "b0", l)
			time.Sleep(time.Second)
			a.CloseWarm(63, quiet, 9) // looks, as an agent does now and then: that is when a stream is seen to have ended
		}
		cool(3, 5, "just used, and not too many")
		cool(2, 4, "one too many")
		if err := a.talk("b0", 2); err != nil {
			t.Errorf("the lane that was used later was closed: %v", err)
		}
		st, err := a.Open(t.Context(), "b0", 3, held)
		if err != nil {
			t.Fatal(err)
		}
		cool(3, 4, "streams have ended since it was looked last")
		time.Sleep(2 * quiet)
		cool(3, 3, "idle for long: one has a stream, and neither 0 nor 64 is one of them")
		st.Abort()
		cool(3, 3, "the stream has ended just now")
		time.Sleep(2 * quiet)
		cool(3, 2, "idle for long")
		a.mustTalk(t, "b0", 1) // dialed anew
		cool(0, 2, "none is to be kept")
		a.stop()
		b.stop()
	})
}
