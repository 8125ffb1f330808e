package memtrim

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTrim: after a trim, less of the program's file is in memory, and the program continues.
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

// TestTrimKeepsWhatWasLinked: pages of the program that were written before they became read-only stay in memory,
// because the file does not have their content.
func TestTrimKeepsWhatWasLinked(t *testing.T) {
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
		t.Errorf("it reads %d, %d was written", linked[0], was+1)
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
