// Package planio is the interface of candor plan: it reads operations, a JSON object per line, applies them to a node of package
// hybrid, and writes a result for each operation. It makes no decision about CPUs and uses only the streams of its caller.
package planio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxLine is the maximum length of a line in bytes, without the newline.
const MaxLine = 1 << 20

// A LineError is the error of an invalid line. The operations before this line were applied.
type LineError struct {
	Line   int // line number, from 1
	Reason string
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// fieldsOf lists the fields of each operation besides "op".
var fieldsOf = map[string][]string{
	"allocate": {"id", "cpu", "class", "request", "topology", "policy"},
	"release":  {"id"},
	"resize":   {"id", "cpu", "request"},
}

// An Op is an operation, as parsed from a line. Its values have not been checked yet.
type Op struct {
	Name string // allocate, release or resize
	ID   string

	values map[string]string // the other fields
	bad    error             // error of a value that is not a string, or nil
}

// A Reader reads operations. Blank lines are skipped.
type Reader struct {
	buf  *bufio.Reader
	line int
}

// NewReader returns a Reader of r. Its method Next returns an operation as soon as the line has arrived.
func NewReader(r io.Reader) *Reader {
	return &Reader{buf: bufio.NewReaderSize(r, MaxLine+1)} // a line and its newline
}

// Next returns the next operation. Errors: io.EOF after the last line, a *LineError for an invalid line, and the error of the
// stream.
func (r *Reader) Next() (Op, error) {
	for {
		text, err := r.buf.ReadSlice('\n')
		r.line++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return Op{}, &LineError{r.line, fmt.Sprintf("longer than %d bytes", MaxLine)}
		case err == io.EOF && len(text) > 0: // the last line, without a newline
		case err != nil:
			return Op{}, err
		}
		line := bytes.Trim(text, " \t\r\n")
		if len(line) == 0 {
			continue
		}
		op, err := parseLine(line)
		if err != nil {
			return Op{}, &LineError{r.line, err.Error()}
		}
		return op, nil
	}
}

// parseLine parses an operation.
func parseLine(line []byte) (Op, error) {
	fields, err := parseObject(line)
	if err != nil {
		return Op{}, err
	}
	op := Op{values: map[string]string{}}
	raw, ok := fields["op"]
	if !ok {
		return Op{}, fmt.Errorf(`no "op": must be %s`, opNames)
	}
	if name, isString := parseString(raw); isString {
		op.Name = name
	}
	known, ok := fieldsOf[op.Name]
	if !ok {
		return Op{}, fmt.Errorf("unknown op %s: must be %s", shorten(string(raw)), opNames)
	}
	delete(fields, "op")
	// A fixed order gives the same error for a line with several mistakes.
	for _, name := range sortedKeys(fields) {
		if !slices.Contains(known, name) {
			return Op{}, fmt.Errorf("unknown field %q: %s has op, %s", shorten(name), op.Name, strings.Join(known, ", "))
		}
		value, isString := parseString(fields[name])
		switch {
		case !isString:
			op.bad = fmt.Errorf("%s wants a string, got %s", name, shorten(string(fields[name])))
		case name == "id":
			op.ID = value
		default:
			op.values[name] = value
		}
	}
	return op, nil
}

const opNames = `"allocate", "release" or "resize"`

// parseObject parses a line with a single JSON object and unique keys. It does not use Unmarshal into a struct, which would accept
// duplicate keys and keys in another case.
func parseObject(line []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not valid UTF-8")
	}
	if line[0] != '{' {
		return nil, fmt.Errorf("must be a JSON object, got %s", shorten(string(line)))
	}
	// Check the whole line first, because the error of Unmarshal contains the offset.
	if !json.Valid(line) {
		var content json.RawMessage
		return nil, fmt.Errorf("not a JSON object: %w", json.Unmarshal(line, &content))
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string) // the line is valid JSON
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("duplicate field %q", shorten(name))
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		fields[name] = raw
	}
	return fields, nil
}

// parseString decodes a JSON string. ok is false for another JSON value.
func parseString(raw json.RawMessage) (s string, ok bool) {
	if raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func sortedKeys(fields map[string]json.RawMessage) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// shorten cuts a text of the input to a length that keeps error messages readable.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
