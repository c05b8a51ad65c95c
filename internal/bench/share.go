package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/gridagent/gridagent/agent/client"
)

// A greeting is what each rank says before the first operation.
type greeting struct {
	Version int         `json:"bench"`
	Site    string      `json:"site,omitempty"`
	Terms   [][2]string `json:"terms"`
}

// greetingVersion changes with what ranks share, or with how they run a benchmark.
const greetingVersion = 3

// An observation is what one rank saw of one operation.
type observation struct {
	Seconds   float64 `json:"s"`           // of the call, by the rank's clock
	Agent     float64 `json:"a"`           // from the group's start to the rank's completion, by its agent's clock
	Bound     float64 `json:"b,omitempty"` // 0 where unknown
	Direct    float64 `json:"d,omitempty"` // without relays; 0 where there is none
	Predicted float64 `json:"p,omitempty"`
	Algorithm string  `json:"alg"`
	// Sent counts the payload that the rank's host sent to the hosts of each other site. Only
	// the first rank of a host says it.
	Sent  map[string]int64 `json:"sent,omitempty"`
	Wrong *wrongBlock      `json:"wrong,omitempty"`
}

// share gives v to all ranks and returns what they gave, by rank. What cannot be read is a
// [*MismatchError]: the rank runs something else.
func share[T any](ctx context.Context, b *run, v T) ([]T, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	res, err := b.rank.Allgather(ctx, data, client.Options{Timeout: b.Options.Timeout})
	if err != nil {
		return nil, err
	}
	defer res.Close()
	all := make([]T, len(res.Sizes))
	rest := res.Data
	for r, n := range res.Sizes {
		if err := json.Unmarshal(rest[:n], &all[r]); err != nil {
			return nil, &MismatchError{Rank: r, Host: b.hosts[r], Cause: notBench(r)}
		}
		rest = rest[n:]
	}
	return all, nil
}

// agree learns of the sites, and that all ranks measure the same.
func (b *run) agree(ctx context.Context) error {
	all, err := share(ctx, b, greeting{Version: greetingVersion, Site: b.Site, Terms: b.terms()})
	if err != nil {
		return err
	}
	b.sites, b.siteOf = make([]string, len(all)), make(map[string]string)
	for r, g := range all {
		if cause := differ(g, all[0], r); cause != "" {
			return &MismatchError{Rank: r, Host: b.hosts[r], Cause: cause}
		}
		b.sites[r], b.siteOf[b.hosts[r]] = g.Site, g.Site
	}
	return nil
}

// differ says how the greeting of rank r differs from that of rank 0, empty if it does not.
func differ(g, first greeting, r int) string {
	switch {
	case g.Version > 0 && g.Version != greetingVersion:
		return fmt.Sprintf("rank %d runs version %d of the benchmark, and this is version %d: %s", r, g.Version, greetingVersion, runTheSame)
	case g.Version != greetingVersion || len(g.Terms) != len(first.Terms):
		return notBench(r)
	}
	for i, term := range g.Terms {
		of := first.Terms[i]
		if term[0] != of[0] {
			return notBench(r)
		}
		if term[1] != of[1] {
			return fmt.Sprintf("%s: %s at rank %d, %s at rank 0", term[0], named(term[1]), r, named(of[1]))
		}
	}
	return ""
}

func notBench(r int) string {
	return fmt.Sprintf("rank %d runs no benchmark of this version: %s", r, runTheSame)
}

// runTheSame says what to do about ranks that differ in more than their flags.
const runTheSame = "run gridagent bench of the same release at every rank"

// named shows the value of a term, which another rank's process has made.
func named(v string) string {
	switch {
	case v == "":
		return "nothing"
	case strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%.60q", v)
	case len(v) > 64:
		return fmt.Sprintf("%.60s…", v)
	}
	return v
}
