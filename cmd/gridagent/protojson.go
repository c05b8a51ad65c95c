package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// printProto prints a reply of the local API as JSON: snake_case names in the order of
// the .proto file, every field present. Unlike protobuf's own JSON form, 64-bit numbers
// are numbers: a script that compares bytes must not compare strings.
func (a *app) printProto(m proto.Message) error {
	var b bytes.Buffer
	if err := appendMessage(&b, m.ProtoReflect()); err != nil {
		return err
	}
	return a.printJSON(json.RawMessage(b.Bytes()))
}

func appendMessage(b *bytes.Buffer, m protoreflect.Message) error {
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		if t.GetSeconds() == 0 && t.GetNanos() == 0 {
			b.WriteString("null")
			return nil
		}
		return appendJSON(b, t.AsTime())
	}
	b.WriteByte('{')
	fields := m.Descriptor().Fields()
	for i, first := 0, true; i < fields.Len(); i++ {
		f := fields.Get(i)
		if f.ContainingOneof() != nil && !m.Has(f) {
			continue // only the chosen one of several exists
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if err := appendJSON(b, string(f.Name())); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := appendField(b, f, m); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func appendField(b *bytes.Buffer, f protoreflect.FieldDescriptor, m protoreflect.Message) error {
	if !f.IsList() {
		if f.Message() != nil && !m.Has(f) {
			b.WriteString("null")
			return nil
		}
		return appendValue(b, f, m.Get(f))
	}
	b.WriteByte('[')
	list := m.Get(f).List()
	for i := range list.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := appendValue(b, f, list.Get(i)); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func appendValue(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	if f.Message() != nil {
		return appendMessage(b, v.Message())
	}
	switch x := v.Interface().(type) {
	case []byte:
		return appendJSON(b, base64.StdEncoding.EncodeToString(x))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			b.WriteString("null") // JSON has neither
			return nil
		}
		return appendJSON(b, x)
	default:
		return appendJSON(b, x)
	}
}

func appendJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	return enc.Encode(v) // the newline at its end is white space to the indenter
}
