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

	"github.com/gridagent/gridagent/exchange/plan"
)

// randomItems returns a message of kindItems with any of its header's fields.
func randomItems(rng *rand.Rand) message {
	m := message{Kind: kindItems}
	if rng.IntN(4) > 0 {
		m.Seq = rng.Uint64() >> rng.IntN(64)
	}
	if rng.IntN(4) > 0 {
		m.Collective = []plan.Collective{plan.Allgather, plan.Alltoall, Broadcast, Barrier, "other", `"<&>`}[rng.IntN(6)]
	}
	if rng.IntN(3) == 0 {
		m.Size = rng.Int64() >> rng.IntN(63)
	}
	if rng.IntN(3) == 0 {
		m.Root = rng.IntN(3000) - 10
	}
	if rng.IntN(3) == 0 {
		m.Hop = rng.IntN(12)
	}
	if rng.IntN(2) == 0 {
		m.Past = rng.Uint64() >> rng.IntN(64)
	}
	if rng.IntN(5) == 0 {
		m.Host = "a0"
	}
	if rng.IntN(8) == 0 {
		m.Got = rng.Uint64N(100)
	}
	return m
}

// TestItemsHeader: what is written without encoding/json is what that would write, and both read it.
func TestItemsHeader(t *testing.T) {
	fast := 0
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 91))
		m := randomItems(rng)
		m.Part = bytes.Repeat([]byte{7}, rng.IntN(3))
		if rng.IntN(50) == 0 {
			m.Seq = math.MaxUint64
		}
		b, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		n, k := binary.Uvarint(b)
		if got := b[k : k+int(n)]; !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %s, want %s", seed, got, want)
		}
		read, err := readMessage(bufio.NewReader(bytes.NewReader(b)))
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, want, err)
		}
		if len(m.Part) == 0 {
			m.Part = read.Part
		}
		m.Rows = read.Rows
		if !reflect.DeepEqual(read, m) {
			t.Fatalf("seed %d: %s is read as %+v, want %+v", seed, want, read, m)
		}
		var by message
		if by.readItemsHeader(want) != (m.plainItems() && m.Root >= 0) {
			t.Errorf("seed %d: %s: read without encoding/json: %v", seed, want, !m.plainItems())
		}
		if m.plainItems() {
			fast++
		}
	}
	if fast < 1000 {
		t.Errorf("only %d of 5000 messages were plain", fast)
	}
}

// TestLongHeader: headers longer than what is read ahead, and streams that end in one.
func TestLongHeader(t *testing.T) {
	m := message{Kind: kindWaiting, Missing: string(bytes.Repeat([]byte{'x'}, 70_000))}
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readMessage(bufio.NewReader(bytes.NewReader(b))); err != nil || got.Missing != m.Missing {
		t.Errorf("%d bytes, %v", len(got.Missing), err)
	}
	short, err := (&message{Kind: kindItems, Seq: 5}).encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{b, short} {
		for _, n := range []int{1, 2, 10, len(b) - 1} {
			if got, err := readMessage(bufio.NewReader(bytes.NewReader(b[:n]))); err == nil {
				t.Errorf("%d of %d bytes are read as %+.100v", n, len(b), got)
			}
		}
	}
	if _, err := readMessage(bufio.NewReader(bytes.NewReader(binary.AppendUvarint(nil, maxHeader+1)))); err == nil {
		t.Error("a header of more than its limit is no error")
	}
}

func FuzzItemsHeader(f *testing.F) {
	for _, s := range []string{
		`{"k":"items"}`, `{"k":"items","seq":12,"op":"allgather","past":9}`, `{"k":"items","seq":012}`, `{"k":"items","seq":-1}`, `{"k":"items","op":"bar\"rier"}`,
		`{"k":"items","size":9223372036854775808,"root":1,"hop":3}`, `{"k":"items","root":4294967296}`, `{"k":"items","seq":0}`, `{"k":"items","seq":1.5}`, `{"k":"items","seq":1}x`, `{"k":"items","seq":`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		var fast, slow message
		if !fast.readItemsHeader(header) {
			return
		}
		if err := json.Unmarshal(header, &slow); err != nil || !reflect.DeepEqual(fast, slow) {
			t.Fatalf("%s is read as %+v, and by encoding/json as %+v, %v", header, fast, slow, err)
		}
	})
}

func BenchmarkItemsHeader(b *testing.B) {
	m := message{Kind: kindItems, Seq: 123456, Collective: plan.Allgather, Past: 123450}
	header := m.appendItemsHeader(nil)
	b.Run("write", func(b *testing.B) {
		var room [128]byte
		for b.Loop() {
			m.appendItemsHeader(room[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			var m message
			if !m.readItemsHeader(header) {
				b.Fatal("not read")
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
			if err := json.Unmarshal(header, &m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
