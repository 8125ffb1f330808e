package packing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// readJSON reads a list of objects. The keys of the first object are the heading.
func readJSON(text []byte, file string) (List, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	wrong := func(err error) (List, error) {
		at := d.InputOffset()
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = syntax.Offset
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the list breaks off")
		}
		at = min(at, int64(len(text)))
		return List{}, &SyntaxError{file, 1 + bytes.Count(text[:at], []byte("\n")), err}
	}
	if _, err := d.Token(); err != nil { // the bracket
		return wrong(err)
	}
	var b *builder
	for d.More() {
		keys, values, err := readObject(d)
		if err == nil && b == nil {
			b, err = newBuilder(keys)
		}
		if err == nil {
			err = b.addObject(keys, values)
		}
		if err != nil {
			return wrong(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return wrong(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return wrong(errors.New("something behind the list"))
	}
	if b == nil {
		return wrong(errors.New("an empty list"))
	}
	return b.finish(file, 1)
}

// addObject adds an object, which must have the keys of the first object.
func (b *builder) addObject(keys, values []string) error {
	fields := make([]string, len(b.heading))
	for i, name := range b.heading {
		at := slices.Index(keys, name)
		if at < 0 || len(keys) != len(b.heading) {
			return fmt.Errorf("keys %s: must be the keys of the first object, %s", joinNames(keys), joinNames(b.heading))
		}
		fields[i] = values[at]
	}
	return b.add(fields)
}

// readObject reads an object of strings and numbers.
func readObject(d *json.Decoder) (keys, values []string, err error) {
	if start, err := d.Token(); err != nil {
		return nil, nil, err
	} else if start != json.Delim('{') {
		return nil, nil, fmt.Errorf("%v: must be an object", start)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		name := key.(string) // the decoder returns a string for every key
		if slices.Contains(keys, name) {
			return nil, nil, fmt.Errorf("key %q twice", name)
		}
		value, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		text, isText := value.(string)
		if number, isNumber := value.(json.Number); isNumber {
			text, isText = number.String(), true
		}
		if !isText {
			return nil, nil, fmt.Errorf("%q is %v: must be a string or a number", name, value)
		}
		keys, values = append(keys, name), append(values, text)
	}
	_, err = d.Token()
	return keys, values, err
}
