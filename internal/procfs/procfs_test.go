package procfs

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

const tail = " S 1 10 10 0 -1 4194560 42 0 0 0 0 0 0 0 20 0 1 0 777 0 0"

func TestParseStat(t *testing.T) {
	for _, name := range []string{"web", "a b", ") S 1", "((", ""} {
		s, err := parseStat([]byte("12 (" + name + ")" + tail))
		if err != nil || s != (Stat{'S', 4194560, 42, 777}) || s.IsKernelThread() {
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

const status = "Name:\ta\\nPPid:\t7\nState:\tS (sleeping)\nPPid:\t41\nThreads:\t12\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed:\t1\n"

func TestParseStatus(t *testing.T) {
	if s, err := parseStatus([]byte(status)); err != nil || s != (Status{41, 12, cpuset.Of(0, 1, 2, 3)}) {
		t.Errorf("%+v, %v", s, err)
	}
	possible := strings.Replace(status, "0-3", "2-1151", 1) // of a task that may run on all possible CPUs
	if s, err := parseStatus([]byte(possible)); err != nil || s.CPUs != cpuset.Range(2, 1023) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, change := range [][2]string{{"Threads:\t12", "Threads:\t0"}, {"Threads:\t12", "Threads:\tmany"}, {"Threads:\t12\n", ""},
		{"PPid:\t41", "PPid:\t"}, {"0-3", "3-0"}} {
		if s, err := parseStatus([]byte(strings.Replace(status, change[0], change[1], 1))); err == nil {
			t.Errorf("%q for %q: %+v", change[1], change[0], s)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(status))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseStatus(text); (err == nil) != (s.Threads > 0) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	})
}

func TestReadStatus(t *testing.T) {
	self, err := ReadStatus("/proc/self")
	if err != nil || self.Parent != os.Getppid() || self.CPUs.IsEmpty() {
		t.Errorf("%+v, %v", self, err)
	}
	if _, err := ReadStatus("/proc/1073741824"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such process: %v", err)
	}
}

func TestCommandLine(t *testing.T) {
	words, err := CommandLine("/proc/self")
	if err != nil || !slices.Equal(words, os.Args) {
		t.Errorf("%q, %v; want %q", words, err, os.Args)
	}
	if words, err := CommandLine("/proc/2"); err == nil && len(words) > 0 && os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Errorf("kthreadd: %q", words)
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

// TestReaped: the kernel writes no threads for a process that goes while it is read.
func TestReaped(t *testing.T) {
	if _, err := parseStatus([]byte(strings.Replace(status, "Threads:\t12", "Threads:\t0", 1))); !errors.Is(err, unix.ESRCH) {
		t.Errorf("%v, want ESRCH", err)
	}
}
