package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A jsonList reads the items of a Kubernetes List, one after another.
type jsonList struct {
	file  string
	lines *lineCounter
	in    *json.Decoder
}

// A jsonFault is an error after which the rest of the file cannot be read.
type jsonFault struct{ *SyntaxError }

func (f *jsonFault) Unwrap() error { return f.SyntaxError }

func newJSONList(file string, in io.Reader) *jsonList {
	lines := &lineCounter{in: in}
	return &jsonList{file: file, lines: lines, in: json.NewDecoder(lines)}
}

// each calls the function item for each item of the list. The function must decode exactly one value.
func (l *jsonList) each(item func() error) error {
	if err := l.delimiter('{'); err != nil {
		return err
	}
	for l.in.More() {
		key, err := l.in.Token()
		if err != nil {
			return l.fault(err)
		}
		if key != "items" {
			var other json.RawMessage
			if err := l.decode(&other); err != nil {
				return err
			}
			continue
		}
		if err := l.delimiter('['); err != nil {
			return err
		}
		for l.in.More() {
			if err := item(); err != nil {
				return err
			}
			l.lines.at(l.in.InputOffset()) // releases the offsets of passed lines
		}
		return l.delimiter(']')
	}
	return l.fault(errors.New("no items: must be the output of kubectl get … -o json"))
}

// delimiter reads a bracket or brace.
func (l *jsonList) delimiter(want json.Delim) error {
	token, err := l.in.Token()
	if err == nil && token != want {
		err = fmt.Errorf("%v instead of %v: must be the output of kubectl get … -o json", token, want)
	}
	if err != nil {
		return l.fault(err)
	}
	return nil
}

// decode decodes the next value. After a value with a wrong type, the next items can still be read.
func (l *jsonList) decode(v any) error {
	err := l.in.Decode(v)
	var wrongType *json.UnmarshalTypeError
	var wrongTime *time.ParseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType), errors.As(err, &wrongTime):
		return l.itemError("type", "%v", err)
	default:
		return l.fault(err)
	}
}

// itemError returns an error with the line on which the last decoded item ends.
func (l *jsonList) itemError(what, format string, args ...any) error {
	return &SyntaxError{l.file, l.lines.at(l.in.InputOffset()), what, fmt.Sprintf(format, args...)}
}

// fault converts an error of the decoder to a jsonFault with the line of the error.
func (l *jsonList) fault(err error) error {
	what, offset := "not JSON", l.in.InputOffset()
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = max(offset, syntax.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		what, err = "truncated", errors.New("the file breaks off")
	}
	return &jsonFault{&SyntaxError{l.file, l.lines.at(offset), what, err.Error()}}
}

// A lineCounter maps offsets in a file to lines. It stores only the line ends after the last requested offset.
type lineCounter struct {
	in     io.Reader
	breaks []int64 // offsets of line ends after the last requested offset
	offset int64
	line   int64 // number of line ends before the last requested offset
}

// Read implements io.Reader.
func (c *lineCounter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	for from := 0; ; {
		i := bytes.IndexByte(p[from:n], '\n')
		if i < 0 {
			break
		}
		c.breaks = append(c.breaks, c.offset+int64(from+i))
		from += i + 1
	}
	c.offset += int64(n)
	return n, err
}

// at returns the line of an offset, from 1. The offset must not be lower than in the previous call.
func (c *lineCounter) at(offset int64) int64 {
	passed := 0
	for passed < len(c.breaks) && c.breaks[passed] < offset {
		passed++
	}
	c.line += int64(passed)
	c.breaks = append(c.breaks[:0], c.breaks[passed:]...)
	return c.line + 1
}
