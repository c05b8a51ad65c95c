package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/gridagent/gridagent/exchange/lane"
)

// reservation is for how long a name that was just issued is kept from other keys:
// until its host has joined, nobody else knows that it is taken.
const reservation = 2 * time.Minute

// handleTimeout bounds a join request from its first byte to the answer.
const handleTimeout = 20 * time.Second

// A Server answers join requests at a member. Where the authority lives it decides
// them; elsewhere it forwards them there. The fields are set before the first call;
// methods may be called concurrently.
type Server struct {
	Identity *Identity // required
	// Live reports whether a live member has the name. Nil means nobody does. A name
	// may be issued again, to another key, once its host is gone: that is how a
	// reinstalled host comes back.
	Live func(name string) bool
	// Unmet reports whether the name is that of a host that may be alive although Live does not say so: this one has started a short time ago and
	// remembers it. Nil means no host is.
	Unmet func(name string) bool
	// Members returns IP:PORT of members that the new host should join. Nil means none.
	Members func() []string
	// GossipKeys returns the keys in use, the encrypting one first. Nil means those of Identity.
	GossipKeys func() [][]byte
	// Forward carries a request to another host that holds the authority, whose
	// [Server.Decide] answers it. Nil, or an error, refuses the request.
	Forward func(context.Context, JoinRequest) (JoinResponse, error)
	// Holder names the host that holds the authority, "" if unknown, for messages.
	Holder func() string
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Log is told of every admission and refusal. Nil discards.
	Log *slog.Logger

	attempts attempts

	mu     sync.Mutex // guards recent, and makes the check of a name and its reservation one step
	recent map[string]issued
}

// issued is a name given out lately, and the SHA-256 of the key that has it.
type issued struct {
	key [sha256.Size]byte
	at  time.Time
}

func (sv *Server) now() time.Time {
	if sv.Now != nil {
		return sv.Now()
	}
	return time.Now()
}

func (sv *Server) log() *slog.Logger {
	if sv.Log != nil {
		return sv.Log
	}
	return slog.New(slog.DiscardHandler)
}

// Handle serves one join stream and ends it; it is the handler of lane.StreamJoin.
func (sv *Server) Handle(ctx context.Context, s *lane.Stream) {
	deadline := time.Now().Add(handleTimeout) // streams count in real time, whatever Now says
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	s.SetDeadline(deadline)
	from := addrPort(s.Peer.Addr)
	var resp JoinResponse
	var req JoinRequest
	if wait := sv.attempts.blocked(from.Addr(), sv.now()); wait > 0 {
		resp.Refused = refuse(RefusedTooMany, "too many failed attempts from %v: try again in %v", from.Addr(), wait.Round(time.Second))
	} else if err := readMessage(s, &req); err != nil {
		sv.log().Info("join request refused", "from", from, "reason", err)
		sv.attempts.fail(from.Addr(), sv.now())
		s.Abort()
		return
	} else {
		resp = sv.answer(ctx, req)
		sv.record(from, req, resp)
	}
	if resp.Refused == nil && from.IsValid() {
		resp.Observed = from.String()
	}
	resp.Version = joinVersion
	if err := writeMessage(s, resp); err != nil {
		sv.log().Info("join answer not sent", "from", from, "err", err)
		s.Abort()
		return
	}
	s.Close()
}

// record logs the outcome and counts failures that may be somebody trying tokens.
func (sv *Server) record(from netip.AddrPort, req JoinRequest, resp JoinResponse) {
	if resp.Refused == nil {
		sv.log().Info("host admitted", "host", req.Name, "site", req.Site, "from", from, "token", req.TokenID)
		return
	}
	sv.log().Info("join request refused", "from", from, "host", req.Name, "token", req.TokenID, "code", resp.Refused.Code, "reason", resp.Refused.Message)
	switch resp.Refused.Code {
	case RefusedInternal, RefusedNoAuthority: // not the caller's fault
	default:
		sv.attempts.fail(from.Addr(), sv.now())
	}
}

// answer decides req, here or where the authority lives.
func (sv *Server) answer(ctx context.Context, req JoinRequest) JoinResponse {
	if sv.Identity.Authority != nil {
		resp := sv.Decide(ctx, req)
		if sv.Forward == nil || resp.Refused == nil || resp.Refused.Code != RefusedUnknown {
			return resp
		}
		if other, err := sv.Forward(ctx, req); err == nil { // the tokens may be where the authority is as well
			return other
		}
		return resp
	}
	holder := "the host that ran gridagent init"
	if sv.Holder != nil {
		if name := sv.Holder(); name != "" {
			holder = name
		}
	}
	if sv.Forward == nil {
		return JoinResponse{Refused: refuse(RefusedNoAuthority, "%s does not hold the cluster's authority: join by way of %s",
			sv.Identity.Settings.Host, holder)}
	}
	resp, err := sv.Forward(ctx, req)
	if err != nil {
		return JoinResponse{Refused: refuse(RefusedNoAuthority, "%s does not hold the cluster's authority, and cannot reach %s, which does: %v",
			sv.Identity.Settings.Host, holder, err)}
	}
	return resp
}

// Decide admits or refuses the host that req is from. It is called where the
// authority lives, also for requests that other members forward.
func (sv *Server) Decide(_ context.Context, req JoinRequest) JoinResponse {
	resp, err := sv.decide(req)
	if err == nil {
		return resp
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		refusal = asRefusal(req, err)
	}
	return JoinResponse{Version: joinVersion, Refused: refusal}
}

// asRefusal turns an error of the token book into what the client is told. An
// internal error (a full disk) is told too: the client has shown no more than a
// token id, but the operator on its side is who will act.
func asRefusal(req JoinRequest, err error) *Refusal {
	id := req.TokenID
	if len(id) > 2*len(TokenID{}) {
		id = id[:2*len(TokenID{})]
	}
	switch {
	case errors.Is(err, ErrTokenUnknown):
		return refuse(RefusedUnknown, "join token %q is not one of this cluster's: make one with gridagent token create", id)
	case errors.Is(err, ErrTokenRevoked):
		return refuse(RefusedRevoked, "join token %s was revoked", id)
	case errors.Is(err, ErrTokenUsedUp):
		return refuse(RefusedUsedUp, "join token %s is used up: it has let in as many hosts as it may", id)
	case errors.Is(err, ErrTokenExpired):
		return refuse(RefusedExpired, "%v", err)
	case errors.Is(err, ErrTokensBroken): // the path is nothing to a host that has proven nothing
		return refuse(RefusedInternal, "the host that holds the cluster's authority cannot read its join tokens: its log and gridagent token list say why")
	}
	return refuse(RefusedInternal, "the seed could not handle the request: %v", err)
}

func (sv *Server) decide(req JoinRequest) (JoinResponse, error) {
	if sv.Identity.Authority == nil {
		return JoinResponse{}, refuse(RefusedNoAuthority, "%s does not hold the cluster's authority", sv.Identity.Settings.Host)
	}
	tokens, err := sv.Identity.Tokens()
	if err != nil {
		return JoinResponse{}, err
	}
	now := sv.now()
	// The token first: who has none learns nothing, not even which names exist.
	if err := tokens.Check(req.TokenID, req.Secret, now); err != nil {
		return JoinResponse{}, err
	}
	if req.Version != joinVersion {
		return JoinResponse{}, refuse(RefusedRequest, "join request of version %d: this seed speaks %d", req.Version, joinVersion)
	}
	name, err := HostName(req.Name)
	if err != nil {
		return JoinResponse{}, refuse(RefusedRequest, "%v", err)
	}
	if _, err := siteName(req.Site); err != nil {
		return JoinResponse{}, refuse(RefusedRequest, "%v", err)
	}
	if err := checkAdvertise(req.Advertise); err != nil {
		return JoinResponse{}, refuse(RefusedRequest, "%v", err)
	}
	csr, err := x509.ParseCertificateRequest(req.CSR)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return JoinResponse{}, refuse(RefusedRequest, "certificate request of %s: %v", name, err)
	}
	key := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	if err := sv.reserve(name, key, now); err != nil {
		return JoinResponse{}, err
	}
	others, err := tokens.admitted(name, key[:])
	if err != nil {
		sv.release(name, key)
		return JoinResponse{}, err
	}
	if err := tokens.Redeem(req.TokenID, req.Secret, name, key[:], now); err != nil {
		sv.release(name, key)
		return JoinResponse{}, err
	}
	der, err := sv.Identity.Authority.Issue(name, csr.PublicKey, now)
	if err != nil {
		sv.release(name, key)
		return JoinResponse{}, err
	}
	if others {
		sv.log().Warn("a host name is given to another key than before: its host was installed anew, or somebody takes its place", "host", name, "token", req.TokenID)
	}
	return sv.admit(der), nil
}

// admit returns the answer that lets the host with the certificate in.
func (sv *Server) admit(der []byte) JoinResponse {
	resp := JoinResponse{
		Version:    joinVersion,
		Cluster:    sv.Identity.Settings.Cluster,
		ClusterID:  sv.Identity.Settings.ID,
		Chain:      [][]byte{der, sv.Identity.Authority.Cert.Raw},
		GossipKeys: sv.Identity.GossipKeys,
	}
	if sv.GossipKeys != nil {
		resp.GossipKeys = sv.GossipKeys()
	}
	if sv.Members != nil {
		resp.Members = sv.Members()
		resp.Members = resp.Members[:min(len(resp.Members), maxMembers)]
	}
	return resp
}

// reserve takes name for key, unless a live member or another key of late has it.
func (sv *Server) reserve(name string, key [sha256.Size]byte, now time.Time) error {
	if name == sv.Identity.Settings.Host || sv.Live != nil && sv.Live(name) {
		return refuse(RefusedName, "host name %q is taken by a live member: choose another with --name, or stop that host first", name)
	}
	if sv.Unmet != nil && sv.Unmet(name) {
		return refuse(RefusedName, "host name %q is that of a member which %s has not met yet since its agent was started: choose another with --name, or if that host is gone try again in two minutes",
			name, sv.Identity.Settings.Host)
	}
	sv.mu.Lock()
	defer sv.mu.Unlock()
	for n, r := range sv.recent { // few: who joins within two minutes
		if now.Sub(r.at) >= reservation {
			delete(sv.recent, n)
		}
	}
	if r, ok := sv.recent[name]; ok && !bytes.Equal(r.key[:], key[:]) {
		ago := now.Sub(r.at).Round(time.Second)
		return refuse(RefusedName, "host name %q was given to another host %v ago: choose another with --name, or try again in %v",
			name, ago, reservation-ago)
	}
	if sv.recent == nil {
		sv.recent = make(map[string]issued)
	}
	sv.recent[name] = issued{key: key, at: now}
	return nil
}

func (sv *Server) release(name string, key [sha256.Size]byte) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.recent[name].key == key {
		delete(sv.recent, name)
	}
}

// addrPort returns a as a value, the zero one if it is not an IP address and port.
func addrPort(a net.Addr) netip.AddrPort {
	if a == nil {
		return netip.AddrPort{}
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
