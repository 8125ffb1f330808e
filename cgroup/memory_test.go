package cgroup

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/internal/kernelfs"
)

const mib = 1 << 20

// holdMemory reads a byte, then allocates anonymous memory of a size in bytes and writes to each page.
func holdMemory(size string) {
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	n, _ := strconv.Atoi(size)
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		for i := 0; i < n; i += 4096 {
			memory[i] = 1
		}
	}
	io.Copy(io.Discard, os.Stdin)
}

// memoryGroup makes nested groups in the machine's hierarchy of the memory controller, the second below the first and so on. It returns the
// hierarchy and the path of the last group. It skips the test if the machine does not have the controller.
func memoryGroup(t testing.TB, names ...string) (tr *Tree, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make control groups")
	}
	tr, err := Open(Options{ReadOnly: true})
	must(t, err)
	t.Cleanup(func() { tr.Close() })
	if tr.memory == nil {
		t.Skip("the memory controller is not mounted here")
	}
	for _, name := range append([]string{fmt.Sprintf("candor-memory-test-%d", os.Getpid())}, names...) {
		if tr.memory.v2 {
			dir := tr.memory.mount + path
			enabled, err := enableControllersV2(dir, []string{"memory"})
			if err != nil {
				t.Skipf("cannot enable the memory controller below %s: %v", dir, err)
			}
			if len(enabled) > 0 {
				t.Cleanup(func() { write(dir, subtreeFile, "-memory") })
			}
		}
		path += "/" + name
		dir := tr.memory.mount + path
		must(t, os.Mkdir(dir, 0o755))
		t.Cleanup(func() {
			eventually(t, "the group can be removed", func() bool { return unix.Rmdir(dir) == nil })
		})
	}
	return tr, path
}

// allocate starts a process in a group that holds memory, and waits until it does.
func allocate(t *testing.T, tr *Tree, path string, size int64) process {
	t.Helper()
	p := start(t, fmt.Sprintf("memory %d", size))
	must(t, attach(tr.memory.mount+path, p.pid()))
	p.in.Write([]byte("x"))
	eventually(t, "the process has the memory", func() bool {
		m, err := tr.ReadMemory(path)
		must(t, err)
		return m.Usage >= size
	})
	return p
}

// TestReadMemory reads the memory of a group below a group with a lower limit, with and without cached open files.
func TestReadMemory(t *testing.T) {
	for name, limit := range map[string]int{"opened": 0, "cached": 100} {
		t.Run(name, func(t *testing.T) { testReadMemory(t, limit) })
	}
}

func testReadMemory(t *testing.T, limit int) {
	tr, path := memoryGroup(t, "pod", "web")
	tr.KeepMemoryOpen(limit)
	pod := filepath.Dir(path)
	before, err := tr.ReadMemory(path)
	must(t, err)
	for _, limit := range []struct {
		path string
		size int64
	}{{path, 512 * mib}, {pod, 256 * mib}} {
		_, err := tr.EngineGroup("web", limit.path).SetMemoryLimits(MemoryLimits{limit.size, NoMemoryLimit})
		must(t, err)
	}
	const size = 64 * mib
	p := allocate(t, tr, path, size)
	m, err := tr.ReadMemory(path)
	must(t, err)
	files := memoryV1
	if tr.memory.v2 {
		files = maxV2
	}
	if want := (MemoryBound{pod, files.limit, 256 * mib}); m.Bound != want && before.Bound.Limit > want.Limit {
		t.Errorf("the bound is %+v, want %+v", m.Bound, want)
	}
	if m.Usage < size || m.Usage > size+32*mib || m.Free > 256*mib-size || m.Free < 256*mib-size-32*mib {
		t.Errorf("usage %d, free %d", m.Usage, m.Free)
	}
	eventually(t, "memory.stat counts the memory", func() bool { // v2 sums its counters up every 2 s
		m, err = tr.ReadMemory(path)
		must(t, err)
		return m.Stat.Anon >= size*9/10 && m.Stat.ActiveAnon+m.Stat.InactiveAnon >= size*9/10
	})
	if m.Stat.Anon > m.Usage || m.SwapUsage != 0 {
		t.Errorf("%+v", m)
	}
	above, err := tr.ReadMemory(pod)
	if must(t, err); above.Usage < size || above.Bound.Path != pod && before.Bound.Limit > 256*mib {
		t.Errorf("the group above: %+v", above)
	}
	if n := len(tr.memoryOpen.files); (n > 0) != (limit > 0) {
		t.Errorf("%d open files with a limit of %d", n, limit)
	}
	must(t, p.Process.Kill())
	p.Wait()
	dir := tr.memory.mount + path
	eventually(t, "the group can be removed", func() bool { return unix.Rmdir(dir) == nil })
	if _, err := tr.ReadMemory(path); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a removed group: %v", err)
	}
	must(t, os.Mkdir(dir, 0o755))
	if m, err := tr.ReadMemory(path); err != nil || m.Usage > size/2 || m.Stat.Anon > size/2 || m.Bound != above.Bound {
		t.Errorf("a recreated group: %+v, %v", m, err)
	}
	for _, missing := range []string{path + "/none", "/candor-memory-test-none/web"} {
		if _, err := tr.ReadMemory(missing); !errors.Is(err, ErrNoGroup) {
			t.Errorf("%s: %v", missing, err)
		}
		if _, err := tr.EngineGroup("web", missing).MemoryLimits(); !errors.Is(err, ErrNoGroup) {
			t.Errorf("%s: %v", missing, err)
		}
		if _, err := tr.EngineGroup("web", missing).SetMemoryLimits(MemoryLimits{64 * mib, NoMemoryLimit}); !errors.Is(err, ErrNoGroup) {
			t.Errorf("%s: %v", missing, err)
		}
	}
}

// TestSetMemoryLimits sets limits on this machine's kernel and undoes them. A limit that a group exceeds is refused, and the process lives.
func TestSetMemoryLimits(t *testing.T) {
	tr, path := memoryGroup(t, "web")
	g, dir := tr.EngineGroup("web", path), tr.memory.mount+path
	none := MemoryLimits{NoMemoryLimit, NoMemoryLimit}
	has := func(step string, want MemoryLimits) {
		t.Helper()
		if got, err := g.MemoryLimits(); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", step, got, err, want)
		}
	}
	has("a new group", none)
	limitsSwap := true
	if _, err := g.SetMemoryLimits(MemoryLimits{64 * mib, 0}); errors.Is(err, ErrNoSwapLimit) {
		limitsSwap = false
		has("no swap limit", none)
	} else {
		must(t, err)
	}
	for i, want := range []MemoryLimits{
		{64 * mib, NoMemoryLimit}, {256 * mib, 0}, {128 * mib, 512 * mib}, {512 * mib, 0}, {64 * mib, 64 * mib}, {64 * mib, 0},
		{1024 * mib, 1024 * mib}, {NoMemoryLimit, NoMemoryLimit}, {64 * mib, 32 * mib}, {64*mib + 4095, 32*mib + 5},
	} {
		if !limitsSwap && want.Swap != NoMemoryLimit {
			continue
		}
		before, err := g.MemoryLimits()
		must(t, err)
		undo, err := g.SetMemoryLimits(want)
		must(t, err)
		rounded := MemoryLimits{wholePages(want.Memory), wholePages(want.Swap)}
		has(fmt.Sprint("step ", i), rounded)
		must(t, undo())
		has(fmt.Sprint("undo ", i), before)
		_, err = g.SetMemoryLimits(want)
		must(t, err)
		written := countWrites(t, func() {
			_, err = g.SetMemoryLimits(want)
			must(t, err)
		})
		if len(written) > 0 {
			t.Errorf("step %d: equal limits are written to %v", i, written)
		}
	}
	_, err := g.SetMemoryLimits(MemoryLimits{256 * mib, NoMemoryLimit})
	must(t, err)
	before, err := g.MemoryLimits()
	must(t, err)
	for _, bad := range []MemoryLimits{{}, {0, NoMemoryLimit}, {-1, 0}, {MinMemoryLimit - 1, 0}, {64 * mib, -1}} {
		if _, err := g.SetMemoryLimits(bad); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "must be") {
			t.Errorf("%+v: %v", bad, err)
		}
		has("a refused limit", before)
	}
	p := allocate(t, tr, path, 64*mib)
	lower := MemoryLimits{32 * mib, NoMemoryLimit}
	if limitsSwap {
		lower.Swap = 0
	}
	if _, err := g.SetMemoryLimits(lower); !errors.Is(err, ErrMemoryInUse) || strings.Contains(err.Error(), "\n") {
		t.Errorf("less than in use: %v", err)
	}
	has("less than in use", before)
	if pids, err := processesIn(dir); err != nil || !slices.Equal(pids, []int{p.pid()}) {
		t.Errorf("the processes are %v, %v; want %d", pids, err, p.pid())
	}
}

// countWrites returns the files that do writes.
func countWrites(t *testing.T, do func()) (files []string) {
	t.Helper()
	defer kernelfs.InjectFault(func(access kernelfs.Access, path string) error {
		if access == kernelfs.WriteAccess {
			files = append(files, filepath.Base(path))
		}
		return nil
	})()
	do()
	return files
}

// memoryFixture writes the files of groups to a new directory and returns a hierarchy that is mounted there.
func memoryFixture(t testing.TB, v2 bool, files map[string]string) memoryReader {
	t.Helper()
	h := &hierarchy{mount: t.TempDir(), root: "/", v2: v2, rootHasLimits: !v2 || files["cgroup.events"] != ""}
	for name, text := range files {
		file := filepath.Join(h.mount, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text+"\n"), 0o644))
	}
	return memoryReader{hierarchy: h, open: new(openFiles)}
}

// TestReclaimCache: containers of the same group share the reads of its memory.stat for a second.
func TestReclaimCache(t *testing.T) {
	var c reclaimCache
	reads := 0
	read := func(string) (int64, error) { reads++; return int64(reads), nil }
	for _, dir := range []string{"/pods", "/pods", "/pods/a", "/pods"} {
		if size, err := c.get(dir, read); err != nil || size != int64(len(dir)/7+1) {
			t.Errorf("%s: %d, %v", dir, size, err)
		}
	}
	if reads != 2 {
		t.Errorf("%d reads of 2 groups", reads)
	}
	for dir, m := range c.dirs {
		m.at = m.at.Add(-reclaimAge)
		c.dirs[dir] = m
	}
	if size, err := c.get("/pods", read); err != nil || size != 3 || len(c.dirs) != 1 {
		t.Errorf("after a second: %d, %v, %d groups", size, err, len(c.dirs))
	}
	failed := errors.New("read failed")
	if _, err := c.get("/other", func(string) (int64, error) { return 0, failed }); err != failed || len(c.dirs) != 1 {
		t.Errorf("a failed read: %v, %d groups", err, len(c.dirs))
	}
}

// TestLowestLimit: the limits of a group and of the groups above it apply, with the free memory of the group with the lowest
// limit, and the least available memory among all of them.
func TestLowestLimit(t *testing.T) {
	const unlimitedV1 = "9223372036854771712"
	v2 := func(more map[string]string) map[string]string {
		files := map[string]string{
			"cgroup.controllers": "cpu memory", "memory.stat": "anon 1",
			"pod/cgroup.controllers": "memory", "pod/memory.stat": "anon 2", "pod/memory.current": "700", "pod/memory.max": "max", "pod/memory.high": "max",
			"pod/web/cgroup.controllers": "memory", "pod/web/memory.stat": "anon 300\nfile 7", "pod/web/memory.current": "400", "pod/web/memory.max": "max",
			"pod/web/memory.high": "max", "pod/web/memory.swap.max": "max", "pod/web/memory.swap.current": "5",
			"pod/web/inner/cgroup.controllers": "",
		}
		maps.Copy(files, more)
		return files
	}
	v1 := func(hierarchical string, more map[string]string) map[string]string {
		files := map[string]string{
			"memory.limit_in_bytes": unlimitedV1, "memory.usage_in_bytes": "9000", "memory.stat": "total_rss 1",
			"pod/memory.limit_in_bytes": unlimitedV1, "pod/memory.usage_in_bytes": "700",
			"pod/web/memory.limit_in_bytes": unlimitedV1, "pod/web/memory.usage_in_bytes": "400", "pod/web/memory.memsw.usage_in_bytes": "450",
			"pod/memory.memsw.usage_in_bytes": "750", "pod/memory.stat": "total_rss 2",
			"pod/web/memory.stat": "rss 1\ntotal_rss 300\ntotal_cache 7\ntotal_swap 5\nhierarchical_memory_limit " + hierarchical,
		}
		maps.Copy(files, more)
		return files
	}
	const no = NoMemoryLimit
	for name, test := range map[string]struct {
		v2        bool
		files     map[string]string
		path      string
		bound     MemoryBound
		free      int64
		available int64
		swapLimit int64
		swapFree  int64
	}{
		"v2 no limit":        {true, v2(nil), "/pod/web", MemoryBound{Limit: no}, no, no, no, no},
		"v2 own limit":       {true, v2(map[string]string{"pod/web/memory.max": "1000"}), "/pod/web", MemoryBound{"/pod/web", "memory.max", 1000}, 600, 600, no, no},
		"v2 limit above":     {true, v2(map[string]string{"pod/web/memory.max": "1000", "pod/memory.max": "900"}), "/pod/web", MemoryBound{"/pod", "memory.max", 900}, 200, 200, no, no},
		"v2 less free above": {true, v2(map[string]string{"pod/web/memory.max": "1000", "pod/memory.max": "1100"}), "/pod/web", MemoryBound{"/pod/web", "memory.max", 1000}, 600, 400, no, no},
		"v2 cache above": {true, v2(map[string]string{"pod/web/memory.max": "500", "pod/memory.max": "700", "pod/memory.stat": "inactive_file 650"}),
			"/pod/web", MemoryBound{"/pod/web", "memory.max", 500}, 100, 100, no, no},
		"v2 cache of the pod": {true, v2(map[string]string{"pod/memory.max": "700", "pod/memory.stat": "active_file 100\nslab_reclaimable 50\nanon 400"}),
			"/pod/web", MemoryBound{"/pod", "memory.max", 700}, 0, 150, no, no},
		"v2 high is lower":          {true, v2(map[string]string{"pod/web/memory.max": "1000", "pod/web/memory.high": "800"}), "/pod/web", MemoryBound{"/pod/web", "memory.high", 800}, 400, 400, no, no},
		"v2 high is higher":         {true, v2(map[string]string{"pod/web/memory.max": "1000", "pod/web/memory.high": "1200"}), "/pod/web", MemoryBound{"/pod/web", "memory.max", 1000}, 600, 600, no, no},
		"v2 beyond the limit":       {true, v2(map[string]string{"pod/web/memory.high": "300"}), "/pod/web", MemoryBound{"/pod/web", "memory.high", 300}, 0, 0, no, no},
		"v2 swap":                   {true, v2(map[string]string{"pod/web/memory.swap.max": "50", "pod/memory.swap.max": "40", "pod/memory.swap.current": "38"}), "/pod/web", MemoryBound{Limit: no}, no, no, 40, 2},
		"v2 without the controller": {true, v2(map[string]string{"pod/web/memory.max": "1000"}), "/pod/web/inner", MemoryBound{"/pod/web", "memory.max", 1000}, 600, 600, no, no},
		"v2 limit of the mounted group": {true, v2(map[string]string{"cgroup.events": "populated 1", "memory.max": "800", "memory.current": "750", "memory.stat": "inactive_file 30"}),
			"/pod/web", MemoryBound{"/", "memory.max", 800}, 50, 80, no, no},
		"v1 no limit":         {false, v1(unlimitedV1, nil), "/pod/web", MemoryBound{Limit: no}, no, no, no, no},
		"v1 own limit":        {false, v1("1000", map[string]string{"pod/web/memory.limit_in_bytes": "1000"}), "/pod/web", MemoryBound{"/pod/web", "memory.limit_in_bytes", 1000}, 600, 600, no, no},
		"v1 limit above":      {false, v1("900", map[string]string{"pod/web/memory.limit_in_bytes": "1000", "pod/memory.limit_in_bytes": "900"}), "/pod/web", MemoryBound{"/pod", "memory.limit_in_bytes", 900}, 200, 200, no, no},
		"v1 not hierarchical": {false, v1("1000", map[string]string{"pod/web/memory.limit_in_bytes": "1000", "pod/memory.limit_in_bytes": "900"}), "/pod/web", MemoryBound{"/pod/web", "memory.limit_in_bytes", 1000}, 600, 600, no, no},
		"v1 invisible limit":  {false, v1("500", map[string]string{"pod/web/memory.limit_in_bytes": "1000"}), "/pod/web", MemoryBound{"", "memory.stat", 500}, 100, 100, no, no},
		"v1 swap": {false, v1("1000\nhierarchical_memsw_limit 1040", map[string]string{
			"pod/web/memory.limit_in_bytes": "1000", "pod/web/memory.memsw.limit_in_bytes": "1200", "pod/memory.memsw.limit_in_bytes": "1040",
		}), "/pod/web", MemoryBound{"/pod/web", "memory.limit_in_bytes", 1000}, 290, 290, 40, 35},
		"v1 no swap": {false, v1("1000\nhierarchical_memsw_limit 1000", map[string]string{
			"pod/web/memory.limit_in_bytes": "1000", "pod/web/memory.memsw.limit_in_bytes": "1000",
		}), "/pod/web", MemoryBound{"/pod/web", "memory.limit_in_bytes", 1000}, 550, 550, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := memoryFixture(t, test.v2, test.files).read(test.path)
			must(t, err)
			if m.Bound != test.bound || m.Free != test.free || m.Available != test.available || m.SwapLimit != test.swapLimit || m.SwapFree != test.swapFree {
				t.Errorf("%+v; want %+v, free %d, available %d, swap %d, %d free", m, test.bound, test.free, test.available, test.swapLimit, test.swapFree)
			}
			isCounted := test.path == "/pod/web"
			if isCounted && (m.Usage != 400 || m.SwapUsage != 5 || m.Stat != MemoryStat{Anon: 300, File: 7}) ||
				!isCounted && (m.Usage != 0 || m.SwapUsage != 0 || m.Stat != MemoryStat{}) || m.IsUncounted == isCounted {
				t.Errorf("%+v", m)
			}
		})
	}
}

// TestReadMemoryErrors: a file that is missing or has other content is an error that names the file.
func TestReadMemoryErrors(t *testing.T) {
	files := func(v2 bool) map[string]string {
		if v2 {
			return map[string]string{"cgroup.controllers": "", "web/cgroup.controllers": "memory", "web/memory.stat": "anon 1", "web/memory.max": "max",
				"web/memory.high": "5", "web/memory.current": "7", "web/memory.swap.max": "max", "web/memory.swap.current": "0"}
		}
		return map[string]string{"memory.limit_in_bytes": "5", "memory.usage_in_bytes": "4", "web/memory.stat": "total_rss 1\nhierarchical_memsw_limit 9", "web/memory.limit_in_bytes": "5",
			"web/memory.usage_in_bytes": "4", "web/memory.memsw.limit_in_bytes": "9", "web/memory.memsw.usage_in_bytes": "4"}
	}
	for _, v2 := range []bool{false, true} {
		for name := range files(v2) {
			if filepath.Base(name) == "cgroup.controllers" {
				continue
			}
			for _, text := range []string{"x", "-5", "1 2", "18446744073709551616", "total_rss", "anon -1", "anon 1\n\nfile 2", strings.Repeat("9", 100)} {
				bad := files(v2)
				bad[name] = text
				h := memoryFixture(t, v2, bad)
				m, err := h.read("/web")
				isBad := filepath.Base(name) != "memory.stat" || text == "total_rss" && !v2 || text == "anon -1" && v2
				if !isBad { // lines with unknown keys
					must(t, err)
				} else if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) || len(err.Error()) > 400 || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s with %q: %+v, %v", name, text, m, err)
				}
			}
		}
		h := memoryFixture(t, v2, files(v2))
		if _, err := h.read("/web"); err != nil {
			t.Error(err)
		}
		must(t, os.WriteFile(h.mount+"/web/memory.stat", []byte(strings.Repeat("anon 1\n", kernelfs.MaxSize/7+1)), 0o644))
		if _, err := h.read("/web"); !errors.Is(err, kernelfs.ErrTooLong) {
			t.Errorf("a long file: %v", err)
		}
		if _, err := h.read("/none"); !isGone(err) {
			t.Errorf("no group: %v", err)
		}
	}
	if _, err := memoryFixture(t, true, map[string]string{"cgroup.controllers": "", "web/cgroup.controllers": ""}).read("/web"); !errors.Is(err, ErrNoMemory) {
		t.Errorf("no controller: %v", err)
	}
	tr := &Tree{cpu: &hierarchy{mount: t.TempDir()}}
	if _, err := tr.ReadMemory("/web"); !errors.Is(err, ErrNoMemory) {
		t.Errorf("no controller: %v", err)
	}
	if _, err := tr.ReadMemory("/web/.."); err == nil || errors.Is(err, ErrNoMemory) {
		t.Errorf("a path: %v", err)
	}
}

// TestMemoryLimitsV2 writes limits to recorded files of v2, whose kernel is in the guests of e2e/guest only.
func TestMemoryLimitsV2(t *testing.T) {
	const unlimited = "max"
	for name, test := range map[string]struct {
		files   map[string]string
		next    MemoryLimits
		written []string
		err     error
	}{
		"new limits":          {map[string]string{"memory.max": unlimited, "memory.swap.max": unlimited, "memory.current": "5"}, MemoryLimits{64 * mib, 32 * mib}, []string{"memory.max", "memory.swap.max"}, nil},
		"equal memory":        {map[string]string{"memory.max": "67108864", "memory.swap.max": unlimited, "memory.current": "5"}, MemoryLimits{64 * mib, 4096}, []string{"memory.swap.max"}, nil},
		"a kernel without":    {map[string]string{"memory.max": unlimited, "memory.current": "5"}, MemoryLimits{64 * mib, NoMemoryLimit}, []string{"memory.max"}, nil},
		"swap needs support":  {map[string]string{"memory.max": "33554432", "memory.current": "5"}, MemoryLimits{64 * mib, 0}, nil, ErrNoSwapLimit},
		"in use":              {map[string]string{"memory.max": "99999744", "memory.swap.max": "0", "memory.current": "67108865", "memory.reclaim": ""}, MemoryLimits{64 * mib, 0}, []string{"memory.reclaim"}, ErrMemoryInUse},
		"raised while in use": {map[string]string{"memory.max": "33554432", "memory.swap.max": "0", "memory.current": "99999744"}, MemoryLimits{64 * mib, 0}, []string{"memory.max"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := memoryFixture(t, true, test.files)
			before, err := h.readMemoryLimits(h.mount)
			must(t, err)
			written := countWrites(t, func() { _, err = h.setMemoryLimits(h.mount, test.next) })
			if !errors.Is(err, test.err) || err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatal(err)
			}
			if !slices.Equal(written, test.written) {
				t.Errorf("written: %v, want %v", written, test.written)
			}
			want := test.next
			if test.err != nil {
				want = before
			}
			if has, err := h.readMemoryLimits(h.mount); err != nil || has != want {
				t.Errorf("has %+v, %v; want %+v", has, err, want)
			}
		})
	}
}

// TestMemswOrder: at no moment is the limit of memory above the limit of memory and swap, which the kernel of v1 refuses.
func TestMemswOrder(t *testing.T) {
	h := memoryFixture(t, false, map[string]string{memoryV1.limit: "", memswV1.limit: "", memoryV1.usage: "0"})
	rapid.Check(t, func(t *rapid.T) {
		// Numbers of equal length, because a plain file keeps the rest of a longer value.
		limits := rapid.Custom(func(t *rapid.T) MemoryLimits {
			memory := rapid.Int64Range(1e9, 4e9).Draw(t, "memory") &^ 4095
			return MemoryLimits{max(memory, 1e9+4096), rapid.Int64Range(0, 5e9).Draw(t, "swap") &^ 4095}
		})
		now, next := limits.Draw(t, "now"), limits.Draw(t, "next")
		for file, size := range map[string]int64{memoryV1.limit: now.Memory, memswV1.limit: now.memsw()} {
			if err := os.WriteFile(filepath.Join(h.mount, file), []byte(strconv.FormatInt(size, 10)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		check := func() {
			l, err := readMemoryLimitsV1(h.mount)
			both, err2 := readBytes(h.mount, memswV1.limit)
			if err != nil || err2 != nil || l.Memory > both {
				t.Fatalf("memory %d of %d, %v, %v", l.Memory, both, err, err2)
			}
		}
		defer kernelfs.InjectFault(func(access kernelfs.Access, _ string) error {
			if access == kernelfs.WriteAccess {
				check()
			}
			return nil
		})()
		if err := h.writeMemoryLimits(h.mount, now, next); err != nil {
			t.Fatal(err)
		}
		check()
		if has, err := readMemoryLimitsV1(h.mount); err != nil || has != (MemoryLimits{wholePages(next.Memory), wholePages(next.Swap)}) {
			t.Fatalf("has %+v, %v; want %+v", has, err, next)
		}
	})
}

func FuzzParseMemoryStat(f *testing.F) {
	for _, seed := range []string{"anon 5\nfile 7\n", "total_rss 18446744073709551615\nhierarchical_memory_limit 9223372036854771712\n", "anon max", "x", " 1\n", "anon -1\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, keys := range []map[string]memoryKey{statKeysV1, statKeysV2} {
			r, err := parseMemoryStat(text, keys)
			if err != nil && r != (memoryRecord{}) {
				t.Errorf("%q: %+v, %v", text, r, err)
			}
			for key, field := range keys {
				if *field(&r) < 0 {
					t.Errorf("%q: %s is %d", text, key, *field(&r))
				}
			}
		}
		if n, err := parseBytes(text); n < 0 || err != nil && n != 0 {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	})
}

// FuzzReadMemory: for any content of the files of a group and of the group above, ReadMemory returns an error or sizes that are
// not negative and fit together.
func FuzzReadMemory(f *testing.F) {
	for _, v2 := range []bool{false, true} {
		f.Add(v2, "1000", "900", "400", "anon 300\ninactive_file 7", "50", "5")
		f.Add(v2, "max", "max", "0", "", "max", "0")
		f.Add(v2, "9223372036854771712", "1", "18446744073709551615", "total_swap 5\nhierarchical_memory_limit 500\nhierarchical_memsw_limit 600", "550", "9")
		f.Add(v2, "4611686018427387903", "-1", "4611686018427387904", "active_file max\ninactive_file max\ntotal_active_file max\nhierarchical_memory_limit 4611686018427387903", "0", "x")
	}
	f.Fuzz(func(t *testing.T, v2 bool, limit, high, usage, stat, swapLimit, swapUsage string) {
		files := map[string]string{}
		for _, dir := range []string{"pod/", "pod/web/"} {
			maps.Copy(files, map[string]string{
				dir + "cgroup.controllers": "memory", dir + "memory.stat": stat, dir + "memory.max": limit, dir + "memory.high": high, dir + "memory.current": usage,
				dir + "memory.swap.max": swapLimit, dir + "memory.swap.current": swapUsage, dir + "memory.limit_in_bytes": limit, dir + "memory.usage_in_bytes": usage,
				dir + "memory.memsw.limit_in_bytes": swapLimit, dir + "memory.memsw.usage_in_bytes": swapUsage,
			})
			limit, high = high, limit // the group below has other limits
		}
		m, err := memoryFixture(t, v2, files).read("/pod/web")
		if err != nil {
			return
		}
		for name, size := range map[string]int64{
			"limit": m.Bound.Limit, "free": m.Free, "available": m.Available, "usage": m.Usage, "swap limit": m.SwapLimit, "free swap": m.SwapFree, "swap": m.SwapUsage,
		} {
			if size < 0 {
				t.Errorf("%s is %d: %+v", name, size, m)
			}
		}
		if m.Free > m.Bound.Limit || m.SwapFree > m.SwapLimit || (m.Bound.Limit == NoMemoryLimit) != (m.Bound == MemoryBound{Limit: NoMemoryLimit}) {
			t.Errorf("%+v", m)
		}
	})
}

// BenchmarkReadMemory reads the memory of a group with limits of memory and swap, below a group with a limit.
func BenchmarkReadMemory(b *testing.B) {
	for name, limit := range map[string]int{"opened": 0, "cached": 100} {
		b.Run(name, func(b *testing.B) {
			tr, path := memoryGroup(b, "pods", "pod", "web")
			tr.KeepMemoryOpen(limit)
			for path, limits := range map[string]MemoryLimits{path: {256 * mib, NoMemoryLimit}, filepath.Dir(path): {512 * mib, NoMemoryLimit}} {
				_, err := tr.EngineGroup("web", path).SetMemoryLimits(limits)
				must(b, err)
			}
			for b.Loop() {
				_, err := tr.ReadMemory(path)
				must(b, err)
			}
		})
	}
}
