package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/memberlist"
)

// Meta is what a host says of itself in gossip.
type Meta struct {
	Site    string    // the operator's label, at most 63 bytes
	HoldsCA bool      // the cluster's authority lives there: it can admit hosts
	Started time.Time // when the agent began, whole seconds; zero if not told
	// Switches is the digest of the switch tree that the operator has declared for the host's
	// site, by which others ask for it; 0 without one.
	Switches uint64
	// TCP says that the host takes TCP lanes at the number of its UDP port.
	TCP bool
	// Words says that it takes the words of groups there as well.
	Words bool
}

// The encoding: version 1, a byte of flags, the start as a uvarint of Unix seconds
// (0: not told), the site's length as a byte, the site, and if a flag says so the digest
// of the switch tree in eight bytes, big endian. Bytes that follow are for
// later releases and are skipped, so a field can be added without a new version.
const (
	metaVersion = 1

	flagHoldsCA  = 1 << 0
	flagSwitches = 1 << 1
	flagTCP      = 1 << 2
	flagWords    = 1 << 3

	maxSite = 63
)

// appendTo encodes m. A site that is too long is cut: metadata must never be what
// keeps a host out.
func (m Meta) appendTo(b []byte) []byte {
	var flags byte
	if m.HoldsCA {
		flags |= flagHoldsCA
	}
	if m.Switches != 0 {
		flags |= flagSwitches
	}
	if m.TCP {
		flags |= flagTCP
	}
	if m.Words {
		flags |= flagWords
	}
	var started uint64
	if s := m.Started.Unix(); !m.Started.IsZero() && s > 0 {
		started = uint64(s)
	}
	site := m.Site[:min(len(m.Site), maxSite)]
	b = append(b, metaVersion, flags)
	b = binary.AppendUvarint(b, started)
	b = append(b, byte(len(site)))
	b = append(b, site...)
	if m.Switches != 0 {
		b = binary.BigEndian.AppendUint64(b, m.Switches)
	}
	return b
}

// parseMeta reads what [Meta.appendTo] wrote.
func parseMeta(b []byte) (Meta, error) {
	if len(b) > memberlist.MetaMaxSize {
		return Meta{}, fmt.Errorf("node metadata of %d bytes, at most %d are allowed", len(b), memberlist.MetaMaxSize)
	}
	if len(b) < 2 {
		return Meta{}, fmt.Errorf("node metadata of %d bytes is too short", len(b))
	}
	if b[0] != metaVersion {
		return Meta{}, fmt.Errorf("node metadata of version %d, this release reads %d", b[0], metaVersion)
	}
	flags := b[1]
	m := Meta{HoldsCA: flags&flagHoldsCA != 0, TCP: flags&flagTCP != 0, Words: flags&flagWords != 0}
	started, n := binary.Uvarint(b[2:])
	if n <= 0 || started > 1<<40 { // the year 36812
		return Meta{}, errors.New("node metadata: start time out of range")
	}
	if started > 0 {
		m.Started = time.Unix(int64(started), 0).UTC()
	}
	b = b[2+n:]
	if len(b) == 0 || int(b[0]) > maxSite || len(b) < 1+int(b[0]) {
		return Meta{}, errors.New("node metadata: site is cut off or too long")
	}
	m.Site = string(b[1 : 1+int(b[0])])
	for _, r := range m.Site { // it goes to terminals
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return Meta{}, fmt.Errorf("node metadata: site %q is not printable", m.Site)
		}
	}
	if flags&flagSwitches != 0 {
		if b = b[1+len(m.Site):]; len(b) < 8 {
			return Meta{}, errors.New("node metadata: digest of the switch tree is cut off")
		}
		m.Switches = binary.BigEndian.Uint64(b)
	}
	return m, nil
}
