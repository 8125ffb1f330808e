package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An object is a JSON object. Candor reads and changes some of its fields and keeps the others as they are written.
type object map[string]json.RawMessage

// parseObject parses a single JSON object.
func parseObject(text []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not a JSON object: text after its end")
	}
	if o == nil {
		return nil, errors.New("not a JSON object: null")
	}
	return o, nil
}

// get reads a field into a value; a missing or null field does not change the value.
func (o object) get(key string, into any) error {
	raw, ok := o[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// inner returns the object in a field, or an empty object if the field is missing or null.
func (o object) inner(key string) (object, error) {
	in := object{}
	if err := o.get(key, &in); err != nil {
		return nil, err
	}
	if in == nil {
		in = object{}
	}
	return in, nil
}

// set gives a field a value.
func (o object) set(key string, value any) {
	raw, err := encode(value)
	if err != nil {
		panic(err) // plain data always encodes
	}
	o[key] = raw
}

// encode encodes a value as JSON. It does not escape <, > and &, which matter only in HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
