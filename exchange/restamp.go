package exchange

import "fmt"

// Restamp returns a copy of an encoded part ([Part.AppendTo]) that is of the exchange id: so a plan
// that is kept can be run again. It does not check the rest of the part.
func Restamp(part []byte, id ID) ([]byte, error) {
	if len(part) < 1+len(id) || part[0] < 1 || part[0] > crossingVersion {
		return nil, fmt.Errorf("restamp a part of %d bytes: it is none, or of a version above %d", len(part), crossingVersion)
	}
	again := make([]byte, len(part))
	copy(again, part)
	copy(again[1:], id[:])
	return again, nil
}
