package probe

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestMessageRoundTrip(t *testing.T) {
	for _, m := range []message{
		{Op: opPing},
		{Op: opTrain, Count: maxTrain},
		{Op: opGo, ID: strings.Repeat("0f", 16)},
		readingMessage(reading{Rate: 110.86, Spread: 0.01, Received: 16, Span: 141 * time.Millisecond, Points: 16}),
		{Op: opReading, Received: 2, Lost: strings.Repeat("x", 100)},
		{Op: opDone, Bytes: maxSessionBytes, Rate: 1e9},
		{Op: opBulk, Count: maxLanes, Bytes: maxBulkBytes, SpanNS: int64(maxBulkTime)},
		{Op: opProgress, Count: 3, Bytes: 1e9, SpanNS: 5e9},
	} {
		var b bytes.Buffer
		if err := writeMessage(&b, m); err != nil {
			t.Fatal(err)
		}
		got, err := readMessage(&b, m.Op)
		if err != nil || got != m || b.Len() != 0 {
			t.Errorf("%+v came back as %+v, %v, %d bytes left", m, got, err, b.Len())
		}
	}
}

func TestAbsurdMessagesAreRefused(t *testing.T) {
	for _, body := range []string{
		``, `{`, `null x`, `[]`,
		`{"op":"reading","received":16,"rate":-1}`,
		`{"op":"reading","received":16,"rate":1e400}`,
		`{"op":"reading","received":16,"rate":NaN}`,
		`{"op":"reading","received":16,"rate":1.3e12}`, // more than 10 Tbit/s
		`{"op":"reading","received":16}`,
		`{"op":"reading","received":-1,"rate":1e5}`,
		`{"op":"reading","received":100000,"rate":1e5}`,
		`{"op":"reading","received":16,"rate":1e5,"spread":-0.1}`,
		`{"op":"reading","received":16,"rate":1e5,"span_ns":60000000001}`,
		`{"op":"train","count":257}`,
		`{"op":"train","count":0}`,
		`{"op":"busy","retry_ms":3600001}`,
		`{"op":"done","bytes":-1}`,
		`{"op":"done","bytes":9223372036854775807}`,
		`{"op":"bulk","count":65,"bytes":1,"span_ns":1}`,
		`{"op":"bulk","bytes":1,"span_ns":1}`,
		`{"op":"bulk","count":1,"bytes":2147483649,"span_ns":1}`,
		`{"op":"bulk","count":1,"span_ns":1}`,
		`{"op":"bulk","count":1,"bytes":1}`,
		`{"op":"progress","bytes":-1}`,
		`{"op":"joint","count":2,"rate":9,"bytes":9,"span_ns":9}`,
		`{"op":"joint","peer":"b0","count":17,"rate":9,"bytes":9,"span_ns":9}`,
		`{"op":"joint","peer":"b0","count":2,"bytes":9,"span_ns":9}`,
		`{"op":"joint","peer":"b0","count":2,"rate":9,"bytes":9}`,
		`{"op":"joint","peer":"b0","count":2,"rate":9,"span_ns":9}`,
		`{"op":"joint","peer":"b0","count":2,"rate":9,"bytes":9,"settle_ns":60000000001,"span_ns":9}`,
		`{"op":"joint","peer":"` + strings.Repeat("b", 256) + `","count":2,"rate":9,"bytes":9,"span_ns":9}`,
	} {
		if m, err := parseMessage([]byte(body)); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %+v, %v, want %v", body, m, err, errInvalid)
		}
	}
	nan := message{Op: opReading, Received: 16, Rate: math.NaN()}
	if err := nan.check(); !errors.Is(err, errInvalid) {
		t.Errorf("NaN: %v", err)
	}
}

func TestReadMessageBounds(t *testing.T) {
	huge := append([]byte{0xff, 0xff}, bytes.Repeat([]byte(" "), 1<<16)...)
	if _, err := readMessage(bytes.NewReader(huge), opPing); !errors.Is(err, errInvalid) {
		t.Errorf("65,535 bytes: %v", err)
	}
	var busy *BusyError
	var b bytes.Buffer
	if err := writeMessage(&b, message{Op: opBusy, RetryMS: 250, Why: "exchange"}); err != nil {
		t.Fatal(err)
	}
	if _, err := readMessage(&b, opGo); !errors.As(err, &busy) || busy.Retry != 250*time.Millisecond || busy.Why != "exchange" {
		t.Errorf("busy: %v", err)
	}
	if _, err := readMessage(strings.NewReader("\x00\x0d{\"op\":\"pong\"}"), opGo); !errors.Is(err, errInvalid) {
		t.Errorf("out of turn: %v", err)
	}
	if _, err := readMessage(strings.NewReader("\x00\x0d{\"op"), opGo); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut short: %v", err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, s := range []string{"\x00\x0d{\"op\":\"pong\"}", "\x00\x19{\"op\":\"train\",\"count\":16}", "\x00\x43{\"op\":\"load\",\"site\":\"b\",\"bytes\":9,\"span_ns\":9,\"pressed\":9,\"rate\":9}", "\x00\x51{\"op\":\"joint\",\"peer\":\"b0\",\"count\":2,\"rate\":9,\"bytes\":9,\"settle_ns\":9,\"span_ns\":9}", "\x00\x00", "\xff\xff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ops := []op{opPing, opPong, opTrain, opGo, opSent, opReading, opLease, opGranted, opDone, opBusy, opBulk, opData, opProgress, opLoad, opArrives, opFallen, opJoint, opJointly}
		m, err := readMessage(bytes.NewReader(in), ops...)
		if err != nil {
			return
		}
		if r := m.reading(); math.IsNaN(r.Rate) || math.IsInf(r.Rate, 0) || r.Rate < 0 || r.Span < 0 || m.retry() < 0 {
			t.Fatalf("%q gives %+v", in, m)
		}
		var b bytes.Buffer
		if err := writeMessage(&b, m); err != nil {
			return // names may grow by escaping
		}
		if again, err := readMessage(&b, m.Op); err != nil || again != m {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
