package probe

// A lossFilter estimates the share of packets that a path loses by itself. Losses are rare, so it
// counts over all that was sent lately, not over a window of trains.
type lossFilter struct{ sent, lost float64 }

const (
	lossEnough = 400    // packets, before which nothing is said: one lost of them is 0.25 %
	lossMemory = 20_000 // packets: half of what was counted is forgotten when so many are in
)

// add takes how many packets were sent and how many of those did not arrive.
func (f *lossFilter) add(sent, lost float64) {
	if !(sent > 0 && lost >= 0 && lost <= sent) {
		return
	}
	f.sent += sent
	f.lost += lost
	for f.sent > lossMemory {
		f.sent, f.lost = f.sent/2, f.lost/2
	}
}

// value returns the share of packets lost, 0 to 1, and whether enough were sent to say.
func (f *lossFilter) value() (share float64, ok bool) {
	if f.sent < lossEnough {
		return 0, false
	}
	return f.lost / f.sent, true
}
