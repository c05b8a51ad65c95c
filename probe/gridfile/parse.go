package gridfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/gridagent/gridagent/internal/jsonwalk"
	"github.com/gridagent/gridagent/probe/netmap"
)

// A ParseError says what is wrong with a grid file, and where.
type ParseError = jsonwalk.Error

// maxHuman bounds a file of the human form in bytes: nobody writes more by hand.
const maxHuman = 1 << 20

// Parse reads a grid file in either form; name stands in the errors, which are all a
// [*ParseError]. A file that begins with a brace and holds "bandwidth_mbps" or "latency_s"
// is the matrix form, see [netmap.ParseMatrix]; the age of its estimates is ignored.
//
// The human form is strict: unknown and repeated keys, numbers without a unit, and values
// out of range are refused. The grid that it returns passes [Grid.Check].
func Parse(name string, data []byte) (*Grid, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // some editors mark UTF-8 so
	if isMatrix(data) {
		s, err := netmap.ParseMatrix(data, time.Time{})
		if err != nil {
			if fe, ok := errors.AsType[*netmap.FormatError](err); ok {
				fe.File = name
			}
			return nil, err
		}
		return &Grid{matrix: s}, nil
	}
	p := &parser{file: name, lines: map[place]int{}}
	if len(data) > maxHuman {
		return nil, p.fail(1, "%d bytes, more than %d", len(data), maxHuman)
	}
	g, err := p.parse(data)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func isMatrix(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) &&
		(bytes.Contains(data, []byte(`"bandwidth_mbps"`)) || bytes.Contains(data, []byte(`"latency_s"`)))
}

// A parser turns the YAML nodes of the human form into a Grid.
type parser struct {
	file  string
	lines map[place]int // where each value stands, for the faults that only Check sees
}

func (p *parser) parse(data []byte) (*Grid, error) {
	root, err := p.document(data)
	if err != nil {
		return nil, err
	}
	top, err := p.mapping(root, "the file", "sites", "wan")
	if err != nil {
		return nil, err
	}
	g := &Grid{}
	sites, err := top.need("sites")
	if err != nil {
		return nil, err
	}
	p.lines[place{"sites", -1, ""}], p.lines[place{"wan", -1, ""}] = sites.Line, sites.Line
	entries, err := p.list(sites, "sites")
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, p.errorf(sites, "sites is empty")
	}
	for i, n := range entries {
		s, err := p.site(n, i)
		if err != nil {
			return nil, err
		}
		g.Sites = append(g.Sites, s)
	}
	if wan := top.get("wan"); wan != nil {
		p.lines[place{"wan", -1, ""}] = wan.Line
		entries, err := p.list(wan, "wan")
		if err != nil {
			return nil, err
		}
		for i, n := range entries {
			if err := p.link(g, n, i); err != nil {
				return nil, err
			}
		}
	}
	if at, err := g.check(); err != nil {
		return nil, p.fail(p.lineOf(at), "%v", err)
	}
	return g, nil
}

// lineOf returns the line of a place, or of what encloses it.
func (p *parser) lineOf(at place) int {
	for _, q := range []place{at, {at.section, at.index, ""}, {at.section, -1, ""}} {
		if line, ok := p.lines[q]; ok {
			return line
		}
	}
	return 1
}

// document returns the root node of the only document in data.
func (p *parser) document(data []byte) (*yaml.Node, error) {
	if err := p.printable(data); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		// JSON may be indented by tabs, YAML may not; inside JSON texts they cannot stand.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if err == io.EOF {
			return nil, p.fail(1, "the file is empty")
		}
		return nil, p.syntaxError(data, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, p.errorf(&more, "a second document in the file")
	} else if err != io.EOF {
		return nil, p.syntaxError(data, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, p.fail(1, "the file is empty")
	}
	return doc.Content[0], nil
}

// printable refuses bytes that are no text. The YAML reader does too, but without a line.
func (p *parser) printable(data []byte) error {
	line := 1
	for i, r := range string(data) {
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte(string(r))):
			return p.fail(line, "byte %#02x is not UTF-8", data[i])
		case unicode.IsControl(r) && r != '\t' && r != '\r':
			return p.fail(line, "control character %q", r)
		}
	}
	return nil
}

var (
	yamlError = regexp.MustCompile(`(?s)^yaml: (?:line ([0-9]+): )?(.*)$`)
	// yaml.v3 counts lines from 1 in the errors of its scanner and from 0 in those of its
	// parser, which are these.
	fromZero  = regexp.MustCompile(`^did not find expected (key|node|'-'|','|<)`)
	lineBreak = regexp.MustCompile(`\r\n|[\r\n\x{2028}\x{2029}]`) // of YAML
)

func (p *parser) syntaxError(data []byte, err error) error {
	m := yamlError.FindStringSubmatch(err.Error())
	if m == nil {
		return p.fail(1, "%v", err)
	}
	line, convErr := strconv.Atoi(m[1])
	if fromZero.MatchString(m[2]) {
		line++
	}
	if convErr != nil { // on the first line it gives no number
		line = 1
	}
	// At the end of the file it stands on a line behind the last.
	last := 1 + len(lineBreak.FindAll(bytes.TrimRight(data, "\r\n"), -1))
	return p.fail(min(line, last), "%s", m[2])
}

// maxReason bounds the reason of an error in bytes: the YAML reader quotes names whole.
const maxReason = 500

func (p *parser) fail(line int, format string, args ...any) error {
	return &ParseError{File: p.file, Line: line, Reason: jsonwalk.Clip(fmt.Sprintf(format, args...), maxReason)}
}

func (p *parser) errorf(n *yaml.Node, format string, args ...any) error {
	return p.fail(max(1, n.Line), format, args...)
}

func (p *parser) site(n *yaml.Node, i int) (Site, error) {
	var s Site
	m, err := p.mapping(n, fmt.Sprintf("sites[%d]", i), "name", "hosts", "lan")
	if err != nil {
		return s, err
	}
	m.mark(place{"sites", i, ""})
	name, err := m.need("name")
	if err != nil {
		return s, err
	}
	if s.Name, err = p.text(name, "name"); err != nil {
		return s, err
	}
	hosts, err := m.need("hosts")
	if err != nil {
		return s, err
	}
	if s.Hosts, err = p.count(hosts, "hosts"); err != nil {
		return s, err
	}
	if m.get("lan") == nil {
		if s.Hosts > 1 {
			return s, p.errorf(n, "lan is missing; %s has %d hosts", s.Name, s.Hosts)
		}
		return s, nil
	}
	s.LAN, err = p.lan(m.get("lan"))
	return s, err
}

func (p *parser) lan(n *yaml.Node) (LAN, error) {
	var l LAN
	m, err := p.mapping(n, "lan", "bandwidth", "latency", "queue", "buffer", "jitter")
	if err != nil {
		return l, err
	}
	return l, firstError(
		m.rate("bandwidth", true, &l.Bandwidth),
		m.delay("latency", true, &l.Latency),
		m.delay("jitter", false, &l.Jitter),
		m.queue(&l.Queue),
	)
}

// link reads entry i of wan and adds the link, or with `both: true` the two links, to g.
func (p *parser) link(g *Grid, n *yaml.Node, i int) error {
	m, err := p.mapping(n, fmt.Sprintf("wan[%d]", i), "from", "to", "bandwidth", "latency", "both",
		"capacity", "loss", "queue", "buffer", "jitter", "burst", "peak", "held_by")
	if err != nil {
		return err
	}
	var l Link
	both := false
	if err := firstError(
		m.siteIndex("from", g, &l.From),
		m.siteIndex("to", g, &l.To),
		m.rate("bandwidth", true, &l.Bandwidth),
		m.delay("latency", true, &l.Latency),
		m.flag("both", &both),
		m.rate("capacity", false, &l.Capacity),
		m.share("loss", &l.Loss),
		m.queue(&l.Queue),
		m.delay("jitter", false, &l.Jitter),
		m.size("burst", &l.Burst),
		m.rate("peak", false, &l.Peak),
	); err != nil {
		return err
	}
	if l.Capacity == 0 {
		l.Capacity = l.Bandwidth
	}
	if h := m.get("held_by"); h != nil {
		text, err := p.text(h, "held_by")
		if err != nil {
			return err
		}
		if l.HeldBy = Holder(text); text == "" {
			return p.errorf(h, "held_by: empty; write %s or %s", HeldByCeiling, HeldByLoss)
		}
		if l.Capacity == l.Bandwidth {
			return p.errorf(h, "held_by: one flow gets all of the capacity; give a larger capacity")
		}
	}
	m.mark(place{"wan", len(g.WAN), ""})
	g.WAN = append(g.WAN, l)
	if both {
		m.mark(place{"wan", len(g.WAN), ""})
		l.From, l.To = l.To, l.From
		g.WAN = append(g.WAN, l)
	}
	return nil
}
