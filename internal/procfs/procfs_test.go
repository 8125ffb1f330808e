package procfs

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"unicode"
)

const tail = " S 1 10 10 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0"

func TestParseStat(t *testing.T) {
	for _, name := range []string{"web", "a b", ") S 1", "((", ""} {
		s, err := parseStat([]byte("12 (" + name + ")" + tail))
		if err != nil || s != (Stat{'S', 4194560, 777}) || s.IsKernelThread() {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	s, err := parseStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0"))
	if err != nil || !s.IsKernelThread() {
		t.Errorf("kthreadd: %+v, %v", s, err)
	}
	for _, bad := range []string{"", "1 (x) S", "1 (x) S 1 1 1 0 -1 flags 0 0 0 0 0 0 0 0 20 0 1 0 5 0"} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (x)" + tail))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStat(text); err == nil && !unicode.IsLetter(rune(s.State)) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func TestReadStat(t *testing.T) {
	self, err := ReadStat(os.Getpid())
	if err != nil || self.Start == 0 || self.IsKernelThread() {
		t.Errorf("%+v, %v", self, err)
	}
	if _, err := ReadStat(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: %v", err)
	}
}

func TestBootID(t *testing.T) {
	id, err := BootID()
	if again, _ := BootID(); err != nil || len(id) != 36 || id != again {
		t.Errorf("%q, %q, %v", id, again, err)
	}
}

func TestMounts(t *testing.T) {
	mounts, err := Mounts([]byte(`36 35 98:0 /a\040b /mnt\134 rw,noatime master:1 - ext3 /dev/root rw` + "\n"))
	if err != nil || len(mounts) != 1 || mounts[0].Root != "/a b" || mounts[0].Mountpoint != `/mnt\` {
		t.Errorf("%+v, %v", mounts, err)
	}
	if mounts, err := Mounts([]byte("36 35\n")); err == nil {
		t.Errorf("half a line: %+v", mounts)
	}
}
