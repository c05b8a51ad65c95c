package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/gridagent/gridagent/agent/identity"
)

const (
	peersVersion = 1
	maxPeers     = 4096 // more are not written, nor read
	maxPeerFile  = 2 << 20
)

// A Peer is a member remembered from an earlier run. One that has left is remembered so
// that nobody calls it back, be it a host that was down when it left.
type Peer struct {
	Name string         `json:"name"`
	Addr netip.AddrPort `json:"addr"`
	Site string         `json:"site,omitempty"`
	Seen time.Time      `json:"seen"`          // when it was last known to be alive
	Left time.Time      `json:"left,omitzero"` // when it left in good order; zero if it did not
}

type peersFile struct {
	Version int    `json:"version"`
	Peers   []Peer `json:"peers"`
}

// ParsePeers reads a peers.json. Entries that cannot be used are skipped: a
// remembered address is only a hint.
func ParsePeers(data []byte) ([]Peer, error) {
	if len(data) > maxPeerFile {
		return nil, fmt.Errorf("%d bytes, at most %d are read", len(data), maxPeerFile)
	}
	var f peersFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version < 1 || f.Version > peersVersion {
		return nil, fmt.Errorf("version %d: this release reads 1 to %d", f.Version, peersVersion)
	}
	var peers []Peer
	for _, p := range f.Peers {
		name, err := identity.HostName(p.Name)
		if err != nil || checkAddr(p.Addr) != nil || len(peers) == maxPeers {
			continue
		}
		p.Name, p.Addr = name, normal(p.Addr)
		peers = append(peers, p)
	}
	return peers, nil
}

// FormatPeers is the inverse of [ParsePeers].
func FormatPeers(peers []Peer) ([]byte, error) {
	data, err := json.MarshalIndent(peersFile{Version: peersVersion, Peers: peers[:min(len(peers), maxPeers)]}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode peers: %w", err)
	}
	return append(data, '\n'), nil
}

// ReadPeers reads the peers.json at path; a missing one holds none.
func ReadPeers(path string) ([]Peer, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPeerFile+1))
	if err != nil {
		return nil, err
	}
	peers, err := ParsePeers(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return peers, nil
}

// SaveTo returns a function for [Config.Save] that replaces the file at path.
func SaveTo(path string) func([]Peer) error {
	return func(peers []Peer) error {
		data, err := FormatPeers(peers)
		if err != nil {
			return err
		}
		return identity.WriteFile(path, data, 0o600)
	}
}

// normal returns ap as it is compared: IPv4 as IPv4.
func normal(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// checkAddr refuses an address at which no host can be.
func checkAddr(ap netip.AddrPort) error {
	a := ap.Addr()
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || ap.Port() == 0 {
		return fmt.Errorf("address %v: no host can be reached there", ap)
	}
	return nil
}
