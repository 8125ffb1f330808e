package view

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cpuset"
)

// machineText returns the /proc/cpuinfo of a machine with n CPUs and long stanzas.
func machineText(n int) []byte {
	var b bytes.Buffer
	for cpu := range n {
		fmt.Fprintf(&b, "processor\t: %d\ncpu MHz\t\t: %d.000\nflags\t\t: %s\npower management:\n\n",
			cpu, 800+100*(cpu%17), strings.Repeat("avx512f ", 150))
	}
	return b.Bytes()
}

// write writes a view for a machine with the given /proc/cpuinfo.
func write(dir string, cpus cpuset.Set, host *cpuinfo) error {
	f, err := Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.write(cpus, host)
}

// content returns the text of online and the CPUs of cpuinfo in a view.
func content(t *testing.T, dir string) (online string, stanzas cpuset.Set) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "online"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.ReadFile(filepath.Join(dir, "cpuinfo"))
	if err != nil {
		t.Fatal(err)
	}
	stanzas, err = parseCPUInfoSet(info)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), stanzas
}

func TestWriteThisMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	mask := syscall.Umask(0o077)
	defer syscall.Umask(mask)
	if err := Write(dir, cpuset.Of(0)); err != nil {
		t.Fatal(err)
	}
	if online, stanzas := content(t, dir); online != "0\n" || stanzas != cpuset.Of(0) {
		t.Errorf("online is %q, cpuinfo has %v", online, stanzas)
	}
	for name, want := range map[string]os.FileMode{"": os.ModeDir | 0o755, "online": 0o644, "cpuinfo": 0o644} {
		stat, err := os.Stat(filepath.Join(dir, name))
		if err != nil || stat.Mode() != want {
			t.Errorf("%q: mode %v, want %v (%v)", name, stat.Mode(), want, err)
		}
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("after Remove: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("Remove of a missing view: %v", err)
	}
}

// machineInfoOf returns the parsed text of a /proc/cpuinfo.
func machineInfoOf(t *testing.T, text []byte) *cpuinfo {
	t.Helper()
	info, err := parseCPUInfo(text)
	if err != nil {
		t.Fatal(err)
	}
	return &info
}

// TestRewriteInPlace: a rewrite keeps the inodes, never shortens a file, and pads the files with newlines.
func TestRewriteInPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	host := machineInfoOf(t, machineText(128))
	inode := func(name string) (ino uint64, size int64) {
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &stat); err != nil {
			t.Fatal(err)
		}
		return stat.Ino, stat.Size
	}
	var inodes [2]uint64
	var longest [2]int64
	for i, list := range []string{"0-3,9", "0-3,100", "0-127", "5", "1,3,5,7", "5,7", "0-127"} {
		cpus := cpuset.MustParse(list)
		if err := write(dir, cpus, host); err != nil {
			t.Fatal(err)
		}
		online, stanzas := content(t, dir)
		if strings.TrimRight(online, "\n") != list || online[len(list)] != '\n' || stanzas != cpus {
			t.Errorf("view %s: online is %q, cpuinfo has %v", list, online, stanzas)
		}
		for n, name := range []string{"online", "cpuinfo"} {
			ino, size := inode(name)
			if i > 0 && (ino != inodes[n] || size < longest[n]) {
				t.Errorf("view %s: %s has inode %d of %d bytes, had %d of %d", list, name, ino, size, inodes[n], longest[n])
			}
			inodes[n], longest[n] = ino, size
		}
	}
}

// TestConcurrentReaders: while the CPUs of a view change, each read has the right count. A read of a single
// page (online) returns either content; a read of several pages (cpuinfo) can mix both.
func TestConcurrentReaders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		dir = fmt.Sprintf("/dev/shm/candor-view-test-%d", os.Getpid()) // a tmpfs like /run
	}
	host := machineInfoOf(t, machineText(64))
	views := []cpuset.Set{cpuset.MustParse("0-15,20"), cpuset.MustParse("4-19,63")}
	if err := write(dir, views[0], host); err != nil {
		t.Fatal(err)
	}
	defer Remove(dir)
	var stop atomic.Bool
	var readers sync.WaitGroup
	var reads, mixed atomic.Int64
	for range 2 {
		readers.Go(func() {
			for !stop.Load() {
				online, err := os.ReadFile(filepath.Join(dir, "online"))
				if set, e := parseOnline(online); e != nil || err != nil || set != views[0] && set != views[1] {
					t.Errorf("online reads as %q (%v, %v)", online, err, e)
				}
				text, err := os.ReadFile(filepath.Join(dir, "cpuinfo"))
				if n := strings.Count("\n"+string(text), "\nprocessor\t: "); n != 17 || err != nil {
					t.Errorf("cpuinfo has %d CPUs, want 17 (%v)", n, err)
				}
				if set, _ := parseCPUInfoSet(text); set != views[0] && set != views[1] {
					mixed.Add(1)
				}
				reads.Add(1)
			}
		})
	}
	writes := 0
	for ; writes < 2000 || reads.Load() < 2000; writes++ {
		if err := write(dir, views[writes%2], host); err != nil {
			t.Error(err)
			break
		}
	}
	stop.Store(true)
	readers.Wait()
	t.Logf("%d reads during %d rewrites; %d returned pages of both cpuinfo texts", reads.Load(), writes, mixed.Load())
}

func TestWriteRefuses(t *testing.T) {
	host := machineInfoOf(t, machineText(4))
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name  string
		plant func(dir string)
		want  string
	}{
		{"directory is a link", func(dir string) { must(os.Symlink(filepath.Dir(outside), dir)) }, "symbolic link: refused"},
		{"directory is a file", func(dir string) { must(os.WriteFile(dir, nil, 0o644)) }, "not a directory"},
		{"parent missing", func(dir string) { must(os.Remove(filepath.Dir(dir))) }, "no such file"},
		{"online is a link", func(dir string) {
			must(os.Mkdir(dir, 0o755))
			must(os.Symlink(outside, filepath.Join(dir, "online")))
		}, "online is a symbolic link: refused"},
		{"cpuinfo is a hard link", func(dir string) {
			must(os.Mkdir(dir, 0o755))
			must(os.Link(outside, filepath.Join(dir, "cpuinfo")))
		}, "cpuinfo is a hard link: refused"},
		{"cpuinfo is a pipe", func(dir string) {
			must(os.Mkdir(dir, 0o755))
			must(unix.Mkfifo(filepath.Join(dir, "cpuinfo"), 0o644))
		}, "cpuinfo is not a plain file: refused"},
		{"online of another user", func(dir string) {
			must(os.Mkdir(dir, 0o755))
			must(os.WriteFile(filepath.Join(dir, "online"), nil, 0o644))
			must(os.Chown(filepath.Join(dir, "online"), 1234, 1234))
		}, "belongs to user 1234"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if strings.Contains(test.name, "another user") && os.Geteuid() != 0 {
				t.Skip("needs root, to change the owner of a file")
			}
			dir := filepath.Join(t.TempDir(), "parent", "view")
			must(os.Mkdir(filepath.Dir(dir), 0o755))
			test.plant(dir)
			err := write(dir, cpuset.Of(1), host)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if text, _ := os.ReadFile(outside); string(text) != "precious" {
				t.Errorf("the linked file was changed to %q", text)
			}
		})
	}
}

// TestRefusedWriteKeepsView: a rewrite that is refused does not change the view.
func TestRefusedWriteKeepsView(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	host := machineInfoOf(t, machineText(4))
	if err := write(dir, cpuset.Of(1, 2), host); err != nil {
		t.Fatal(err)
	}
	for name, fails := range map[string]error{
		"no CPU":      Write(dir, cpuset.Set{}),
		"offline CPU": write(dir, cpuset.Of(1, 7), host),
		"no stanzas":  write(dir, cpuset.Of(1), new(cpuinfo)),
	} {
		if fails == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if online, stanzas := content(t, dir); online != "1-2\n" || stanzas != cpuset.Of(1, 2) {
		t.Errorf("online is %q, cpuinfo has %v", online, stanzas)
	}
}
