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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/candor-project/candor/cgroup"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// meminfoLine matches a line of meminfo. A mix of two versions can have zeros before a number.
var meminfoLine = regexp.MustCompile(`^([A-Za-z0-9_()]+): +([0-9]+)( kB)?$`)

var leadingZero = regexp.MustCompile(` 0[0-9]`)

// parseMeminfo returns the values of a meminfo by field. It returns an error unless the text has the lines of meminfoFields in order.
func parseMeminfo(text []byte) (map[string]int64, error) {
	lines := strings.Split(string(text), "\n")
	if len(lines) != len(meminfoFields)+1 || lines[len(lines)-1] != "" {
		return nil, fmt.Errorf("%d lines, want %d", len(lines)-1, len(meminfoFields))
	}
	values := map[string]int64{}
	for i, field := range meminfoFields {
		parts := meminfoLine.FindStringSubmatch(strings.TrimRight(lines[i], " "))
		if parts == nil || parts[1] != field.name || parts[3] != field.unit {
			return nil, fmt.Errorf("line %q, want %q", lines[i], field.name)
		}
		n, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return nil, err
		}
		values[field.name] = n
	}
	return values, nil
}

// parseSwaps returns the size and the used size of a swaps, in kB.
func parseSwaps(text []byte) (size, used int64, err error) {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if !slices.Equal(strings.Fields(lines[0]), []string{"Filename", "Type", "Size", "Used", "Priority"}) || len(lines) > 2 {
		return 0, 0, fmt.Errorf("%q", text)
	}
	if len(lines) == 1 {
		return 0, 0, nil
	}
	var name, kind string
	var priority int
	if n, err := fmt.Sscan(lines[1], &name, &kind, &size, &used, &priority); n != 5 || err != nil || len(strings.Fields(lines[1])) != 5 {
		return 0, 0, fmt.Errorf("%q: %v", lines[1], err)
	}
	return size, used, nil
}

// memories generates the memory of groups: mostly consistent, sometimes with any numbers.
var memories = rapid.Custom(func(t *rapid.T) cgroup.Memory {
	size := rapid.OneOf(rapid.Int64Range(0, 200*gib), rapid.Int64Range(0, 64*mib), rapid.Just(int64(cgroup.NoMemoryLimit)), rapid.Int64Range(0, 1<<62))
	draw := func(name string) int64 { return size.Draw(t, name) }
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: draw("limit")}, Usage: draw("usage"), SwapLimit: draw("swap limit"), SwapUsage: draw("swap usage")}
	m.Free, m.SwapFree = max(m.Bound.Limit-m.Usage, 0), max(m.SwapLimit-m.SwapUsage, 0)
	if rapid.Bool().Draw(t, "less free above") {
		m.Free, m.SwapFree = min(m.Free, draw("free")), min(m.SwapFree, draw("swap free"))
	}
	if m.Bound.Limit == cgroup.NoMemoryLimit {
		m.Free = cgroup.NoMemoryLimit
	}
	s := &m.Stat
	for _, field := range []*int64{&s.Anon, &s.File, &s.Shmem, &s.SwapCached, &s.Mapped, &s.Dirty, &s.Writeback, &s.ActiveAnon, &s.InactiveAnon,
		&s.ActiveFile, &s.InactiveFile, &s.Unevictable, &s.AnonHuge, &s.ShmemHuge, &s.FileHuge, &s.SlabReclaimable, &s.SlabUnreclaimable,
		&s.KernelStack, &s.PageTables, &s.SecPageTables, &s.Percpu, &s.Vmalloc, &s.Zswap, &s.Zswapped} {
		*field = draw("part")
	}
	return m
})

var machines = rapid.Custom(func(t *rapid.T) MachineMemory {
	return MachineMemory{
		Total: rapid.OneOf(rapid.Int64Range(64*mib, 16<<40), rapid.Just(int64(1)<<62)).Draw(t, "machine"),
		Swap:  rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1<<40)).Draw(t, "swap"),
	}
})

// TestMeminfoInvariants: every meminfo parses, has the offsets and widths of every other meminfo, and its numbers fit together.
func TestMeminfoInvariants(t *testing.T) {
	zero := memory{}
	layout := renderMeminfo(zero.meminfoValues())
	colons := func(text []byte) (at []int) {
		for i, c := range text {
			if c == ':' || c == '\n' {
				at = append(at, i)
			}
		}
		return at
	}
	rapid.Check(t, func(t *rapid.T) {
		m, machine := memories.Draw(t, "memory"), machines.Draw(t, "machine")
		f := newMemory(m, machine)
		text := renderMeminfo(f.meminfoValues())
		if len(text) != len(layout) || len(text) >= 4096 || !slices.Equal(colons(text), colons(layout)) {
			t.Fatalf("another layout:\n%s", text)
		}
		v, err := parseMeminfo(text)
		if err != nil || leadingZero.Match(text) {
			t.Fatalf("%v:\n%s", err, text)
		}
		limit := min(m.Bound.Limit, machine.Total) / 1024
		if total := v["MemTotal"]; total != min(max(limit, minTotal), maxTotal) {
			t.Fatalf("MemTotal is %d, want %d", total, limit)
		}
		atMost := func(least ...string) {
			t.Helper()
			for i := range least[1:] {
				if v[least[i]] > v[least[i+1]] {
					t.Fatalf("%s > %s:\n%s", least[i], least[i+1], text)
				}
			}
		}
		atMost("MemFree", "MemAvailable", "MemTotal")
		atMost("SwapFree", "SwapTotal")
		atMost("SwapCached", "SwapTotal")
		for _, part := range []string{"Mapped", "Dirty", "Writeback", "Shmem", "FileHugePages", "Active(file)", "Inactive(file)"} {
			atMost(part, "Cached")
		}
		atMost("AnonHugePages", "AnonPages", "MemTotal")
		atMost("ShmemHugePages", "Shmem")
		sum := func(parts ...string) (all int64) {
			for _, part := range parts {
				all += v[part]
			}
			return all
		}
		for name, parts := range map[string][]string{
			"MemTotal":     {"MemFree", "AnonPages", "Buffers", "Cached", "Slab", "KernelStack", "PageTables", "SecPageTables", "Percpu"},
			"the lists":    {"MemFree", "Active", "Inactive", "Unevictable"},
			"MemAvailable": {"MemFree", "Active(file)", "Inactive(file)", "SReclaimable"},
		} {
			bound := v["MemTotal"]
			if name == "MemAvailable" {
				bound = v["MemAvailable"]
			}
			if got := sum(parts...); got > bound {
				t.Fatalf("%v are %d together, more than %d:\n%s", parts, got, bound, text)
			}
		}
		for name, parts := range map[string][]string{
			"Active": {"Active(anon)", "Active(file)"}, "Inactive": {"Inactive(anon)", "Inactive(file)"}, "Slab": {"SReclaimable", "SUnreclaim"},
		} {
			if v[name] != sum(parts...) {
				t.Fatalf("%s is not the sum of %v:\n%s", name, parts, text)
			}
		}
		swaps := renderSwaps(f.swapsValues())
		size, used, err := parseSwaps(swaps)
		if err != nil || size != v["SwapTotal"] || used != v["SwapTotal"]-v["SwapFree"] || len(swaps) != len(renderSwaps([]int64{0, 0})) {
			t.Fatalf("swaps %q: %d, %d, %v", swaps, size, used, err)
		}
	})
}

// TestMixedVersions: a read beside a write has words of two versions of meminfo, and both MemTotal and each line parse.
func TestMixedVersions(t *testing.T) {
	if os.Getenv("CANDOR_IN_GUEST") != "" {
		t.Skip("takes long on emulated CPUs, and needs no other kernel")
	}
	const word = 8
	rapid.Check(t, func(t *rapid.T) {
		machine := machines.Draw(t, "machine")
		a, b := memories.Draw(t, "before"), memories.Draw(t, "after")
		b.Bound = a.Bound
		before, after := newMemory(a, machine), newMemory(b, machine)
		seed := rapid.Uint64().Draw(t, "seed")
		check := func(before, after []int64, render func([]int64) []byte, parse func([]byte) error) {
			versions := [][]int64{before, after}
			if between := bridge(before, after); between != nil {
				versions = [][]int64{before, between, after}
			}
			random := rand.New(rand.NewPCG(seed, 1))
			for i := range versions[1:] {
				old, next := render(versions[i]), render(versions[i+1])
				for range 20 {
					mixed := slices.Clone(old)
					for at := 0; at < len(mixed); at += word {
						if random.IntN(2) == 0 {
							end := min(at+word, len(mixed))
							copy(mixed[at:end], next[at:end])
						}
					}
					if err := parse(mixed); err != nil {
						t.Fatalf("%v\n%s", err, mixed)
					}
				}
			}
		}
		check(before.meminfoValues(), after.meminfoValues(), renderMeminfo, func(text []byte) error {
			v, err := parseMeminfo(text)
			if err == nil && v["MemTotal"] != before.total {
				err = fmt.Errorf("MemTotal %d, want %d", v["MemTotal"], before.total)
			}
			return err
		})
		if before.swapTotal == 0 || after.swapTotal == 0 {
			return // the line in swaps comes or goes
		}
		check(before.swapsValues(), after.swapsValues(), renderSwaps, func(text []byte) error {
			_, _, err := parseSwaps(text)
			return err
		})
	})
}

// TestBridge: numbers whose digits would fall apart have a version in between.
func TestBridge(t *testing.T) {
	for _, test := range []struct{ before, after, want []int64 }{
		{[]int64{5, 100_000_000}, []int64{6, 9_999_999}, []int64{6, 99_999_999}},
		{[]int64{9_999_999, 7}, []int64{100_000_000, 8}, []int64{99_999_999, 8}},
		{[]int64{100_000_000}, []int64{10_000_000}, nil},
		{[]int64{99_999_999}, []int64{0}, nil},
		{[]int64{100_000_000}, []int64{999_999_999_999}, nil},
		{nil, []int64{1}, nil},
	} {
		if got := bridge(test.before, test.after); !slices.Equal(got, test.want) {
			t.Errorf("%d, %d: %d, want %d", test.before, test.after, got, test.want)
		}
	}
}

// fixture returns a Tree whose file systems are files in a new directory: a group /web of v1 or v2 with the given kernel files. dir is the
// group's directory in the hierarchy of the memory controller.
func fixture(t testing.TB, v2 bool, files map[string]string) (tree *cgroup.Tree, dir string) {
	t.Helper()
	root := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if v2 {
		put("proc/1/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
		put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
		put("sys/fs/cgroup/web/cgroup.controllers", "cpuset cpu memory\n")
	} else {
		mounts := ""
		for i, controller := range []string{"cpu", "cpuset", "memory"} {
			mounts += fmt.Sprintf("%d 23 0:%d / /sys/fs/cgroup/%s rw - cgroup cgroup rw,%s\n", 30+i, 30+i, controller, controller)
		}
		put("proc/1/mountinfo", mounts)
	}
	dir = "sys/fs/cgroup/memory/web"
	if v2 {
		dir = "sys/fs/cgroup/web"
	}
	for name, text := range files {
		put(dir+"/"+name, text)
	}
	tree, err := cgroup.Open(cgroup.Options{Root: root, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree, filepath.Join(root, dir)
}

// ruleRows returns the cells of testdata/meminfo-rules.md.
func ruleRows(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/meminfo-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for c := range cells {
			cells[c] = strings.TrimSpace(cells[c])
		}
		if len(cells) != 5 {
			t.Fatalf("%q has %d cells", line, len(cells))
		}
		if i >= 2 {
			rows = append(rows, cells)
		}
	}
	return rows
}

// TestMeminfoRules: the table of rules has the fields of the code. A group whose memory.stat has only the counter of a field has this value
// in the field, and a field whose rule is 0 is always 0.
func TestMeminfoRules(t *testing.T) {
	rows := ruleRows(t)
	if len(rows) != len(meminfoFields) {
		t.Fatalf("%d rules for %d fields", len(rows), len(meminfoFields))
	}
	machine := MachineMemory{Total: 4 * gib, Swap: 2 * gib}
	for i, field := range meminfoFields {
		name, rule := rows[i][0], rows[i][2]
		if isZero := rule == "0" || strings.HasPrefix(rule, "0,"); name != field.name || isZero != (field.value == nil) {
			t.Errorf("rule %q of %s, want the rule of %s", rule, name, field.name)
		}
		for column, v2 := range map[int]bool{3: true, 4: false} {
			counter := rows[i][column]
			if strings.HasPrefix(counter, "memory.") || counter == "total_swap" || counter == "" {
				continue
			}
			const size = 8 * mib
			stat := fmt.Sprintf("%s %d\n", counter, size)
			if strings.HasPrefix(rule, "the same, at most Cached") {
				stat += fmt.Sprintf("%s %d\n", map[bool]string{true: "file", false: "total_cache"}[v2], 2*size)
			}
			if counter == "anon_thp" || counter == "total_rss_huge" {
				stat += fmt.Sprintf("%s %d\n", map[bool]string{true: "anon", false: "total_rss"}[v2], size)
			}
			if counter == "shmem_thp" {
				stat += fmt.Sprintf("file %d\nshmem %d\n", size, size)
			}
			files := map[string]string{"memory.stat": stat, "memory.max": "1073741824", "memory.high": "max", "memory.current": "104857600",
				"memory.swap.max": "1073741824", "memory.swap.current": "104857600"}
			if !v2 {
				files = map[string]string{"memory.stat": stat + "total_swap 104857600\n", "memory.limit_in_bytes": "1073741824", "memory.usage_in_bytes": "104857600",
					"memory.memsw.limit_in_bytes": "2147483648", "memory.memsw.usage_in_bytes": "209715200"}
			}
			tree, _ := fixture(t, v2, files)
			m, err := tree.ReadMemory("/web")
			if err != nil {
				t.Fatal(err)
			}
			f := newMemory(m, machine)
			v, err := parseMeminfo(renderMeminfo(f.meminfoValues()))
			if err != nil || v[field.name] != size/1024 {
				t.Errorf("%s with %q: %d, %v; want %d", field.name, stat, v[field.name], err, size/1024)
			}
			if v["MemTotal"] != gib/1024 || v["MemFree"] != (gib-100*mib)/1024 || v["SwapTotal"] != gib/1024 || v["SwapFree"] != (gib-100*mib)/1024 {
				t.Errorf("%s: %v", field.name, v)
			}
		}
	}
}

// TestLimitsMemory: only a container with less memory than the machine has a view. After its limit is removed, the files show the machine's
// memory.
func TestLimitsMemory(t *testing.T) {
	machine := MachineMemory{Total: 8 * gib}
	for limit, want := range map[int64]bool{cgroup.NoMemoryLimit: false, 9 * gib: false, 8 * gib: false, 8*gib - 4096: true, 0: true} {
		m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: limit}, Free: limit, Usage: gib}
		if got := LimitsMemory(m, machine); got != want {
			t.Errorf("limit %d: %v", limit, got)
		}
		if f := newMemory(m, machine); !want && f.total != 8*gib/1024 || limit == cgroup.NoMemoryLimit && f.free != 7*gib/1024 || f.total < 4 {
			t.Errorf("limit %d: %+v", limit, f)
		}
	}
}

// TestReadMachineMemory compares with the kernel's meminfo.
func TestReadMachineMemory(t *testing.T) {
	machine, err := ReadMachineMemory()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(hostMeminfo)
	if err != nil {
		t.Fatal(err)
	}
	for _, total := range []struct {
		name string
		size int64
	}{{"MemTotal", machine.Total}, {"SwapTotal", machine.Swap}} {
		if want := regexp.MustCompile(fmt.Sprintf(`(?m)^%s: +%d kB$`, total.name, total.size/1024)); !want.Match(text) {
			t.Errorf("%s is %d", total.name, total.size)
		}
	}
}

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
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 512 * mib}, Free: 500 * mib, SwapLimit: 64 * mib, SwapFree: 64 * mib}
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
	m.Free, m.SwapFree = 3*mib, 5*mib
	write(f)
	m.Bound.Limit, m.Free, m.SwapLimit = 200*gib, 150*gib, 0
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
	limited := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 64 * mib}, Free: mib}
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
	m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: 512 * mib}, Free: 500 * mib}
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
		m.Bound.Limit, m.Free, m.SwapLimit, m.SwapFree = 250*gib, size*1024, 250*gib, size*1024
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
