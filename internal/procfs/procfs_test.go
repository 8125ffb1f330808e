package procfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/kernelfs"
)

const tail = " S 1 10 10 0 -1 4194560 42 0 0 0 5 2 0 0 20 0 1 0 777 0 0"

func TestParseStat(t *testing.T) {
	for _, name := range []string{"web", "a b", ") S 1", "((", ""} {
		s, err := parseStat([]byte("12 (" + name + ")" + tail))
		if err != nil || s != (Stat{name, 'S', 1, 4194560, 42, 777, 70 * ms}) || s.IsKernelThread() {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
	s, err := parseStat([]byte("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0"))
	if err != nil || !s.IsKernelThread() {
		t.Errorf("kthreadd: %+v, %v", s, err)
	}
	long, err := parseStat([]byte("1 (x) S 1 1 1 0 -1 0 0 0 0 0 18446744073709551615 18446744073709551615 0 0 20 0 1 0 5 0 0"))
	if err != nil || long.Time != 2*maxTicks*tick {
		t.Errorf("a CPU time of centuries: %+v, %v", long, err)
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
	mounts, err := mountsIn(`36 35 98:0 /a\040b /mnt\134 rw,noatime master:1 - ext3 /dev/root rw`+"\n36 35\n", 1<<20, "ext3")
	if err != nil || len(mounts) != 1 || mounts[0].Root != "/a b" || mounts[0].Mountpoint != `/mnt\` {
		t.Errorf("%+v, %v", mounts, err)
	}
	if mounts, err := mountsIn("36 35\n", 1<<20, "36"); err == nil {
		t.Errorf("half a line: %+v", mounts)
	}
	const short = "36 35 98:0 / /a rw - ext3 b rw\n"
	long := "36 35 98:0 / /" + strings.Repeat("x", kernelfs.MaxLine) + " rw - ext3 b rw\n"
	if mounts, err := mountsIn(short+long+short, 1<<20, "ext3"); err != nil || len(mounts) != 2 {
		t.Errorf("a line beyond the bound: %d mounts, %v; want 2", len(mounts), err)
	}
	mounts, err = mountsIn(strings.Repeat(short, 100_000), 1<<20, "ext3")
	if !errors.Is(err, kernelfs.ErrTooLong) || len(mounts) < 30_000 || len(mounts) > 40_000 {
		t.Errorf("a table beyond the bound: %d mounts, %v; want those before it and ErrTooLong", len(mounts), err)
	}
	found := false
	err = EachMount("/proc/self/mountinfo", MaxHostMounts, []string{" /proc "}, func(m *mountinfo.Info) { found = m.FSType == "proc" })
	if err != nil || !found {
		t.Errorf("/proc is mounted: %v, %v", found, err)
	}
}

func mountsIn(text string, limit int64, word string) (mounts []*mountinfo.Info, err error) {
	err = EachMountIn(strings.NewReader(text), limit, []string{word}, func(m *mountinfo.Info) { mounts = append(mounts, m) })
	return mounts, err
}

// TestLongStatus: a tenant with 65,536 supplementary groups has a status file of some hundred kilobytes.
func TestLongStatus(t *testing.T) {
	groups := "Groups:\t" + strings.Repeat("4294967294 ", 65_536) + "\n"
	text := strings.Replace(status, "Threads:", groups+"Threads:", 1)
	if s, err := parseStatus([]byte(text)); err != nil || s != (Status{41, 12, cpuset.Of(0, 1, 2, 3)}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestEffectiveUser(t *testing.T) {
	if user, err := EffectiveUser("/proc/self"); err != nil || user != os.Geteuid() {
		t.Errorf("%d, %v; want %d", user, err, os.Geteuid())
	}
	dir := t.TempDir()
	for text, want := range map[string]int{
		"Name:\tx\nUid:\t1000\t0\t5\t6\n": 0, "Name:\tUid:\\t0\nUid:\t0\t1000\t0\t0\n": 1000,
		"": -1, "Name:\tx\n": -1, "Uid:\t0\n": -1, "Uid:\t0\tx\t0\t0\n": -1,
	} {
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if user, err := EffectiveUser(dir); (err != nil) != (want < 0) || err == nil && user != want {
			t.Errorf("%q: %d, %v; want %d", text, user, err, want)
		}
	}
}

// TestLongCommandLine: a program can have a command line of megabytes.
func TestLongCommandLine(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		text  string
		words int
	}{
		{strings.Repeat("word\x00", 1<<20), MaxCommandLine / 5},
		{"a\x00" + strings.Repeat("x", 10<<20), 1},
		{strings.Repeat("x", 10<<20), 0},
		{strings.Repeat("x\x00", MaxCommandLine/2) + "y", MaxCommandLine / 2},
		{strings.Repeat("x\x00", MaxCommandLine/2), MaxCommandLine / 2},
	} {
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if words, err := CommandLine(dir); err != nil || len(words) != test.words {
			t.Errorf("%.20q of %d bytes: %d words, %v; want %d", test.text, len(test.text), len(words), err, test.words)
		}
	}
}

// TestReaped: the kernel reports 0 threads for a process that exits during the read. parseStatus then returns
// ESRCH.
func TestReaped(t *testing.T) {
	if _, err := parseStatus([]byte(strings.Replace(status, "Threads:\t12", "Threads:\t0", 1))); !errors.Is(err, unix.ESRCH) {
		t.Errorf("%v, want ESRCH", err)
	}
}

// TestEachMountOver: only mounts at a path or above it are visited, and visit stops the read.
func TestEachMountOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	text := ""
	for i, point := range []string{"/", "/sys", "/system", "/sys/devices", "/sys/devices/b", "/sys/fs", "/proc", "/sys/devices/a", "/sys/devices/a/b", `/sys\040`} {
		text += fmt.Sprintf("%d 1 0:5 / %s rw - tmpfs t rw\n", i+2, point)
	}
	if err := os.WriteFile(file, []byte(text+"9 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{10: "/ /sys /sys/devices /sys/devices/a", 2: "/ /sys"} {
		var got []string
		err := EachMountOver(file, 1<<20, []string{"/sys/devices/a"}, func(m *mountinfo.Info) bool {
			got = append(got, m.Mountpoint)
			return len(got) < most
		})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
