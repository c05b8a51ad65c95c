package main

import (
	"fmt"
	"time"
)

// A World is two sites, a and b, with the same link in both directions.
type World struct {
	Mbps     float64       `json:"mbps"` // of the link, in IP bytes
	FlowMbps float64       `json:"flow_mbps,omitempty"`
	RTT      time.Duration `json:"rtt_ns"` // of the path alone
	Loss     float64       `json:"loss,omitempty"`
	Cross    float64       `json:"cross,omitempty"` // share of the link that strangers take, in both directions
	Hosts    int           `json:"hosts"`           // at each site
}

func (w World) String() string {
	s := fmt.Sprintf("%gMbps-%v", w.Mbps, w.RTT)
	if w.FlowMbps > 0 {
		s += fmt.Sprintf("-flow%gMbps", w.FlowMbps)
	}
	return s + fmt.Sprintf("-loss%g%%-cross%g%%", 100*w.Loss, 100*w.Cross)
}
