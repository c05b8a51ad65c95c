package agent

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gridagent/gridagent/probe/netmap"
)

// Warnings are sentences about what the operator should look at: hosts that measure as if they
// stood in another site, reports that contradict all others or are absurd, hosts that let this one
// measure nothing, declared switch trees that disagree or do not fit what is measured.
func (a *Agent) Warnings() []string {
	warnings := slices.Clone(a.pools.current().tree.Warnings)
	warnings = append(warnings, a.netmap.Warnings(time.Now())...)
	warnings = append(warnings, a.prober.Warnings(time.Now())...)
	trees, wrong := a.switches.current()
	warnings = append(warnings, wrong...)
	for _, t := range trees {
		doubt := t.doubt(t.Hosts(), func(from, to string) (netmap.BytesPerSec, bool) {
			e, ok := a.knownEstimate(from, to)
			return e.Bandwidth, ok && e.Has(netmap.FieldBandwidth)
		})
		if doubt != "" {
			warnings = append(warnings, doubt)
		}
	}
	return warnings
}

const (
	warnEvery = 10 * time.Second
	maxWarned = 256 // warnings that are remembered, so as not to be logged again
)

// warn logs each warning once, when it is new, until ctx ends; that its counts, ages or rates are others does not make it new. Placement warnings are the pool
// tree's own, which logs them.
func (a *Agent) warn(ctx context.Context) {
	warned := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(warnEvery):
		}
		now, names := a.Warnings(), a.knownNames()
		for _, w := range now {
			if !warned[gist(w, names)] && len(warned) < maxWarned && !slices.Contains(a.pools.current().tree.Warnings, w) {
				a.log.Warn("look at this", "warning", w)
			}
		}
		clear(warned)
		for _, w := range now[:min(len(now), maxWarned)] {
			warned[gist(w, names)] = true
		}
	}
}

// knownNames returns the names of hosts and sites, which may be numbers.
func (a *Agent) knownNames() map[string]bool {
	names := map[string]bool{a.name: true}
	for _, m := range a.members.Members() {
		names[m.Name], names[m.Site] = true, true
	}
	return names
}

// gist returns warning w with # in place of each number, with its unit, and each time, but for those that are one of names.
func gist(w string, names map[string]bool) string {
	var b strings.Builder
	for len(w) > 0 {
		word := w
		if i := strings.IndexAny(w, " ,:;()\"→⇄"); i == 0 {
			_, size := utf8.DecodeRuneInString(w)
			b.WriteString(w[:size])
			w = w[size:]
			continue
		} else if i > 0 {
			word = w[:i]
		}
		w = w[len(word):]
		if !names[word] && isMeasure(strings.TrimRight(word, ".…")) {
			word = "#"
		}
		b.WriteString(word)
	}
	return b.String()
}

// isMeasure reports whether word is a number, with its unit perhaps, or a time.
func isMeasure(word string) bool {
	if !strings.ContainsAny(word, "0123456789") {
		return false // NaN and Inf may be hosts
	}
	if _, err := time.ParseDuration(word); err == nil {
		return true
	}
	for _, unit := range []string{"%", "KiB", "MiB", "GiB", "TiB", "B"} {
		if number, ok := strings.CutSuffix(word, unit); ok {
			word = number
			break
		}
	}
	_, err := strconv.ParseFloat(word, 64)
	return err == nil
}
