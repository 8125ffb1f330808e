package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A jsonList reads the items of a Kubernetes List in their order.
type jsonList struct {
	file  string
	lines *lineCounter
	in    *json.Decoder
}

// A jsonFault makes the rest of a file unreadable.
type jsonFault struct{ *SyntaxError }

func (f *jsonFault) Unwrap() error { return f.SyntaxError }

func newJSONList(file string, in io.Reader) *jsonList {
	lines := &lineCounter{in: in}
	return &jsonList{file: file, lines: lines, in: json.NewDecoder(lines)}
}

// each calls item for each item of the list; item must decode exactly one value.
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
			l.lines.at(l.in.InputOffset()) // at drops the line ends before the offset
		}
		return l.delimiter(']')
	}
	return l.fault(errors.New("no items: must be the output of kubectl get … -o json"))
}

// delimiter reads a bracket.
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

// decode decodes the next value. A value of a wrong type is a fault of the item only.
func (l *jsonList) decode(v any) error {
	err := l.in.Decode(v)
	var wrongType *json.UnmarshalTypeError
	var wrongTime *time.ParseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType), errors.As(err, &wrongTime):
		return l.wrong("type", "%v", err)
	default:
		return l.fault(err)
	}
}

// wrong returns an error with the line on which the most recent item ends.
func (l *jsonList) wrong(what, format string, args ...any) error {
	return &SyntaxError{l.file, l.lines.at(l.in.InputOffset()), what, fmt.Sprintf(format, args...)}
}

// fault returns the error that ends the file.
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

// A lineCounter counts the lines that pass through Read. It converts increasing offsets to lines, because a JSON decoder reads ahead and
// knows only the offset of the current value.
type lineCounter struct {
	in     io.Reader
	breaks []int64 // offsets of the line ends after the last offset of at
	offset int64
	line   int64 // number of line ends before the last offset of at
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

// at returns the line of an offset, from 1. The offset must not be less than in the previous call.
func (c *lineCounter) at(offset int64) int64 {
	passed := 0
	for passed < len(c.breaks) && c.breaks[passed] < offset {
		passed++
	}
	c.line += int64(passed)
	c.breaks = append(c.breaks[:0], c.breaks[passed:]...)
	return c.line + 1
}
