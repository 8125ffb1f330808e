package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/candor-project/candor/cpuset"
)

const (
	// maxFile exceeds the size of every kernel file that the package reads. A mask of 8192 CPUs has 2.3 KB, and a command line has at most
	// 4 KB on most architectures.
	maxFile = 64 << 10
	// maxEntries is the maximum number of entries of a directory, enough for 8192 CPUs and the files of their
	// drivers.
	maxEntries = 16 << 10
)

// A fileReader reads small kernel files through a shared buffer. A missing file is not an error, because the set of
// files depends on the kernel.
type fileReader struct {
	fsys fs.FS
	buf  []byte // valid until the next read
}

// read returns the content of a file without surrounding space, and reports whether the file exists. The content is
// valid until the next read.
func (t *fileReader) read(name string) (text []byte, ok bool, err error) {
	if t.buf == nil {
		t.buf = make([]byte, maxFile+1)
	}
	f, err := t.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err // a *PathError, which names the file
	}
	defer f.Close()
	n := 0
	for n < len(t.buf) {
		more, err := f.Read(t.buf[n:])
		n += more
		if err == io.EOF {
			return trim(t.buf[:n]), true, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil, false, fmt.Errorf("%s: longer than %d bytes, not a kernel's file", name, maxFile)
}

// trim removes the space around the content of a file. Linux 5.15 wrote a NUL after the newline of CPU
// lists and masks (bin attributes of cpumap_print_*).
func trim(text []byte) []byte {
	return bytes.TrimSpace(bytes.TrimRight(text, "\x00"))
}

// readSet reads a set of CPUs from the mask file or, if this file is missing, from the list file. The mask is older and
// more reliable: some recorded copies of sysfs have wrong lists.
func (t *fileReader) readSet(mask, list string) (s cpuset.Set, ok bool, err error) {
	text, ok, err := t.read(mask)
	if err != nil {
		return s, false, err
	}
	if ok {
		if s, err = parseMask(text); err != nil {
			return s, false, fmt.Errorf("%s: %w", mask, err)
		}
		return s, true, nil
	}
	return t.readList(list)
}

// readList reads a set of CPUs or nodes from a list file. It drops ids that a set cannot contain; the caller returns an
// error if such a CPU is online.
func (t *fileReader) readList(name string) (s cpuset.Set, ok bool, err error) {
	text, ok, err := t.read(name)
	if err != nil || !ok {
		return s, false, err
	}
	if s, err = cpuset.ParsePossible(string(text)); err != nil {
		return s, false, fmt.Errorf("%s: %w", name, err)
	}
	return s, true, nil
}

// readNumber reads a file that contains a decimal number.
func (t *fileReader) readNumber(name string) (n int, ok bool, err error) {
	text, ok, err := t.read(name)
	if err != nil || !ok {
		return 0, false, err
	}
	if n, err = strconv.Atoi(string(text)); err != nil {
		return 0, false, fmt.Errorf("%s: %q is not a number", name, shorten(text))
	}
	return n, true, nil
}

// readOptionalNumber reads a positive number. It returns 0 if the file is missing, unreadable or not a number, because
// some cpufreq drivers return an error or "<unsupported>".
func (t *fileReader) readOptionalNumber(name string) int {
	n, ok, err := t.readNumber(name)
	if err != nil || !ok || n < 0 || n > 1<<31-1 {
		return 0
	}
	return n
}

// listNumbered returns, in ascending order, the numbers of the directory entries whose name is the prefix and a number,
// such as "cpu12". A missing directory has no entries.
func (t *fileReader) listNumbered(dir, prefix string) ([]int, error) {
	f, err := t.fsys.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, fmt.Errorf("%s: not a directory", dir)
	}
	entries, err := d.ReadDir(maxEntries)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(entries) == maxEntries {
		return nil, fmt.Errorf("%s: more than %d entries, not a kernel's directory", dir, maxEntries-1)
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.ParseUint(digits, 10, 31); ok && err == nil {
			numbers = append(numbers, int(n))
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil // because "cpu1" and "cpu01" have the same number
}

// shorten truncates s for error messages, because a hostile file can be long.
func shorten[T string | []byte](s T) string {
	const limit = 60
	if len(s) <= limit {
		return string(s)
	}
	return string(s[:limit]) + "…"
}
