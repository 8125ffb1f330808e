package resident

import (
	"bufio"
	"fmt"
	"os"
	"strings"
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
	before := rssFile(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := rssFile(t); after >= before {
		t.Errorf("%d KiB of files in memory, before %d", after, before)
	}
}

// rssFile is how much of files this process has in memory, in KiB.
func rssFile(t *testing.T) (kib int) {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "RssFile:"); ok {
			if _, err := fmt.Sscan(text, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kib == 0 {
		t.Skip("this kernel does not say")
	}
	return kib
}
