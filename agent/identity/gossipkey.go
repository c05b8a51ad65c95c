package identity

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	gossipKeySize = 32 // AES-256
	maxGossipKeys = 16 // a rotation needs two
)

// NewGossipKey reads a key of 32 bytes from random.
func NewGossipKey(random io.Reader) ([]byte, error) {
	key := make([]byte, gossipKeySize)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, fmt.Errorf("make gossip key: %w", err)
	}
	return key, nil
}

// ParseGossipKeys reads a gossip.key file: standard base64, one key of 32 bytes a
// line; empty lines and lines that begin with # are skipped. The first key
// encrypts, all decrypt. Errors name the line and never quote a key.
func ParseGossipKeys(data []byte) ([][]byte, error) {
	var keys [][]byte
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: not base64", i+1)
		}
		if err := checkGossipKey(key); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(keys) == maxGossipKeys {
			return nil, fmt.Errorf("line %d: more than %d keys", i+1, maxGossipKeys)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in it")
	}
	return keys, nil
}

// FormatGossipKeys is the inverse of [ParseGossipKeys].
func FormatGossipKeys(keys [][]byte) []byte {
	var b bytes.Buffer
	for _, k := range keys {
		b.WriteString(base64.StdEncoding.EncodeToString(k))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func checkGossipKey(key []byte) error {
	if len(key) != gossipKeySize {
		return fmt.Errorf("gossip key has %d bytes, want %d", len(key), gossipKeySize)
	}
	return nil
}
