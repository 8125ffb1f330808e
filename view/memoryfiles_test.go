package view

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
)

// TestMemoryFiles: a rewrite keeps the inodes, the lengths and MemTotal. A file of another release keeps its length.
func TestMemoryFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	if _, err := OpenMemoryExisting(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no view: %v", err)
	}
	f, err := OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	machine := MachineMemory{Total: 256 * gib, Swap: 8 * gib}
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 512 * mib}, Free: 500 * mib, Available: 500 * mib, SwapLimit: 64 * mib, SwapFree: 64 * mib}
	var inodes [2]uint64
	var lengths [2]int64
	write := func(f *MemoryFiles) {
		t.Helper()
		if err := f.Write(m, machine); err != nil {
			t.Fatal(err)
		}
		want := newMemory(m, machine)
		for i, name := range []string{meminfoName, swapsName} {
			file := filepath.Join(dir, name)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if name == meminfoName {
				if v, err := parseMeminfo(text); err != nil || v["MemTotal"] != want.total || v["MemFree"] != want.free {
					t.Errorf("%v, %v; want %+v", v, err, want)
				}
			} else if size, used, err := parseSwaps(text); err != nil || size != want.swapTotal || used != want.swapTotal-want.swapFree {
				t.Errorf("swaps %q: %v", text, err)
			}
			var stat unix.Stat_t
			if err := unix.Stat(file, &stat); err != nil {
				t.Fatal(err)
			}
			if inodes[i] != 0 && (stat.Ino != inodes[i] || stat.Size != lengths[i]) || stat.Mode&0o777 != 0o644 {
				t.Errorf("%s: inode %d of %d bytes, mode %o, had %d of %d", name, stat.Ino, stat.Size, stat.Mode, inodes[i], lengths[i])
			}
			inodes[i], lengths[i] = stat.Ino, stat.Size
		}
	}
	write(f)
	m.Free, m.Available, m.SwapFree = 3*mib, 4*mib, 5*mib
	write(f)
	m.Bound.Limit, m.Free, m.Available, m.SwapLimit = 200*gib, 150*gib, 160*gib, 0
	write(f)
	m.Free = mib
	write(f)
	f.Close()
	if f, err = OpenMemoryExisting(dir); err != nil {
		t.Fatal(err)
	}
	write(f)
	f.Close()
	for i, name := range []string{meminfoName, swapsName} { // another release wrote longer files
		if err := os.Truncate(filepath.Join(dir, name), lengths[i]+100); err != nil {
			t.Fatal(err)
		}
		lengths[i] += 100
	}
	if f, err = OpenMemory(dir); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(f)
	m.SwapLimit = 64 * mib
	write(f)
	if binds := MemoryBinds(dir); len(binds) != 2 || binds[0] != (Bind{dir + "/meminfo", "/proc/meminfo", "/proc"}) || binds[1] != (Bind{dir + "/swaps", "/proc/swaps", "/proc"}) {
		t.Errorf("%+v", binds)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the view remains")
	}
}

// TestWriteMachine: the files show the numbers of the kernel's files.
func TestWriteMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	f, err := OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	limited := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 64 * mib}, Free: mib, Available: mib}
	if err := f.Write(limited, MachineMemory{Total: gib}); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteMachine(); err != nil {
		t.Fatal(err)
	}
	machine, err := ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := os.ReadFile(hostMeminfo)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, meminfoName))
	v, parseErr := parseMeminfo(text)
	if err != nil || parseErr != nil || v["MemTotal"] != machine.Total/1024 || v["MemFree"] < 1 || v["MemFree"] == mib/1024 {
		t.Errorf("%v, %v, %v", v, err, parseErr)
	}
	for _, name := range []string{"VmallocTotal", "Hugepagesize", "HugePages_Total", "CommitLimit"} {
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^%s: +%d\b`, name, v[name]))
		if bytes.Contains(kernel, []byte(name+":")) && !line.Match(kernel) {
			t.Errorf("%s is %d", name, v[name])
		}
	}
	swaps, err := os.ReadFile(filepath.Join(dir, swapsName))
	if size, _, parseErr := parseSwaps(swaps); err != nil || parseErr != nil || size != machine.Swap/1024 {
		t.Errorf("%q, %v, %v", swaps, err, parseErr)
	}
}

func FuzzParseMachine(f *testing.F) {
	for _, seed := range []string{"MemTotal:       24684084 kB\nSwapFree: 7 kB\nHugePages_Total:       0\n", "MemTotal: 1", "MemTotal: -1 kB\n", "x\n", ":1\nMemTotal:\t999999999999999 kB\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		values, err := parseMachine(text)
		if err != nil {
			return
		}
		v, err := parseMeminfo(renderMeminfo(values))
		if err != nil || v["MemTotal"] < 1 || v["SwapFree"] > v["SwapTotal"] {
			t.Errorf("%q becomes %v, %v", text, v, err)
		}
	})
}

// FuzzForeignMemory: for any text in the files of a view, a write leads to the files of the container's memory.
func FuzzForeignMemory(f *testing.F) {
	f.Add([]byte("MemTotal: 1 kB\n"), []byte(swapsHeader+"\nnone virtual -5 99999999999999999999\n"))
	f.Add(renderMeminfo(make([]int64, len(meminfoFields))), renderSwaps([]int64{5, 3}))
	f.Add([]byte{}, []byte("\n\n\n"))
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 64 * mib}, Free: 60 * mib, Available: 62 * mib, Usage: 4 * mib, SwapLimit: mib, SwapFree: mib}
	machine := MachineMemory{Total: gib, Swap: gib}
	want := newMemory(m, machine)
	f.Fuzz(func(t *testing.T, meminfo, swaps []byte) {
		dir := t.TempDir()
		for name, text := range map[string][]byte{meminfoName: meminfo, swapsName: swaps} {
			if err := os.WriteFile(filepath.Join(dir, name), text[:min(len(text), maxMeminfo)], 0o644); err != nil {
				t.Fatal(err)
			}
		}
		files, err := OpenMemory(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		if err := files.Write(m, machine); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{meminfoName: string(renderMeminfo(want.meminfoValues())), swapsName: string(renderSwaps(want.swapsValues()))} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || strings.TrimRight(string(got), " \n") != strings.TrimRight(text, " \n") {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	})
}

// TestMemoryFilesRefuse: foreign files are refused, and a lease on a file is an error at once.
func TestMemoryFilesRefuse(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{meminfoName, swapsName} {
		for want, plant := range map[string]func(file string) error{
			"symbolic link: refused":    func(file string) error { return os.Symlink(outside, file) },
			"hard link: refused":        func(file string) error { return os.Link(outside, file) },
			"not a plain file: refused": func(file string) error { return unix.Mkfifo(file, 0o644) },
		} {
			dir := t.TempDir()
			if err := plant(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenMemory(dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		dir := t.TempDir()
		f, err := OpenMemory(dir)
		if err != nil {
			t.Fatal(err)
		}
		for kind, lock := range leaseKinds {
			if _, err := lease(t, filepath.Join(dir, name), lock); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("%s: a %s lease beside open files: %v", name, kind, err)
			}
		}
		f.Close()
		release, err := lease(t, filepath.Join(dir, name), unix.F_RDLCK)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OpenMemory(dir); !errors.Is(err, ErrLeased) {
			t.Errorf("%s: %v, want ErrLeased", name, err)
		}
		release()
	}
	if text, _ := os.ReadFile(outside); string(text) != "precious" {
		t.Errorf("the linked file was changed to %q", text)
	}
}

// TestUnchangedMemory: equal numbers are not written.
func TestUnchangedMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "view")
	f, err := OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	machine := MachineMemory{Total: gib}
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 512 * mib}, Free: 500 * mib, Available: cgroup.NoMemoryLimit}
	file := filepath.Join(dir, meminfoName)
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	for free, isWritten := range map[int64]bool{500 * mib: false, 500*mib + 100: false, 400 * mib: true} {
		m.Free = 500 * mib
		if err := f.Write(m, machine); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, long, long); err != nil {
			t.Fatal(err)
		}
		m.Free = free
		if err := f.Write(m, machine); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.ModTime().Equal(long) == isWritten {
			t.Errorf("free %d: modified %v, %v", free, info.ModTime(), err)
		}
	}
}

// TestConcurrentMemoryReaders: while the memory of a container changes, every line that a reader gets parses, MemTotal is right, and the
// lengths are constant. A read can mix two versions; the test logs how often.
func TestConcurrentMemoryReaders(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("takes long on emulated CPUs, and measures the memory of real CPUs")
	}
	dir := filepath.Join(t.TempDir(), "view")
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		dir = fmt.Sprintf("/dev/shm/candor-view-memory-%d", os.Getpid()) // a tmpfs like /run
	}
	f, err := OpenMemory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer Remove(dir)
	defer f.Close()
	machine := MachineMemory{Total: 256 * gib, Swap: 256 * gib}
	// The numbers of the versions have 1 to 9 digits.
	versions := make([]cgroup.Memory, 9)
	var values [][]int64
	for i, size := 0, int64(1); i < len(versions); i, size = i+1, size*10+1 {
		m := &versions[i]
		m.Bound.Limit, m.Free, m.Available, m.SwapLimit, m.SwapFree = 250*gib, size*1024, cgroup.NoMemoryLimit, 250*gib, size*1024
		m.Stat = cgroup.MemoryStat{Anon: size * 1024, File: 100 * gib, Dirty: size * 1024, Mapped: size * 1024}
		figures := newMemory(*m, machine)
		values = append(values, figures.meminfoValues())
	}
	whole := map[string]bool{} // the texts of the versions, and of the bridges between them
	for _, before := range values {
		for _, after := range values {
			whole[string(renderMeminfo(after))] = true
			if between := bridge(before, after); between != nil {
				whole[string(renderMeminfo(between))] = true
			}
		}
	}
	if err := f.Write(versions[0], machine); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	var reads, mixed atomic.Int64
	for _, piece := range []int{4096, 1024} { // bytes for each read: of a buffered reader, and of an older one
		readers.Go(func() {
			text := make([]byte, 2*4096)
			for !stop.Load() {
				n, err := readPieces(filepath.Join(dir, meminfoName), text, piece)
				v, parseErr := parseMeminfo(text[:n])
				if err != nil || parseErr != nil || v["MemTotal"] != 250*gib/1024 || v["SwapTotal"] != 250*gib/1024 {
					t.Errorf("meminfo reads as %q (%v, %v)", text[:n], err, parseErr)
					return
				}
				if !whole[string(text[:n])] {
					mixed.Add(1)
				}
				n, err = readPieces(filepath.Join(dir, swapsName), text, piece)
				if size, _, parseErr := parseSwaps(text[:n]); err != nil || parseErr != nil || size != 250*gib/1024 {
					t.Errorf("swaps reads as %q (%v, %v)", text[:n], err, parseErr)
					return
				}
				reads.Add(1)
			}
		})
	}
	writes := 0
	for ; (writes < 2000 || reads.Load() < 2000) && !t.Failed(); writes++ {
		if err := f.Write(versions[rand.IntN(len(versions))], machine); err != nil {
			t.Error(err)
			break
		}
	}
	stop.Store(true)
	readers.Wait()
	t.Logf("%d reads during %d rewrites; %d mixed two versions", reads.Load(), writes, mixed.Load())
}

// readPieces reads a file with system calls of at most piece bytes each.
func readPieces(name string, into []byte, piece int) (int, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		more, err := unix.Read(fd, into[n:min(n+piece, len(into))])
		if more <= 0 || err != nil {
			return n, err
		}
		n += more
	}
}
