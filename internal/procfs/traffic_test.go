package procfs

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestParseTraffic(t *testing.T) {
	const io = "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nwrite_bytes: 7\n"
	if n, err := parseWritten(io); err != nil || n != 323929600 {
		t.Errorf("%d, %v", n, err)
	}
	const dev = "Inter-|   Receive    |  Transmit\n face |bytes packets\n    lo:    3193      29    0    0    0     0          0         0     11 29 0 0 0 0 0 0\n" +
		"stress0: 1 2 3 4 5 6 7 8 510 10 11 12 13 14 15 16\n"
	if n, err := parseSent(dev, "stress0"); err != nil || n != 510 {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "wchar: -1\n", "wchar\n", "stress0: 1\n", "stress0: 1 2 3 4 5 6 7 8 x\n"} {
		if n, err := parseWritten(bad); err == nil {
			t.Errorf("%q: %d written", bad, n)
		}
		if n, err := parseSent(bad, "stress0"); err == nil {
			t.Errorf("%q: %d sent", bad, n)
		}
	}
}

// TestWritten: Written counts the written bytes of this process, and returns 0 for a missing process.
func TestWritten(t *testing.T) {
	before, err := Written(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.DevNull, make([]byte, 12345), 0); err != nil {
		t.Fatal(err)
	}
	if after, err := Written(os.Getpid()); err != nil || after < before+12345 {
		t.Errorf("%d, %v; want %d or more", after, err, before+12345)
	}
	if _, err := Sent(os.Getpid(), "lo"); err != nil {
		t.Error(err)
	}
	if _, err := Written(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want ErrNotExist", err)
	}
}

func FuzzParseTraffic(f *testing.F) {
	f.Add("wchar: 1\n", "lo: 1 2 3 4 5 6 7 8 9\n")
	f.Fuzz(func(t *testing.T, io, dev string) {
		if _, err := parseWritten(io); err == nil && io == "" {
			t.Error("nothing is no count")
		}
		if _, err := parseSent(dev, "lo"); err == nil && dev == "" {
			t.Error("nothing is no count")
		}
	})
}
