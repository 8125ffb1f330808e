package view

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/kernelfs"
)

// MachineMemory holds the totals of a machine in bytes. They are upper bounds for the totals of a container.
type MachineMemory struct {
	Total    int64 // memory
	Swap     int64
	HugePage int64 // default size of a huge page; 0: the kernel has none
}

// hugePage caches the default size of a huge page in bytes, a constant of the boot.
var hugePage struct {
	sync.Mutex
	size    int64
	isKnown bool
}

// readHugePage returns the default size of a huge page, which a view of meminfo has too.
func readHugePage() (int64, error) {
	hugePage.Lock()
	defer hugePage.Unlock()
	if hugePage.isKnown {
		return hugePage.size, nil
	}
	text, err := kernelfs.ReadLong(hostMeminfo, maxMeminfo)
	if err != nil {
		return 0, fmt.Errorf("is /proc mounted? %w", err)
	}
	values, err := parseMachine(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", hostMeminfo, err)
	}
	hugePage.size, hugePage.isKnown = values[fieldIndex("Hugepagesize")]*1024, true
	return hugePage.size, nil
}

// ReadMachineMemory returns the totals of this machine. It uses sysinfo(2), which no mounted file can change. A machine can get
// more memory, so the caller reads the totals for each write.
func ReadMachineMemory() (MachineMemory, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return MachineMemory{}, fmt.Errorf("sysinfo: %w", err)
	}
	unit := int64(info.Unit)
	page, err := readHugePage()
	return MachineMemory{Total: int64(info.Totalram) * unit, Swap: int64(info.Totalswap) * unit, HugePage: page}, err
}

// LimitsMemory reports whether a container has less memory than the machine. Only such a container has a view of its memory; every other
// container uses the files of the machine.
func LimitsMemory(m cgroup.Memory, machine MachineMemory) bool { return m.Bound.Limit < machine.Total }

// memory holds the figures of a container's meminfo in kB. Every figure follows the rule of its field in meminfoFields.
type memory struct {
	total, free, available                                                                   int64
	cached, anon, slabReclaimable, slabUnreclaimable, kernelStack                            int64
	pageTables, secPageTables, percpu                                                        int64
	swapTotal, swapFree, swapCached                                                          int64
	activeAnon, inactiveAnon, activeFile, inactiveFile, unevictable                          int64
	dirty, writeback, mapped, shmem, anonHuge, shmemHuge, fileHuge, vmalloc, zswap, zswapped int64
	hugePage                                                                                 int64
}

// Bounds of a total, in kB. A total of 0 would make programs divide by 0. The maximum has as many digits as a line of the files can hold.
const (
	minTotal = 4
	maxTotal = 999_999_999_999
)

// newMemory computes the figures. The kernel's counters are not exact, and come from several files. So newMemory bounds every part: the
// parts that do not overlap and MemFree add up to MemTotal at most.
func newMemory(m cgroup.Memory, machine MachineMemory) memory {
	inKB := func(bytes int64) int64 { return max(bytes, 0) / 1024 }
	f := memory{total: min(max(min(inKB(m.Bound.Limit), inKB(machine.Total)), minTotal), maxTotal)}
	f.free = min(inKB(m.Free), inKB(m.Available), max(f.total-inKB(m.Usage), 0))
	used := f.total - f.free

	rest := used
	take := func(bytes int64) int64 {
		part := min(inKB(bytes), rest)
		rest -= part
		return part
	}
	s := &m.Stat
	f.anon = take(s.Anon)
	f.cached = take(s.File - s.SwapCached)
	f.slabReclaimable, f.slabUnreclaimable = take(s.SlabReclaimable), take(s.SlabUnreclaimable)
	f.kernelStack, f.pageTables, f.secPageTables, f.percpu = take(s.KernelStack), take(s.PageTables), take(s.SecPageTables), take(s.Percpu)

	f.inactiveFile = min(inKB(s.InactiveFile), f.cached)
	f.activeFile = min(inKB(s.ActiveFile), f.cached-f.inactiveFile)
	rest = used - f.inactiveFile - f.activeFile
	f.inactiveAnon, f.activeAnon, f.unevictable = take(s.InactiveAnon), take(s.ActiveAnon), take(s.Unevictable)
	f.available = min(f.free+f.activeFile+f.inactiveFile+f.slabReclaimable, inKB(m.Available))
	if m.IsUncounted {
		f.available = min(f.total, inKB(m.Available))
	}

	f.shmem, f.mapped = min(inKB(s.Shmem), f.cached), min(inKB(s.Mapped), f.cached)
	f.dirty, f.writeback = min(inKB(s.Dirty), f.cached), min(inKB(s.Writeback), f.cached)
	f.anonHuge, f.shmemHuge, f.fileHuge = min(inKB(s.AnonHuge), f.anon), min(inKB(s.ShmemHuge), f.shmem), min(inKB(s.FileHuge), f.cached)
	f.vmalloc, f.zswap = min(inKB(s.Vmalloc), used), min(inKB(s.Zswap), used)

	f.hugePage = min(inKB(machine.HugePage), maxTotal)
	f.swapTotal = min(inKB(m.SwapLimit), inKB(machine.Swap), maxTotal)
	f.swapFree = max(min(inKB(m.SwapFree), f.swapTotal-inKB(m.SwapUsage)), 0)
	f.swapCached = min(inKB(s.SwapCached), f.swapTotal-f.swapFree)
	f.zswapped = min(inKB(s.Zswapped), f.swapTotal-f.swapFree)
	return f
}

// A meminfoField is a line of /proc/meminfo.
type meminfoField struct {
	name  string
	unit  string                // " kB" or ""
	value func(f *memory) int64 // nil: always 0
}

// maxValue returns the highest number that the line of a field has room for.
func (f *meminfoField) maxValue() int64 {
	const maxDigits = 18 // of an int64
	limit := int64(1)
	for range min(lineLength-len(f.name)-len(": ")-len(f.unit)-len("\n"), maxDigits) {
		limit *= 10
	}
	return limit - 1
}

// meminfoFields has the lines in the order of the kernel (fs/proc/meminfo.c of Linux 6.18). A field that has no meaning for a container is
// 0, and never has the value of the machine, except for the constant Hugepagesize, without which some programs fail.
// testdata/meminfo-rules.md has the rule of each field and the kernel's counters; the tests compare both.
var meminfoFields = []meminfoField{
	{"MemTotal", kB, func(f *memory) int64 { return f.total }},
	{"MemFree", kB, func(f *memory) int64 { return f.free }},
	{"MemAvailable", kB, func(f *memory) int64 { return f.available }},
	{"Buffers", kB, nil},
	{"Cached", kB, func(f *memory) int64 { return f.cached }},
	{"SwapCached", kB, func(f *memory) int64 { return f.swapCached }},
	{"Active", kB, func(f *memory) int64 { return f.activeAnon + f.activeFile }},
	{"Inactive", kB, func(f *memory) int64 { return f.inactiveAnon + f.inactiveFile }},
	{"Active(anon)", kB, func(f *memory) int64 { return f.activeAnon }},
	{"Inactive(anon)", kB, func(f *memory) int64 { return f.inactiveAnon }},
	{"Active(file)", kB, func(f *memory) int64 { return f.activeFile }},
	{"Inactive(file)", kB, func(f *memory) int64 { return f.inactiveFile }},
	{"Unevictable", kB, func(f *memory) int64 { return f.unevictable }},
	{"Mlocked", kB, nil},
	{"SwapTotal", kB, func(f *memory) int64 { return f.swapTotal }},
	{"SwapFree", kB, func(f *memory) int64 { return f.swapFree }},
	{"Zswap", kB, func(f *memory) int64 { return f.zswap }},
	{"Zswapped", kB, func(f *memory) int64 { return f.zswapped }},
	{"Dirty", kB, func(f *memory) int64 { return f.dirty }},
	{"Writeback", kB, func(f *memory) int64 { return f.writeback }},
	{"AnonPages", kB, func(f *memory) int64 { return f.anon }},
	{"Mapped", kB, func(f *memory) int64 { return f.mapped }},
	{"Shmem", kB, func(f *memory) int64 { return f.shmem }},
	{"KReclaimable", kB, func(f *memory) int64 { return f.slabReclaimable }},
	{"Slab", kB, func(f *memory) int64 { return f.slabReclaimable + f.slabUnreclaimable }},
	{"SReclaimable", kB, func(f *memory) int64 { return f.slabReclaimable }},
	{"SUnreclaim", kB, func(f *memory) int64 { return f.slabUnreclaimable }},
	{"KernelStack", kB, func(f *memory) int64 { return f.kernelStack }},
	{"PageTables", kB, func(f *memory) int64 { return f.pageTables }},
	{"SecPageTables", kB, func(f *memory) int64 { return f.secPageTables }},
	{"NFS_Unstable", kB, nil},
	{"Bounce", kB, nil},
	{"WritebackTmp", kB, nil},
	{"CommitLimit", kB, nil},
	{"Committed_AS", kB, nil},
	{"VmallocTotal", kB, nil},
	{"VmallocUsed", kB, func(f *memory) int64 { return f.vmalloc }},
	{"VmallocChunk", kB, nil},
	{"Percpu", kB, func(f *memory) int64 { return f.percpu }},
	{"HardwareCorrupted", kB, nil},
	{"AnonHugePages", kB, func(f *memory) int64 { return f.anonHuge }},
	{"ShmemHugePages", kB, func(f *memory) int64 { return f.shmemHuge }},
	{"ShmemPmdMapped", kB, nil},
	{"FileHugePages", kB, func(f *memory) int64 { return f.fileHuge }},
	{"FilePmdMapped", kB, nil},
	{"CmaTotal", kB, nil},
	{"CmaFree", kB, nil},
	{"Unaccepted", kB, nil},
	{"Balloon", kB, nil},
	{"HugePages_Total", "", nil},
	{"HugePages_Free", "", nil},
	{"HugePages_Rsvd", "", nil},
	{"HugePages_Surp", "", nil},
	{"Hugepagesize", kB, func(f *memory) int64 { return f.hugePage }},
	{"Hugetlb", kB, nil},
	{"DirectMap4k", kB, nil},
	{"DirectMap2M", kB, nil},
	{"DirectMap1G", kB, nil},
}

const kB = " kB"

// meminfoValues returns the values of meminfoFields.
func (f *memory) meminfoValues() []int64 {
	values := make([]int64, len(meminfoFields))
	for i, field := range meminfoFields {
		if field.value != nil {
			values[i] = field.value(f)
		}
	}
	return values
}

// Lengths of the lines of meminfo in bytes, with the newline. The first line has the kernel's format. In every other line, 4 more spaces
// follow the name. So the last 8 digits of every number are in an aligned word of 8 bytes (see "Memory" in the package comment). The length
// of the file is less than 4,096 bytes, because some programs (libuv) do not read more.
const (
	firstLineLength = 28
	lineLength      = 32
)

// renderMeminfo returns the text of meminfo.
func renderMeminfo(values []int64) []byte {
	out := make([]byte, 0, len(values)*lineLength)
	length := firstLineLength
	for i, field := range meminfoFields {
		end := field.unit + "\n"
		out = append(out, field.name...)
		out = append(out, ':')
		out = appendRight(out, values[i], length-len(field.name)-1-len(end))
		out = append(out, end...)
		length = lineLength
	}
	return out
}

// appendRight appends a number, padded with spaces on the left to a width.
func appendRight(out []byte, n int64, width int) []byte {
	digits := strconv.FormatInt(n, 10)
	for range width - len(digits) {
		out = append(out, ' ')
	}
	return append(out, digits...)
}

// swapsValues returns the size and the used size of the line in swaps, in kB.
func (f *memory) swapsValues() []int64 { return []int64{f.swapTotal, f.swapTotal - f.swapFree} }

// swapsHeader is the first line of /proc/swaps.
const swapsHeader = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"

// renderSwaps returns the text of swaps. A container with swap has a single line, which names no device: LXCFS uses the same line. Without
// swap, the header is padded with spaces to the same length, because some programs (gopsutil) fail on an empty line.
func renderSwaps(values []int64) []byte {
	line := append([]byte(swapsHeader), fmt.Sprintf("\n%-40s%s\t\t", "none", "virtual")...)
	line = appendRight(line, values[0], 16)
	line = append(line, '\t')
	line = appendRight(line, values[1], 15) // ends at a multiple of 8 bytes, as the numbers of meminfo do
	line = append(line, "\t0\n"...)
	if values[0] == 0 {
		for i := len(swapsHeader); i < len(line)-1; i++ {
			line[i] = ' '
		}
	}
	return line
}

// bridge returns values to write between two versions of a file, or nil if the second version can follow the first directly. A
// read during a write can mix the words of two versions. If a number has more than 8 digits in one version, and less than 8
// digits in the other, the mix could be "1 234": two numbers. The bridge has 8 digits in this place. Two numbers of more than 8
// digits, 100 GB or more in kB, need no bridge, but a mix has the first digits of one and the last 8 digits of the other: a single
// number that is in neither version.
func bridge(before, after []int64) []int64 {
	const minFull, maxFull = 10_000_000, 99_999_999 // numbers of 8 digits
	var between []int64
	for i := range min(len(before), len(after)) {
		low, high := min(before[i], after[i]), max(before[i], after[i])
		if low >= minFull || high <= maxFull {
			continue
		}
		if between == nil {
			between = slices.Clone(after)
		}
		between[i] = minFull // nearer to the lower number, so that no total becomes much higher
	}
	return between
}
