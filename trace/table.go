package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// Sizes in bytes.
const (
	bufferBytes = 256 << 10
	maxLine     = 1 << 20 // maximum length of a line
)

// A table reads a CSV file, which can be compressed, row by row. It does not allocate memory for each row.
type table struct {
	file   string
	line   int64    // of the current row, from 1
	fields [][]byte // of the current row; valid until the next row is read

	in       io.Reader
	close    func() error
	buf      []byte
	from, to int // buf[from:to] is the unread part
	ended    error
	whole    bool // a last line without a line break is an error, because the file is incomplete
}

// openTable opens a CSV file, and decompresses it if the name ends in .gz.
func openTable(path string) (*table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(path, ".gz") {
		return newTable(path, file, file.Close), nil
	}
	unzipped, err := gzip.NewReader(bufio.NewReaderSize(file, bufferBytes))
	if err != nil {
		file.Close()
		return nil, &SyntaxError{path, 0, "not a gzip file", err.Error()}
	}
	reading := newReadAhead(unzipped)
	return newTable(path, reading, func() error {
		reading.close()
		return file.Close()
	}), nil
}

// newTable returns a table that reads from in. file is the name in errors.
func newTable(file string, in io.Reader, close func() error) *table {
	return &table{file: file, in: in, close: close, buf: make([]byte, bufferBytes)}
}

// next reads the next row into fields, or returns io.EOF after the last row. It skips empty lines and lines that start with #.
func (t *table) next() error {
	for {
		line, err := t.readLine()
		if err != nil {
			return err
		}
		t.line++
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) > 0 && line[0] != '#' {
			return t.split(line)
		}
	}
}

// split splits a line into fields.
func (t *table) split(line []byte) error {
	t.fields = t.fields[:0]
	if bytes.IndexByte(line, '"') >= 0 {
		return t.splitQuoted(line)
	}
	from, at := 0, 0
	for ; at+8 <= len(line); at += 8 { // eight bytes at a time, because fields are short and a search for each comma would take longer
		for marks := commas(binary.LittleEndian.Uint64(line[at:])); marks != 0; marks &= marks - 1 {
			comma := at + bits.TrailingZeros64(marks)/8
			t.fields = append(t.fields, line[from:comma])
			from = comma + 1
		}
	}
	for ; at < len(line); at++ {
		if line[at] == ',' {
			t.fields = append(t.fields, line[from:at])
			from = at + 1
		}
	}
	t.fields = append(t.fields, line[from:])
	return nil
}

// commas returns a word in which the highest bit of a byte is set if the same byte of the parameter eight is a comma.
func commas(eight uint64) uint64 {
	const each, low = 0x0101010101010101, 0x7f * 0x0101010101010101
	eight ^= ',' * each // bytes with a comma are 0 now
	return ^((eight&low + low) | eight | low)
}

// splitQuoted splits a line with quotes, which spreadsheets write, and is slower than split. A quoted field must not contain a line break.
func (t *table) splitQuoted(line []byte) error {
	row, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return t.rowError("quotes that don't match", "%q", shorten(line))
	}
	for _, field := range row {
		t.fields = append(t.fields, []byte(field))
	}
	return nil
}

// readLine returns the next line without the line break.
func (t *table) readLine() ([]byte, error) {
	searched := 0
	for {
		if n := bytes.IndexByte(t.buf[t.from+searched:t.to], '\n'); n >= 0 {
			line := t.buf[t.from : t.from+searched+n]
			t.from += searched + n + 1
			return line, nil
		}
		searched = t.to - t.from
		if t.ended != nil {
			return t.lastLine()
		}
		if err := t.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads more bytes of the file into buf, after the unread part.
func (t *table) fill() error {
	copy(t.buf, t.buf[t.from:t.to])
	t.from, t.to = 0, t.to-t.from
	if t.to == len(t.buf) {
		if t.to >= maxLine {
			t.from, t.to, t.ended = 0, 0, io.EOF
			return &SyntaxError{t.file, t.line + 1, "no CSV file", fmt.Sprintf("a line of more than %d bytes", maxLine)}
		}
		t.buf = append(t.buf, make([]byte, len(t.buf))...)
	}
	n, err := t.in.Read(t.buf[t.to:])
	t.to += n
	t.ended = err
	return nil
}

// lastLine returns the unread rest at the end of the file, or an error if t.whole is set. The next call returns io.EOF.
func (t *table) lastLine() ([]byte, error) {
	rest := t.buf[t.from:t.to]
	switch {
	case t.ended != io.EOF:
		return nil, t.readError()
	case len(rest) == 0:
		return nil, io.EOF
	case t.whole:
		t.from = t.to
		return nil, &SyntaxError{t.file, t.line + 1, "truncated", "the file breaks off within a line"}
	}
	t.from = t.to
	return rest, nil
}

// readError returns the error of a file that cannot be read to its end. Afterwards the file counts as ended, so that lenient readers can
// continue.
func (t *table) readError() error {
	err := t.ended
	t.from, t.to, t.ended = 0, 0, io.EOF
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &SyntaxError{t.file, t.line + 1, "truncated", "the compressed file breaks off"}
	}
	return &SyntaxError{t.file, t.line + 1, "can't be read", err.Error()}
}

// checkFields returns an error if the number of fields of the row differs from the parameter.
func (t *table) checkFields(fields int) error {
	if len(t.fields) == fields {
		return nil
	}
	return t.rowError("number of fields", "%d: must be %d", len(t.fields), fields)
}

// columns reads the first row, which must have exactly these names. From then on, a last line without a line break is an error.
func (t *table) columns(names []string) error {
	t.whole = true
	if err := t.next(); err != nil && err != io.EOF {
		return err
	}
	if !t.isHeading(names) {
		return t.rowError("wrong columns", "must be %s", strings.Join(names, ","))
	}
	return nil
}

// isHeading reports whether the fields of the current row are these names.
func (t *table) isHeading(names []string) bool {
	return slices.EqualFunc(t.fields, names, func(a []byte, b string) bool { return string(a) == b })
}

// rowError returns an error about the current row.
func (t *table) rowError(what, format string, args ...any) error {
	return &SyntaxError{t.file, t.line, what, fmt.Sprintf(format, args...)}
}

// shorten cuts a long text to 60 bytes and "…".
func shorten(text []byte) string {
	const most = 60
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}

// place returns FILE:LINE of the current row.
func (t *table) place() string { return t.file + ":" + strconv.FormatInt(t.line, 10) }
