package kernelfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"sync"
)

// MaxLine is the maximum length of a line in bytes, without the newline. Lines and LinesOf skip longer lines. The longest useful
// lines are in mount tables: two paths of up to PATH_MAX bytes, and the options of the mount.
const MaxLine = 32 << 10

// buffers are the buffers of LinesOf. Their reuse matters when a caller reads the process lists of hundreds of cgroups.
var buffers = sync.Pool{New: func() any { return new([MaxLine + 1]byte) }}

// Lines calls visit for each line of a file, without its newline, until visit returns false. It reads the file piece
// by piece, in constant memory, and stops with ErrTooLong after limit bytes. It skips lines longer than MaxLine.
// The line is valid until visit returns. The error is a *fs.PathError.
func Lines(name string, limit int64, visit func(line []byte) (more bool)) error {
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.close()
	err = LinesOf(reader{f}, limit, visit)
	if errors.Is(err, ErrTooLong) {
		err = &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return err
}

// reader makes a file an io.Reader.
type reader struct{ file }

func (r reader) Read(into []byte) (int, error) {
	n, err := r.read(into)
	if n == 0 && err == nil && len(into) > 0 {
		err = io.EOF
	}
	return n, err
}

// LinesOf calls visit for each line of an open file, as Lines does.
func LinesOf(in io.Reader, limit int64, visit func(line []byte) (more bool)) error {
	buffer := buffers.Get().(*[MaxLine + 1]byte)
	defer buffers.Put(buffer)
	filled, isSkipping := 0, false
	for read := int64(0); ; {
		if read > limit {
			return ErrTooLong
		}
		n, err := in.Read(buffer[filled:])
		read += int64(n)
		text := buffer[:filled+n]
		for {
			line, rest, isLine := bytes.Cut(text, []byte("\n"))
			if !isLine {
				break
			}
			if text = rest; isSkipping {
				isSkipping = false
			} else if !visit(line) {
				return nil
			}
		}
		if filled = copy(buffer[:], text); filled == len(buffer) {
			filled, isSkipping = 0, true
		}
		switch {
		case err == io.EOF && filled > 0 && !isSkipping:
			visit(buffer[:filled])
			return nil
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
