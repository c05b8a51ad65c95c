package group

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/gridagent/gridagent/exchange/plan"
)

// randomMessage returns a message of any kind, with any fields of its header set, most often those of words that have a short form.
func randomMessage(rng *rand.Rand) message {
	var m message
	v := reflect.ValueOf(&m).Elem()
	for i := range v.NumField() {
		f, of := v.Field(i), v.Type().Field(i)
		if !of.IsExported() || of.Name == "Part" || of.Name == "Rows" || rng.IntN(3) > 0 {
			continue
		}
		switch p := f.Addr().Interface().(type) {
		case *plan.Collective:
			*p = []plan.Collective{plan.Allgather, plan.Alltoall, Broadcast, Barrier, "other"}[rng.IntN(5)]
		case *kind: // below
		case *string:
			if rng.IntN(4) == 0 {
				*p = []string{"a", "wan", `"<&>`, string(bytes.Repeat([]byte{'x'}, 300))}[rng.IntN(4)]
			}
		case *bool:
			*p = true
		case *int:
			*p = rng.IntN(1<<31) >> rng.IntN(31)
			if rng.IntN(30) == 0 {
				*p = -1
			}
		case *int64:
			*p = rng.Int64() >> rng.IntN(63)
			if rng.IntN(30) == 0 {
				*p = -*p
			}
		case *uint64:
			*p = rng.Uint64() >> rng.IntN(64)
		case *time.Duration:
			*p = time.Duration(rng.Int64() >> rng.IntN(63))
		default: // what words have not
			if rng.IntN(20) > 0 {
				continue
			}
			switch p := p.(type) {
			case *ID:
				p[3] = 1
			case *Options:
				*p = Options{Together: rng.IntN(2) == 0, Fanout: rng.IntN(2)}
			case **Tree:
				*p = &Tree{Leaders: []int{0}}
			case **Planned:
				*p = &Planned{Algorithm: "x"}
			case **Failure:
				*p = &Failure{Rank: 3}
			case *[]string:
				*p = []string{"a"}
			case *[]int64:
				*p = []int64{0}
			case *[][]byte:
				*p = [][]byte{{1}}
			default:
				panic("a field of a type that the test does not know: " + of.Name)
			}
		}
	}
	if m.Kind = []kind{kindStart, kindAttach, kindRegister}[rng.IntN(3)]; rng.IntN(5) > 0 {
		m.Kind = shortKinds[rng.IntN(len(shortKinds))]
		if rng.IntN(2) == 0 { // most words are such
			m = message{Kind: m.Kind, Rank: m.Rank, Seq: m.Seq, Collective: m.Collective, Size: m.Size, Even: m.Even, Root: m.Root, Eager: m.Eager, Hop: m.Hop, Past: m.Past,
				Algorithm: m.Algorithm, Host: m.Host, Hold: m.Hold, Ago: m.Ago, Keep: m.Keep, Begun: m.Begun, Got: m.Got, Deaf: m.Deaf}
		}
	}
	return m
}

// TestShort: a word in the short form is read as it was said, and so is one that has none; those that hosts say in each operation have one.
func TestShort(t *testing.T) {
	brief := 0
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 91))
		m := randomMessage(rng)
		m.Part = bytes.Repeat([]byte{7}, rng.IntN(3))
		m.Rows = bytes.Repeat([]byte{8}, rng.IntN(3))
		b, err := m.encode(true)
		if err != nil {
			t.Fatal(err)
		}
		read, err := readMessage(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, m, err)
		}
		if read.brief {
			brief++
		}
		read.brief = false
		if !reflect.DeepEqual(read, m) {
			t.Fatalf("seed %d: %+v is read as %+v", seed, m, read)
		}
		long, err := m.encode(false)
		if err != nil {
			t.Fatal(err)
		}
		if read, err = readMessage(bufio.NewReader(bytes.NewReader(long))); err != nil || read.brief || !reflect.DeepEqual(read, m) {
			t.Fatalf("seed %d: %+v is read as %+v, %v", seed, m, read, err)
		}
	}
	if brief < 2000 {
		t.Errorf("only %d of 20000 messages were brief", brief)
	}
	for _, m := range []message{
		{Kind: kindReady, Rank: 3, Seq: 400, Collective: plan.Allgather, Size: 4096, Keep: true, Begun: 12, Ago: 30 * time.Millisecond, Got: 800},
		{Kind: kindReady, Rank: 3, Seq: 401, Collective: Barrier, Eager: true, Options: Options{Together: true}},
		{Kind: kindDone, Seq: 400, Ago: 30 * time.Millisecond},
		{Kind: kindGo, Seq: 400, Hold: 10 * time.Millisecond, Begun: 12, Got: 900},
		{Kind: kindItems, Seq: 402, Collective: plan.Alltoall, Past: 398, Hop: 2, Size: 100},
		{Kind: kindRelay, Seq: 402, Collective: plan.Alltoall, Past: 398, Host: "a1"},
		{Kind: kindBeat, Got: 700, Deaf: true},
	} {
		if b, err := m.encode(true); err != nil || len(b) > 22 {
			t.Errorf("%s takes %d bytes, %v", m.Kind, len(b), err)
		}
	}
}

// TestShortIsChecked: what no host would say is refused.
func TestShortIsChecked(t *testing.T) {
	seq := []byte{2, 1, 5} // done of operation 5
	var m message
	if err := m.readShort(seq); err != nil || m.Kind != kindDone || m.Seq != 5 {
		t.Fatalf("%+v, %v", m, err)
	}
	for what, header := range map[string][]byte{
		"no kind": {0, 1, 5}, "an unknown kind": {byte(len(shortKinds) + 1), 1, 5}, "no fields": {2}, "a field that is not there": {2, 1}, "a field that is zero": {2, 1, 0},
		"more behind": {2, 1, 5, 9}, "an unknown field": binary.AppendUvarint([]byte{2}, 1<<40), "an unknown collective": {2, 4, byte(len(shortCollectives) + 1)},
		"a rank that is none": append([]byte{2, 2}, binary.AppendUvarint(nil, math.MaxInt32+1)...), "half a number": {2, 1, 0x80},
		"a size that is none":            append(binary.AppendUvarint([]byte{2}, 1<<7), binary.AppendUvarint(nil, math.MaxInt64+1)...),
		"a text that is longer than all": append(binary.AppendUvarint([]byte{2}, 1<<16), 9, 'x'),
	} {
		var m message
		if err := m.readShort(header); err == nil {
			t.Errorf("%s passes: %+v", what, m)
		}
	}
}

// TestLongHeader: headers longer than what is read ahead, and streams that end in one.
func TestLongHeader(t *testing.T) {
	m := message{Kind: kindWaiting, Missing: string(bytes.Repeat([]byte{'x'}, 70_000))}
	b, err := m.encode(true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readMessage(bufio.NewReader(bytes.NewReader(b))); err != nil || got.Missing != m.Missing {
		t.Errorf("%d bytes, %v", len(got.Missing), err)
	}
	short := message{Kind: kindItems, Seq: 5}
	var encoded [][]byte
	for _, brief := range []bool{true, false} {
		e, err := short.encode(brief)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, e)
	}
	for _, b := range append(encoded, b) {
		for _, n := range []int{1, 2, min(10, len(b)-1), len(b) - 1} {
			if got, err := readMessage(bufio.NewReader(bytes.NewReader(b[:n]))); err == nil {
				t.Errorf("%d of %d bytes are read as %+.100v", n, len(b), got)
			}
		}
	}
	if _, err := readMessage(bufio.NewReader(bytes.NewReader(binary.AppendUvarint(nil, maxHeader+1)))); err == nil {
		t.Error("a header of more than its limit is no error")
	}
}

func FuzzShort(f *testing.F) {
	for seed := range uint64(50) {
		m := randomMessage(rand.New(rand.NewPCG(seed, 92)))
		if b, ok := m.appendShort(nil); ok {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		var m, again message
		if len(header) == 0 || m.readShort(header) != nil {
			return
		}
		b, ok := m.appendShort(nil)
		if !ok {
			t.Fatalf("%x is read as %+v, which has no short form", header, m)
		}
		if err := again.readShort(b); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%x is read as %+v, and %x as %+v, %v", header, m, b, again, err)
		}
	})
}

func BenchmarkHeader(b *testing.B) {
	m := message{Kind: kindItems, Seq: 123456, Collective: plan.Allgather, Past: 123450}
	header, _ := m.appendShort(nil)
	long, err := json.Marshal(&m)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		var room [64]byte
		for b.Loop() {
			m.appendShort(room[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			var m message
			if err := m.readShort(header); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json/write", func(b *testing.B) {
		for b.Loop() {
			if _, err := json.Marshal(&m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json/read", func(b *testing.B) {
		for b.Loop() {
			var m message
			if err := json.Unmarshal(long, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
