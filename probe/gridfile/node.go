package gridfile

import (
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A mapping is one YAML mapping whose keys have been checked.
type mapping struct {
	p      *parser
	node   *yaml.Node
	what   string
	values map[string]*yaml.Node
}

// mapping checks that n maps some of keys, each once.
func (p *parser) mapping(n *yaml.Node, what string, keys ...string) (*mapping, error) {
	if n.Kind != yaml.MappingNode {
		return nil, p.errorf(n, "%s is %s, not a mapping of %s", what, describe(n), strings.Join(keys, ", "))
	}
	m := &mapping{p, n, what, map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return nil, p.errorf(k, "%s: %s as a key", what, describe(k))
		}
		if near, known := nearest(k.Value, keys); !known {
			return nil, p.errorf(k, "%s: unknown key %q; did you mean %s?", what, clip(k.Value), near)
		}
		if first := m.values[k.Value]; first != nil {
			return nil, p.errorf(k, "%s: the key %q is given twice, first on line %d", what, k.Value, first.Line)
		}
		m.values[k.Value] = v
	}
	return m, nil
}

func (m *mapping) get(key string) *yaml.Node { return m.values[key] }

func (m *mapping) need(key string) (*yaml.Node, error) {
	if n := m.values[key]; n != nil {
		return n, nil
	}
	return nil, m.p.errorf(m.node, "%s: %s is missing", m.what, key)
}

// mark notes the lines of the mapping and its values.
func (m *mapping) mark(at place) {
	m.p.lines[at] = m.node.Line
	for key, n := range m.values {
		m.p.lines[place{at.section, at.index, key}] = n.Line
	}
}

// value reads the scalar under key with read; without the key it is an error only if the
// key is needed. The error has the line and the key.
func value[T any](m *mapping, key string, needed bool, into *T, read func(string) (T, error)) error {
	n := m.get(key)
	if n == nil {
		if needed {
			_, err := m.need(key)
			return err
		}
		return nil
	}
	text, err := m.p.text(n, key)
	if err != nil {
		return err
	}
	v, err := read(text)
	if err != nil {
		return m.p.errorf(n, "%s: %v", key, err)
	}
	*into = v
	return nil
}

func (m *mapping) rate(key string, needed bool, into *netmap.BytesPerSec) error {
	if err := value(m, key, needed, into, ParseRate); err != nil {
		return err
	}
	if n := m.get(key); n != nil && *into == 0 {
		return m.p.errorf(n, "%s: %s is zero", key, clip(n.Value))
	}
	return nil
}

func (m *mapping) delay(key string, needed bool, into *time.Duration) error {
	return value(m, key, needed, into, ParseDuration)
}

func (m *mapping) share(key string, into *float64) error {
	return value(m, key, false, into, ParsePercent)
}

func (m *mapping) size(key string, into *int64) error {
	return value(m, key, false, into, ParseSize)
}

func (m *mapping) flag(key string, into *bool) error {
	n := m.get(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.ScalarNode || n.Value != "true" && n.Value != "false" {
		return m.p.errorf(n, "%s: %s is not true or false", key, describe(n))
	}
	*into = n.Value == "true"
	return nil
}

// queue reads the bound of a queue: queue in packets, or buffer in bytes, which counts as
// so many full packets, rounded up.
func (m *mapping) queue(into *int) error {
	q, b := m.get("queue"), m.get("buffer")
	switch {
	case q != nil && b != nil:
		return m.p.errorf(b, "buffer: queue, on line %d, bounds the same packets; give one of them", q.Line)
	case q != nil:
		n, err := m.p.count(q, "queue")
		if err != nil {
			return err
		}
		if n < 1 || n > maxQueue {
			return m.p.errorf(q, "queue: %d packets is not in 1 … %d", n, maxQueue)
		}
		*into = n
	case b != nil:
		var size int64
		if err := m.size("buffer", &size); err != nil {
			return err
		}
		if size < 1 || size > maxQueue*packet {
			return m.p.errorf(b, "buffer: %s is not in 1B … %s", clip(b.Value), FormatSize(maxQueue*packet))
		}
		*into = int((size + packet - 1) / packet)
	}
	return nil
}

// siteIndex reads the name of a site of g.
func (m *mapping) siteIndex(key string, g *Grid, into *int) error {
	n, err := m.need(key)
	if err != nil {
		return err
	}
	text, err := m.p.text(n, key)
	if err != nil {
		return err
	}
	var names []string
	for i, s := range g.Sites {
		if s.Name == text {
			*into = i
			return nil
		}
		names = append(names, s.Name)
	}
	near, _ := nearest(text, names)
	return m.p.errorf(n, "%s: unknown site %q; did you mean %s?", key, clip(text), near)
}

// list returns the entries of a sequence.
func (p *parser) list(n *yaml.Node, what string) ([]*yaml.Node, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, p.errorf(n, "%s is %s, not a list", what, describe(n))
	}
	return n.Content, nil
}

// maxText bounds a value in bytes, so that it can be quoted whole in an error.
const maxText = 100

// text returns a scalar as it is written. Names that YAML would read as numbers or truth
// values (a site called 12, or NO) stay what they are.
func (p *parser) text(n *yaml.Node, what string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", p.errorf(n, "%s is %s, not a value", what, describe(n))
	}
	if len(n.Value) > maxText {
		return "", p.errorf(n, "%s: %q is longer than %d bytes", what, clip(n.Value), maxText)
	}
	if err := jsonwalk.CheckText(n.Value); err != nil {
		return "", p.errorf(n, "%s: %v", what, err)
	}
	return n.Value, nil
}

// count reads a whole number without a unit.
func (p *parser) count(n *yaml.Node, what string) (int, error) {
	text, err := p.text(n, what)
	if err != nil {
		return 0, err
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, p.errorf(n, "%s: %q is not a whole number", what, clip(text))
	}
	return v, nil
}

// describe names a node for an error message.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias, which grid files do not have"
	case n.Tag == "!!null":
		return "empty"
	}
	return strconv.Quote(clip(n.Value))
}

// clip shortens what a stranger wrote before it goes into an error message.
func clip(s string) string { return jsonwalk.Clip(s, 60) }

// nearest returns the one of known that takes the fewest edits to become text, and whether
// it is text itself. known is not empty, but for the sites of a grid without any.
func nearest(text string, known []string) (near string, same bool) {
	text = clip(text)
	best := -1
	for _, k := range known {
		if k == text {
			return k, true
		}
		if d := distance(strings.ToLower(text), strings.ToLower(k)); best < 0 || d < best {
			near, best = k, d
		}
	}
	return near, false
}

// distance counts the bytes to insert, delete or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
