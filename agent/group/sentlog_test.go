package group

import "testing"

// TestSentLog: what is kept is of the latest operations, however many others are between them.
func TestSentLog(t *testing.T) {
	var l sentLog
	for i := range uint64(logged) {
		l.add(message{Seq: i * 1000})
		l.add(message{Seq: i * 1000})
	}
	if all := l.all(); len(all) != 2*logged || all[0].Seq != 0 {
		t.Fatalf("%d messages are kept, from operation %d", len(all), all[0].Seq)
	}
	l.add(message{Seq: logged * 1000})
	all := l.all()
	if len(all) != 2*logged-1 || all[0].Seq != 1000 || all[len(all)-1].Seq != logged*1000 {
		t.Errorf("%d messages are kept, from operation %d", len(all), all[0].Seq)
	}
	if len(l.of) != logged {
		t.Errorf("%d operations are kept", len(l.of))
	}
	l.forget(61_000)
	if all := l.all(); len(all) != 7 || all[0].Seq != 61_000 {
		t.Errorf("%d messages are kept, from operation %d, of those from 61000 to 64000", len(all), all[0].Seq)
	}
	l.forget(1)
	l.forget(1e6)
	if all := l.all(); len(all) != 0 {
		t.Errorf("%d messages are kept of operations that are over", len(all))
	}
}
