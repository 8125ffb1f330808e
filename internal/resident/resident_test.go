package resident

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A program that is trimmed has less of its file in memory, and goes on.
func TestTrim(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc/self/exe", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		t.Skip("the test's file is in memory itself, and is counted apart")
	}
	before := files(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := files(t); after >= before {
		t.Errorf("%d bytes of files in memory, before %d", after, before)
	}
}

func files(t *testing.T) int {
	t.Helper()
	size, err := Files()
	if err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	return size
}
