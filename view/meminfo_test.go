package view

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

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
	m.Available = rapid.OneOf(rapid.Just(int64(cgroup.NoMemoryLimit)), size).Draw(t, "available")
	s := &m.Stat
	for _, field := range []*int64{&s.Anon, &s.File, &s.Shmem, &s.SwapCached, &s.Mapped, &s.Dirty, &s.Writeback, &s.ActiveAnon, &s.InactiveAnon,
		&s.ActiveFile, &s.InactiveFile, &s.Unevictable, &s.AnonHuge, &s.ShmemHuge, &s.FileHuge, &s.SlabReclaimable, &s.SlabUnreclaimable,
		&s.KernelStack, &s.PageTables, &s.SecPageTables, &s.Percpu, &s.Vmalloc, &s.Zswap, &s.Zswapped} {
		*field = draw("part")
	}
	if m.IsUncounted = rapid.IntRange(0, 9).Draw(t, "uncounted") == 0; m.IsUncounted {
		m.Usage, m.SwapUsage, m.Stat = 0, 0, cgroup.MemoryStat{}
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
			got := sum(parts...)
			if name == "MemAvailable" && v[name] > got && !m.IsUncounted {
				t.Fatalf("%v are %d together, less than MemAvailable:\n%s", parts, got, text)
			}
			if bound := v["MemTotal"]; got > bound {
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

// TestMixedVersions: a read beside a write has words of two versions of meminfo, and both MemTotal and each line parse. A line with up to
// 8 digits in both versions has a number of one of them.
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
		{[]int64{5, 100_000_000}, []int64{6, 9_999_999}, []int64{6, 10_000_000}},
		{[]int64{9_999_999, 7}, []int64{100_000_000, 8}, []int64{10_000_000, 8}},
		{[]int64{100_000_000}, []int64{10_000_000}, nil},
		{[]int64{99_999_999}, []int64{0}, nil},
		{[]int64{100_000_000}, []int64{999_999_999_999}, nil}, // a mix is a third number
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
	machine := MachineMemory{Total: 4 * gib, Swap: 2 * gib, HugePage: 2 * mib}
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
				files = map[string]string{"memory.stat": stat + "total_swap 104857600\nhierarchical_memsw_limit 2147483648\n", "memory.limit_in_bytes": "1073741824", "memory.usage_in_bytes": "104857600",
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
		m := cgroup.Memory{Bound: cgroup.MemoryBound{Limit: limit}, Free: limit, Available: limit, Usage: gib}
		if got := LimitsMemory(m, machine); got != want {
			t.Errorf("limit %d: %v", limit, got)
		}
		if f := newMemory(m, machine); !want && f.total != 8*gib/1024 || !want && f.free != 7*gib/1024 || f.total < 4 {
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
