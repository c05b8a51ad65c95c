package lane

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"
	"time"
)

// tlsRecord is a record of n bytes, which nobody could decrypt.
func tlsRecord(rng *rand.Rand, n int) []byte {
	r := make([]byte, recordHead+n)
	for i := range r {
		r[i] = byte(rng.Uint32())
	}
	binary.BigEndian.PutUint16(r[recordHead-2:], uint16(n))
	return r
}

// readAll reads until the end and counts the reads.
func readAll(c io.Reader) (all []byte, reads int, err error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			reads++
		}
		all = append(all, buf[:n]...)
		if err == io.EOF {
			return all, reads, nil
		}
		if err != nil {
			return all, reads, err
		}
	}
}

// TestRecordsWake: a record that comes packet by packet wakes its reader when it is whole, not for each of them.
func TestRecordsWake(t *testing.T) {
	for _, aware := range []bool{false, true} {
		plain, fast := tcpPair(t)
		if aware {
			carriesTLS(fast)
		}
		const count, piece = 10, 1400
		rng := rand.New(rand.NewPCG(1, 64))
		var sent []byte
		for range count {
			sent = append(sent, tlsRecord(rng, 16<<10)...)
		}
		said := make(chan error, 1)
		go func() {
			for left := sent; len(left) > 0; left = left[min(piece, len(left)):] {
				if _, err := plain.Write(left[:min(piece, len(left))]); err != nil {
					said <- err
					return
				}
				time.Sleep(time.Millisecond)
			}
			said <- plain.CloseWrite()
		}()
		got, reads, err := readAll(fast)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("aware %t: read %d bytes of %d, %v", aware, len(got), len(sent), err)
		}
		if err := <-said; err != nil {
			t.Error(err)
		}
		t.Logf("aware of records %t: %d reads of %d records in %d packets", aware, reads, count, len(sent)/piece+1)
		if aware && reads > 4*count {
			t.Errorf("%d reads of %d records", reads, count)
		}
	}
}

// TestRecordsOfAnySize: nobody waits for ever, wherever the stream is cut and whatever comes behind a large record.
func TestRecordsOfAnySize(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 65))
		plain, fast := tcpPair(t)
		carriesTLS(fast)
		var sent []byte
		for range 60 {
			size := 1 + rng.IntN(1<<rng.IntN(15))
			if rng.IntN(20) == 0 {
				size = 65535 // no record of TLS, and the reader is to see that
			}
			sent = append(sent, tlsRecord(rng, size)...)
		}
		said := make(chan error, 1)
		go func() {
			rng := rand.New(rand.NewPCG(seed, 66))
			for left := sent; len(left) > 0; {
				n := min(1+rng.IntN(1<<rng.IntN(16)), len(left))
				if _, err := plain.Write(left[:n]); err != nil {
					said <- err
					return
				}
				if left = left[n:]; rng.IntN(2) == 0 {
					time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
				}
			}
			said <- plain.CloseWrite()
		}()
		fast.SetReadDeadline(time.Now().Add(30 * time.Second))
		got, _, err := readAll(fast)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("seed %d: read %d bytes of %d, %v", seed, len(got), len(sent), err)
		}
		if err := <-said; err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// TestRecordsAreAnswered: a small record behind a large one wakes a reader that has waited for the large one, and so does the end of a connection in
// the middle of one.
func TestRecordsAreAnswered(t *testing.T) {
	plain, fast := tcpPair(t)
	carriesTLS(fast)
	rng := rand.New(rand.NewPCG(1, 67))
	fast.SetReadDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 64<<10)
	for range 20 {
		for _, size := range []int{16 << 10, 1, 5000, 20} {
			r := tlsRecord(rng, size)
			cut := recordHead + rng.IntN(size)
			go func() {
				plain.Write(r[:cut])
				time.Sleep(time.Millisecond)
				plain.Write(r[cut:])
			}()
			if n, err := io.ReadFull(fast, buf[:len(r)]); err != nil || !bytes.Equal(buf[:n], r) {
				t.Fatalf("record of %d bytes, cut at %d: read %d, %v", size, cut, n, err)
			}
		}
	}
	plain.Write(tlsRecord(rng, 16<<10)[:9000])
	plain.Close()
	n := 0
	for {
		k, err := fast.Read(buf)
		if n += k; err != nil {
			if n != 9000 || err != io.EOF {
				t.Errorf("read %d bytes of a record that was cut off, %v", n, err)
			}
			return
		}
	}
}
