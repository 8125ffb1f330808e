package memtrim

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTrim: after a trim, less memory holds pages of files.
func TestTrim(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc/self/exe", &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		t.Skip("the test binary is on a file system in memory")
	}
	before := fileBytes(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := fileBytes(t); after >= before {
		t.Errorf("%d bytes of files in memory, before %d", after, before)
	}
}

// TestTrimKeepsWrittenPages: a private page was written and then made read-only, like relocated data. Trim
// keeps it, because the file does not have its content.
func TestTrimKeepsWrittenPages(t *testing.T) {
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	linked, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(linked)
	was := linked[0]
	linked[0]++
	if err := unix.Mprotect(linked, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if linked[0] != was+1 {
		t.Errorf("got %d, want the written %d", linked[0], was+1)
	}
}

// fileBytes returns the memory that holds pages of files, in bytes.
func fileBytes(t *testing.T) int {
	t.Helper()
	size, err := Files()
	if err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	return size
}
