package lab

import (
	"slices"
	"testing"
)

func TestSenders(t *testing.T) {
	reading := func(seconds float64, bytes ...uint64) *Stats {
		s := &Stats{Seconds: seconds}
		for i, b := range bytes {
			s.Hosts = append(s.Hosts, HostStats{Host: string(rune('a' + i)), Out: PortStats{Sent: Count{Bytes: b}}})
		}
		return s
	}
	got := senders(reading(1, 10, 20, 30), reading(3, 10, 24, 1030))
	if want := []Sender{{"b", 2}, {"c", 500}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
