package e2etest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// Files returns n paths in a fresh folder.
func Files(t *testing.T, n int) []string {
	dir := t.TempDir()
	out := make([]string, n)
	for i := range out {
		out[i] = filepath.Join(dir, fmt.Sprintf("f%d", i))
	}
	return out
}

// Sparse makes n files of size bytes without writing any: holes read as zeros.
func Sparse(t *testing.T, n int, size int64) []string {
	t.Helper()
	out := Files(t, n)
	for _, name := range out {
		f, err := os.Create(name)
		if err == nil {
			err = errors.Join(f.Truncate(size), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// Random makes a file of random bytes for each of sizes.
func Random(t *testing.T, seed uint64, sizes ...int) []string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	out := Files(t, len(sizes))
	for i, name := range out {
		writeRandom(t, rng, name, sizes[i])
	}
	return out
}

func writeRandom(t *testing.T, rng *rand.Rand, name string, size int) []byte {
	t.Helper()
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(rng.Uint32())
	}
	if err := os.WriteFile(name, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return block
}

// Cut makes an input for every one of n ranks whose block for rank d has size(s, d) bytes, and
// for every rank the list of files, in rank order, of the blocks that it shall get.
func Cut(t *testing.T, seed uint64, n int, size func(s, d int) int) (in []string, want [][]string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	in, want = Files(t, n), make([][]string, n)
	for s := range n {
		var whole []byte
		for d, name := range Files(t, n) {
			whole = append(whole, writeRandom(t, rng, name, size(s, d))...)
			want[d] = append(want[d], name)
		}
		if err := os.WriteFile(in[s], whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return in, want
}

// NoOutput fails t if any of the outputs, or a part of one, is there.
func NoOutput(t *testing.T, out []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(out[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("output %s was left behind", e.Name())
	}
}

// SameBytes compares a file with the concatenation of others.
func SameBytes(t *testing.T, file string, parts []string) {
	t.Helper()
	var readers []io.Reader
	for _, p := range parts {
		f, err := os.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		readers = append(readers, f)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	want, err := io.ReadAll(io.MultiReader(readers...))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes that are not the %d of the inputs in rank order", file, len(got), len(want))
	}
}
