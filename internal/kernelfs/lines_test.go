package kernelfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// collect returns the lines for which LinesOf calls its function.
func collect(t *testing.T, text string) (lines []string) {
	t.Helper()
	err := LinesOf(strings.NewReader(text), 1<<30, func(line []byte) bool { lines = append(lines, string(line)); return true })
	if err != nil {
		t.Errorf("%.40q: %v", text, err)
	}
	return lines
}

func TestLinesOf(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"a\nb\n", []string{"a", "b"}},
		{"\n\na", []string{"", "", "a"}},
		{long + "\nb\n", []string{long, "b"}},
		{"a\n" + long + "x\nb\n", []string{"a", "b"}},
		{long + long + long + "\nb", []string{"b"}},
		{"a\n" + long + "x", []string{"a"}},
	} {
		if got := collect(t, test.text); !slices.Equal(got, test.want) {
			t.Errorf("%.40q of %d bytes: got %d lines, want %d", test.text, len(test.text), len(got), len(test.want))
		}
	}
}

// FuzzLinesOf: the lines equal those of bytes.Lines, for any sizes of the reads, if they are short enough.
func FuzzLinesOf(f *testing.F) {
	f.Add([]byte("a\n\nb"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want, got []string
		for line := range bytes.Lines(text) {
			want = append(want, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
		visit := func(line []byte) bool { got = append(got, string(line)); return true }
		if err := LinesOf(iotest.OneByteReader(bytes.NewReader(text)), int64(len(text)), visit); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	})
}

func TestLinesStops(t *testing.T) {
	count := 0
	if err := Lines("/proc/self/status", 1<<20, func([]byte) bool { count++; return false }); err != nil || count != 1 {
		t.Errorf("%d lines, %v; want 1", count, err)
	}
}

// TestBounds: a file of 6 MB is refused or read in part, and takes little memory.
func TestBounds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "long")
	line := []byte(strings.Repeat("y", 8000) + "\n")
	if err := os.WriteFile(name, bytes.Repeat(line, 800), 0o600); err != nil {
		t.Fatal(err)
	}
	count := 0
	each := func([]byte) bool { count++; return true }
	Lines(name, MaxSize, each) // fills the pool of buffers
	count = 0
	before := allocated()
	if err := Lines(name, MaxSize, each); !errors.Is(err, ErrTooLong) || count < 120 || count > 150 {
		t.Errorf("Lines: %d lines, %v; want the first 131 and ErrTooLong", count, err)
	}
	if used := allocated() - before; used > 256<<10 {
		t.Errorf("Lines allocates %d bytes", used)
	}
	if text, err := Read(name); !errors.Is(err, ErrTooLong) || text != nil {
		t.Errorf("Read: %d bytes, %v; want ErrTooLong", len(text), err)
	}
	if text, isWhole, err := ReadStart(name, 10_000); len(text) != 10_000 || isWhole || err != nil {
		t.Errorf("ReadStart: %d bytes, whole %v, %v; want 10000", len(text), isWhole, err)
	}
	if text, isWhole, err := ReadStart(name, 100<<20); len(text) != 800*len(line) || !isWhole || err != nil {
		t.Errorf("ReadStart: %d bytes, whole %v, %v; want all", len(text), isWhole, err)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
