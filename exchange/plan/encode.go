package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gridagent/gridagent/internal/jsonwalk"
)

// AppendJSON appends the JSON form of p (docs/formats.md, "Plan") to dst, one transfer
// a line so that an error of a reader can name it. It fails where p does not pass
// [Plan.Check] or holds a name with control characters: nothing is written that [Parse] would refuse.
func (p *Plan) AppendJSON(dst []byte) ([]byte, error) {
	if err := p.Check(); err != nil {
		return dst, fmt.Errorf("encode plan: %w", err)
	}
	if err := p.checkTexts(); err != nil {
		return dst, fmt.Errorf("encode plan: %w", err)
	}
	b := append(dst, `{"collective":`...)
	b = appendString(b, string(p.Collective))
	b = append(b, `,"algorithm":`...)
	b = appendString(b, p.Algorithm)
	b = append(b, `,"hosts":`...)
	b = appendList(b, p.Hosts, appendString)
	switch {
	case p.Matrix != nil:
		b = append(b, `,"sizes":`...)
		b = appendList(b, p.Matrix, func(b []byte, row []int64) []byte { return appendList(b, row, appendInt) })
	case p.Sizes != nil:
		b = append(b, `,"sizes":`...)
		b = appendList(b, p.Sizes, appendInt)
	default:
		b = append(b, `,"message_bytes":`...)
		b = appendInt(b, p.MessageBytes)
	}
	if len(p.Cuts) > 0 {
		b = append(b, `,"cuts":`...)
		b = appendList(b, p.Cuts, appendCut)
	}
	if p.Phases > 0 {
		b = append(b, `,"phases":`...)
		b = appendInt(b, int64(p.Phases))
	}
	if p.Sync != nil {
		claim, err := json.Marshal(p.Sync)
		if err != nil {
			return dst, fmt.Errorf("encode plan: %w", err)
		}
		b = append(append(b, `,"synchronisation":`...), claim...)
	}
	b = append(b, `,"makespan_s":`...)
	b = appendSeconds(b, p.Makespan)
	b = append(b, `,"bound_s":`...)
	b = appendSeconds(b, p.Bound)
	b = append(b, `,"transfers":[`...)
	for i := range p.Transfers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '\n')
		b = p.Transfers[i].appendJSON(b)
	}
	return append(b, "]}\n"...), nil
}

// checkTexts refuses what [Read] refuses in a text.
func (p *Plan) checkTexts() error {
	if err := jsonwalk.CheckText(p.Algorithm); err != nil {
		return flawed("algorithm", -1, "%v", err)
	}
	for i, h := range p.Hosts {
		if err := jsonwalk.CheckText(h); err != nil {
			return flawed("hosts", i, "%v", err)
		}
	}
	if p.Sync != nil {
		if err := jsonwalk.CheckText(p.Sync.Kind + p.Sync.Within); err != nil {
			return flawed("synchronisation", -1, "%v", err)
		}
	}
	for i := range p.Transfers {
		if err := jsonwalk.CheckText(p.Transfers[i].Sync); err != nil {
			return flawed("transfers", i, "sync: %v", err)
		}
	}
	return nil
}

// MarshalJSON returns p as [Plan.AppendJSON] does.
func (p *Plan) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

func (t *Transfer) appendJSON(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendInt(b, int64(t.ID))
	b = append(b, `,"src":`...)
	b = appendInt(b, int64(t.Src))
	b = append(b, `,"dst":`...)
	b = appendInt(b, int64(t.Dst))
	b = append(b, `,"blocks":`...)
	b = appendList(b, t.Blocks, func(b []byte, k Block) []byte {
		b = append(b, `{"origin":`...)
		b = appendInt(b, int64(k.Origin))
		b = append(b, `,"dest":`...)
		b = appendInt(b, int64(k.Dest))
		if k.Piece > 0 {
			b = append(b, `,"piece":`...)
			b = appendInt(b, int64(k.Piece))
		}
		return append(b, '}')
	})
	if t.Phase >= 0 {
		b = append(b, `,"phase":`...)
		b = appendInt(b, int64(t.Phase))
	}
	b = append(b, `,"after":`...)
	b = appendList(b, t.After, func(b []byte, a int) []byte { return appendInt(b, int64(a)) })
	if t.Sync != "" {
		b = append(b, `,"sync":`...)
		b = appendString(b, t.Sync)
	}
	b = append(b, `,"start":`...)
	b = appendSeconds(b, t.Start)
	b = append(b, `,"end":`...)
	b = appendSeconds(b, t.End)
	return append(b, '}')
}

func appendCut(b []byte, c Cut) []byte {
	b = append(b, `{"origin":`...)
	b = appendInt(b, int64(c.Origin))
	b = append(b, `,"dest":`...)
	b = appendInt(b, int64(c.Dest))
	b = append(b, `,"at":`...)
	return append(appendList(b, c.At, appendInt), '}')
}

func appendList[T any](b []byte, list []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, v)
	}
	return append(b, ']')
}

func appendInt(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

// appendSeconds writes the shortest digits that read back as the same number, without
// an exponent where a person would not want one.
func appendSeconds(b []byte, s float64) []byte {
	if s != 0 && math.Abs(s) < 1e-9 {
		return strconv.AppendFloat(b, s, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, s, 'f', -1, 64)
}

func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		return append(b, `""`...)
	}
	return append(b, q...)
}

// Equal reports whether p and q say the same: nil and empty lists are alike.
func (p *Plan) Equal(q *Plan) bool {
	return p.Collective == q.Collective && p.Algorithm == q.Algorithm && slices.Equal(p.Hosts, q.Hosts) &&
		p.MessageBytes == q.MessageBytes && slices.Equal(p.Sizes, q.Sizes) &&
		slices.EqualFunc(p.Matrix, q.Matrix, slices.Equal[[]int64]) &&
		slices.EqualFunc(p.Cuts, q.Cuts, func(c, d Cut) bool { return c.Origin == d.Origin && c.Dest == d.Dest && slices.Equal(c.At, d.At) }) &&
		p.Phases == q.Phases && (p.Sync == nil) == (q.Sync == nil) && (p.Sync == nil || *p.Sync == *q.Sync) && p.Makespan == q.Makespan && p.Bound == q.Bound &&
		slices.EqualFunc(p.Transfers, q.Transfers, Transfer.equal)
}

func (t Transfer) equal(u Transfer) bool {
	return t.ID == u.ID && t.Src == u.Src && t.Dst == u.Dst && slices.Equal(t.Blocks, u.Blocks) &&
		t.Phase == u.Phase && slices.Equal(t.After, u.After) && t.Sync == u.Sync && t.Start == u.Start && t.End == u.End
}
