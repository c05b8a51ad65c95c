package main

import (
	"bytes"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/gridagent/gridagent/agent/api/v1"
)

func TestPrintProto(t *testing.T) {
	tests := []struct {
		name string
		m    proto.Message
		want string
	}{
		{"64-bit numbers, lists and zero values", &apiv1.AllgatherResponse{
			Spool: "/s", Sizes: []uint64{1 << 62, 0}, Report: &apiv1.Report{Algorithm: "min3", Seconds: 0.25},
		}, `{
  "data": "",
  "spool": "/s",
  "sizes": [
    4611686018427387904,
    0
  ],
  "report": {
    "algorithm": "min3",
    "seconds": 0.25,
    "bound_seconds": 0,
    "bound_ratio": 0,
    "bytes_received": 0,
    "bytes_sent": 0,
    "hosts": 0,
    "ranks": 0,
    "map_epoch": 0,
    "plan_seconds": 0,
    "predicted_seconds": 0,
    "plan_given": false,
    "peers": [],
    "plan_reason": "",
    "plan_cached": false,
    "direct_bound_seconds": 0,
    "replanned": 0,
    "bytes_given": 0,
    "bytes_helped": 0,
    "bytes_duplicate": 0
  }
}
`},
		{"times and lists of messages", &apiv1.TokenListResponse{Tokens: []*apiv1.Token{{
			Id: "a<b", Created: timestamppb.New(time.Unix(0, 0)), Expires: timestamppb.New(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)), Unlimited: true,
		}}}, `{
  "tokens": [
    {
      "id": "a<b",
      "created": null,
      "expires": "2030-01-02T03:04:05Z",
      "uses_left": 0,
      "unlimited": true,
      "revoked": false
    }
  ]
}
`},
		{"one of several", &apiv1.GroupEvent{Event: &apiv1.GroupEvent_Waiting{Waiting: &apiv1.Waiting{RanksPresent: 2}}}, `{
  "waiting": {
    "ranks_present": 2,
    "missing": ""
  }
}
`},
		{"absent message and bytes", &apiv1.AllgatherResponse{Data: []byte("hi")}, `{
  "data": "aGk=",
  "spool": "",
  "sizes": [],
  "report": null
}
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := (&app{out: &out}).printProto(tt.m); err != nil {
				t.Fatal(err)
			}
			if out.String() != tt.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}
