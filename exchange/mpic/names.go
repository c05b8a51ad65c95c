package mpic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gridagent/gridagent/exchange/plan"
)

// taken are the words that the routine cannot be called: those of C99, and those that
// the file needs itself.
var taken = strings.Fields(`
	auto break case char const continue default do double else enum extern float for goto if inline int long
	register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
	messages blocks releases rounds hold join start receive wait_some finish run give_up private_comm drop own_key
	sizes prepare main pattern count_of fill compare blame check tried limits
	calloc malloc free memcmp memcpy printf fprintf`)

// checkName returns an error if name cannot be the name of the routine.
func checkName(name string) error {
	for i, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return fmt.Errorf("name %q: want a C identifier, letters, digits and _", name)
		}
	}
	if slices.Contains(taken, name) || strings.HasPrefix(strings.ToUpper(name), "MPI_") || strings.HasPrefix(name, "_") ||
		strings.ToUpper(name) == name {
		return fmt.Errorf("name %q is taken in C, MPI or the file itself: want another one, such as %q", name, "gridagent_"+strings.ToLower(name))
	}
	return nil
}

// defaultName returns the name of the routine of p, such as gridagent_allgather_recursive_doubling.
func defaultName(p *plan.Plan) string {
	name := []byte("gridagent_" + string(p.Collective))
	if isV(p) {
		name = append(name, 'v')
	}
	name = append(append(name, '_'), p.Algorithm...)
	for i, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			name[i] = '_'
		}
	}
	return string(name)
}

// comment makes text safe inside a C comment, and in a terminal: plans come from files. A
// star could end the comment, question marks could be a trigraph.
func comment(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '*' || r == '?' || r == '\\' {
			return '_'
		}
		return r
	}, text)
}

func isV(p *plan.Plan) bool { return p.Sizes != nil || p.Matrix != nil }
