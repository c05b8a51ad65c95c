package identity

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// settingsVersion is the version of cluster.json that this release writes. Fields may
// be added to it; a larger one is refused.
const settingsVersion = 1

// Settings is cluster.json.
type Settings struct {
	Version   int       `json:"version"`
	Cluster   string    `json:"cluster"`             // name of the cluster
	ID        string    `json:"id"`                  // from the authority's fingerprint; tells equal names apart
	Host      string    `json:"host"`                // this host's name, as certified
	Site      string    `json:"site,omitempty"`      // the operator's label
	Bind      string    `json:"bind,omitempty"`      // IP:PORT of the socket
	Advertise string    `json:"advertise,omitempty"` // IP:PORT at which others reach it; port 0: that of the socket
	Created   time.Time `json:"created"`
}

// newSettings checks what the operator gave.
func newSettings(o Options, now time.Time) (Settings, error) {
	s := Settings{Version: settingsVersion, Cluster: o.Cluster, Host: o.Host, Site: o.Site,
		Bind: o.Bind, Advertise: o.Advertise, Created: now.UTC().Truncate(time.Second)}
	return s.checked()
}

// checked returns s with its names normalised, or what is wrong with it.
func (s Settings) checked() (Settings, error) {
	var err error
	if s.Cluster, err = checkName("cluster name", s.Cluster); err != nil {
		return Settings{}, err
	}
	if s.Host, err = HostName(s.Host); err != nil {
		return Settings{}, err
	}
	if s.Site, err = siteName(s.Site); err != nil {
		return Settings{}, err
	}
	if _, err := hex.DecodeString(s.ID); err != nil || len(s.ID) > 64 {
		return Settings{}, fmt.Errorf("cluster id %.70q: want at most 64 hexadecimal digits", s.ID)
	}
	if err := checkAddr("bind", s.Bind); err != nil {
		return Settings{}, err
	}
	if err := checkAdvertise(s.Advertise); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func checkAddr(what, addr string) error {
	if addr == "" {
		return nil
	}
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return fmt.Errorf("%s address %q: want IP:PORT", what, addr)
	}
	return nil
}

func checkAdvertise(addr string) error {
	if err := checkAddr("advertise", addr); err != nil || addr == "" {
		return err
	}
	if ap := netip.MustParseAddrPort(addr); ap.Addr().IsUnspecified() {
		return fmt.Errorf("advertise address %q: nobody can reach it; give the address and port at which the other hosts see this one", addr)
	}
	return nil
}

// Rebind lets the host listen at bind from now on. An advertised port that was the
// socket's goes along; another one leads to this host from elsewhere, and stays.
func (s *Settings) Rebind(bind string) {
	was, now, at := addrPortOf(s.Bind), addrPortOf(bind), addrPortOf(s.Advertise)
	s.Bind = bind
	if !now.IsValid() || !at.IsValid() || at.Port() != was.Port() {
		return
	}
	addr := at.Addr()
	if addr == was.Addr() && !now.Addr().IsUnspecified() {
		addr = now.Addr()
	}
	s.Advertise = netip.AddrPortFrom(addr, now.Port()).String()
}

// addrPortOf returns the zero AddrPort for what is none.
func addrPortOf(text string) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(text)
	return ap
}

// ParseSettings reads cluster.json.
func ParseSettings(data []byte) (Settings, error) {
	var s Settings
	if err := json.Unmarshal(data, &s); err != nil {
		return Settings{}, err
	}
	if s.Version > settingsVersion {
		return Settings{}, fmt.Errorf("version %d was written by a newer release; this one reads up to %d", s.Version, settingsVersion)
	}
	if s.Version < 1 {
		return Settings{}, fmt.Errorf("version %d: want 1 to %d", s.Version, settingsVersion)
	}
	return s.checked()
}

func (s Settings) encode() ([]byte, error) {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return append(b, '\n'), nil
}
