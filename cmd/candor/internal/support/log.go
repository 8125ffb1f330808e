package support

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the log in an archive.
const (
	logLines = "2000"
	maxLog   = 4 << 20 // bytes
	logLimit = 10 * time.Second
)

// ReadLog returns the last 4 MiB of a file with the log of candor nri. Without a file, it returns the end of the unit's log in the journal
// of systemd. The text begins at the start of a line. The error is a single line.
func ReadLog(ctx context.Context, file string) ([]byte, error) {
	if file != "" {
		return readEnd(file, maxLog)
	}
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, errors.New("no journalctl: pass the log of candor nri with --log FILE")
	}
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	out := tail{limit: maxLog}
	cmd := exec.CommandContext(ctx, path, "--unit=candor-nri", "--lines="+logLines, "--output=cat", "--no-pager", "--quiet")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("journalctl: %w", err)
	}
	text := out.text()
	if len(text) == 0 {
		return nil, errors.New("the journal has no lines of the unit candor-nri")
	}
	return text, nil
}

// readEnd returns the last bytes of a plain file, at most limit.
func readEnd(name string, limit int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a plain file")}
	}
	end := tail{limit: limit}
	start := max(info.Size()-int64(limit)-1, 0) // a byte more than limit: if this byte exists, tail marks the text as cut
	_, err = io.Copy(&end, io.NewSectionReader(f, start, int64(limit)+1))
	return end.text(), err
}

// A tail keeps the last bytes that are written to it.
type tail struct {
	limit int // bytes
	last  []byte
	isCut bool // earlier bytes were dropped
}

// Write appends p to the last bytes. It retains at most twice the limit.
func (t *tail) Write(p []byte) (int, error) {
	if len(t.last)+len(p) > 2*t.limit {
		t.cut(max(t.limit-len(p), 0))
	}
	t.last = append(t.last, p[max(len(p)-2*t.limit, 0):]...)
	t.isCut = t.isCut || len(p) > 2*t.limit
	return len(p), nil
}

// cut drops the first bytes, so that the given number of bytes remains.
func (t *tail) cut(remaining int) {
	if drop := len(t.last) - remaining; drop > 0 {
		t.last = t.last[:copy(t.last, t.last[drop:])]
		t.isCut = true
	}
}

// text returns the last bytes. If earlier bytes were dropped, it begins after the first end of a line.
func (t *tail) text() []byte {
	t.cut(t.limit)
	if t.isCut {
		return t.last[bytes.IndexByte(t.last, '\n')+1:]
	}
	return t.last
}
