package kernelfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	for _, name := range []string{"/sys/devices/system/cpu/online", "/proc/self/cmdline", "/proc/cpuinfo"} {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(name)
		if name == "/proc/cpuinfo" { // frequencies change all the time
			cpu := []byte("processor\t:")
			if err != nil || bytes.Count(got, cpu) != bytes.Count(want, cpu) || !bytes.HasSuffix(got, want[len(want)-1:]) {
				t.Errorf("%s: %q, %v; want %q", name, got, err, want)
			}
		} else if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestLengths reads files whose lengths are near the first growth of the buffer, and a file for which the
// buffer grows often.
func TestLengths(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, length := range []int{0, 1, 511, 512, 513, 100_000} {
		want := bytes.Repeat([]byte("x"), length)
		if err := os.WriteFile(name, want, 0o600); err != nil {
			t.Fatal(err)
		}
		for kind, read := range map[string]func(string) ([]byte, error){"Read": Read, "ReadPiece": ReadPiece} {
			if got, err := read(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %d bytes: %d, %v", kind, length, len(got), err)
			}
		}
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	var at *fs.PathError
	if _, err := Read(dir); !errors.Is(err, unix.EISDIR) || !errors.As(err, &at) || at.Path != dir {
		t.Errorf("a folder: %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	for name, read := range map[string]func(string) ([]byte, error){"kernfile": Read, "os": os.ReadFile} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := read("/sys/devices/system/cpu/online"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
