package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/errline"
	"github.com/candor-project/candor/internal/kernelfs"
)

// Names of the files of a memory view in the view's directory, and the files of the kernel that they replace.
const (
	meminfoName = "meminfo"
	swapsName   = "swaps"
	totalName   = "memtotal" // MemTotal in kB, for other processes of Candor: a read of meminfo counts as a read of the container
	hostMeminfo = "/proc/meminfo"
	hostSwaps   = "/proc/swaps"
)

// MemoryFiles are the open files of a memory view: meminfo and swaps, and memtotal, which no container mounts. While they are open for writing, no process can take a lease on
// them. MemoryFiles are not safe for concurrent use.
type MemoryFiles struct {
	meminfo, swaps, total numbersFile
}

// OpenMemory opens the files of a memory view for writing, and creates missing files, readable by all users. It creates the directory if it
// is missing, but not its parent. As Open, it refuses symbolic links, special files and files of another user, and returns ErrLeased
// instead of waiting.
func OpenMemory(dir string) (*MemoryFiles, error) {
	d, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openMemory(d, unix.O_CREAT|unix.O_NONBLOCK)
}

// OpenMemoryExisting is like OpenMemory, but returns fs.ErrNotExist instead of creating files.
func OpenMemoryExisting(dir string) (*MemoryFiles, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer d.Close()
	return openMemory(d, unix.O_NONBLOCK)
}

func openMemory(d *os.File, flags int) (*MemoryFiles, error) {
	meminfo, err := openFile(d, meminfoName, flags)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	swaps, err := openFile(d, swapsName, flags)
	if err != nil {
		meminfo.Close()
		return nil, fmt.Errorf("view: %w", err)
	}
	total, err := openFile(d, totalName, flags)
	if err != nil {
		meminfo.Close()
		swaps.Close()
		return nil, fmt.Errorf("view: %w", err)
	}
	return &MemoryFiles{
		meminfo: numbersFile{file: meminfo, render: renderMeminfo, parse: parseMachine},
		swaps:   numbersFile{file: swaps, render: renderSwaps, parse: parseSwapsView},
		total:   numbersFile{file: total, render: renderTotal, parse: parseTotal},
	}, nil
}

// Close closes the files. It does not remove the view.
func (f *MemoryFiles) Close() {
	f.meminfo.file.Close()
	f.swaps.file.Close()
	f.total.file.Close()
}

// Write writes the memory of a container. It rewrites each changed file in place: the offset and the width of every number stay, and
// MemTotal changes only if the limit or the machine's memory changes. It does not write an unchanged file.
//
// If the container has no limit, because its limit was removed after its start, MemTotal is the memory of the machine.
func (f *MemoryFiles) Write(m cgroup.Memory, machine MachineMemory) error {
	figures := newMemory(m, machine)
	err := f.meminfo.write(figures.meminfoValues())
	return errline.Join(err, f.swaps.write(figures.swapsValues()), f.total.write([]int64{figures.total}))
}

// WriteMachine writes the machine's present memory. It is for a container that still has the view mounted when Candor is removed. A field
// that the machine's kernel does not have is 0.
func (f *MemoryFiles) WriteMachine() error {
	text, err := kernelfs.ReadLong(hostMeminfo, maxMeminfo)
	if err != nil {
		return fmt.Errorf("view: is /proc mounted? %w", err)
	}
	values, err := parseMachine(text)
	if err != nil {
		return fmt.Errorf("view: %s: %w", hostMeminfo, err)
	}
	size, free := values[fieldIndex("SwapTotal")], values[fieldIndex("SwapFree")]
	total := values[fieldIndex("MemTotal")]
	if err := errline.Join(f.swaps.write([]int64{size, size - free}), f.total.write([]int64{total})); err != nil {
		return err
	}
	return f.meminfo.write(values) // the last file: ShowsMachine looks at it
}

// maxMeminfo bounds the length of the machine's /proc/meminfo in bytes. It is less than 2 kB.
const maxMeminfo = 64 << 10

// parseMachine returns the values of meminfoFields in a /proc/meminfo of the kernel.
func parseMachine(text []byte) ([]int64, error) {
	values := make([]int64, len(meminfoFields))
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		i := fieldIndex(string(name))
		if i < 0 {
			continue
		}
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("cannot parse %.60q", line)
		}
		values[i] = min(n, maxTotal, meminfoFields[i].maxValue())
	}
	total, free := fieldIndex("SwapTotal"), fieldIndex("SwapFree")
	values[free] = min(values[free], values[total])
	if values[fieldIndex("MemTotal")] == 0 {
		return nil, errors.New("no MemTotal")
	}
	return values, nil
}

// parseSwapsView returns the values of the text of swaps in a view.
func parseSwapsView(text []byte) ([]int64, error) {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 2 {
		return []int64{0, 0}, nil
	}
	var size, used int64
	if _, err := fmt.Sscanf(lines[1], "none virtual %d %d", &size, &used); err != nil {
		return nil, fmt.Errorf("cannot parse %.60q: %w", lines[1], err)
	}
	return []int64{size, used}, nil
}

// renderTotal returns the text of memtotal.
func renderTotal(values []int64) []byte { return append(appendRight(nil, values[0], 15), '\n') }

// parseTotal returns the value of the text of memtotal.
func parseTotal(text []byte) ([]int64, error) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n <= 0 || n > maxTotal {
		return nil, fmt.Errorf("cannot parse %.60q", text)
	}
	return []int64{n}, nil
}

// fieldIndex returns the index of a field in meminfoFields, or -1.
func fieldIndex(name string) int {
	return slices.IndexFunc(meminfoFields, func(f meminfoField) bool { return f.name == name })
}

// MemoryBinds returns the bind mounts of the memory view in dir. A kernel without swap has no /proc/swaps.
func MemoryBinds(dir string) []Bind {
	binds := []Bind{{filepath.Join(dir, meminfoName), hostMeminfo, "/proc"}}
	if _, err := os.Lstat(hostSwaps); err == nil {
		binds = append(binds, Bind{filepath.Join(dir, swapsName), hostSwaps, "/proc"})
	}
	return binds
}

// A numbersFile is a file whose text depends on a list of numbers, with a constant length, and constant offsets and widths of the numbers.
type numbersFile struct {
	file   *os.File
	render func(values []int64) []byte
	parse  func(text []byte) ([]int64, error)
	values []int64       // present values; nil: unknown
	length int           // of the file in bytes, at least the length of the text
	time   unix.Timespec // modification time after the last write or read
}

// load reads the present values, unless they are those of the last write: another process can have written the file, before or
// since then.
func (f *numbersFile) load() error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: f.file.Name(), Err: err}
	}
	if f.values != nil && stat.Mtim == f.time {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f.file, 0, maxMeminfo))
	if err != nil {
		return err
	}
	f.length, f.time = int(stat.Size), stat.Mtim
	if f.values, err = f.parse(text); err != nil || !bytes.Equal(f.text(f.values), text) { // an empty file, or another layout
		f.values = nil
	}
	return nil
}

// stamp records the modification time after a write.
func (f *numbersFile) stamp() {
	var stat unix.Stat_t
	if unix.Fstat(int(f.file.Fd()), &stat) == nil {
		f.time, f.length = stat.Mtim, int(stat.Size)
	} else {
		f.values = nil
	}
}

// write replaces the whole content of the file by a single pwrite, or by two if the numbers need a bridge. It does nothing if the values
// are unchanged.
func (f *numbersFile) write(values []int64) error {
	if err := f.load(); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	if slices.Equal(values, f.values) {
		return nil
	}
	if between := bridge(f.values, values); between != nil {
		if err := f.put(between); err != nil {
			return err
		}
	}
	if err := f.put(values); err != nil {
		return err
	}
	f.values = values
	f.stamp()
	return nil
}

// text returns the content of the file with the given values.
func (f *numbersFile) text(values []int64) []byte {
	text := f.render(values)
	if more := f.length - len(text); more > 0 { // a file with more lines, from another release of Candor
		text = append(text[:len(text)-1], bytes.Repeat([]byte(" "), more)...)
		text = append(text, '\n')
	}
	return text
}

func (f *numbersFile) put(values []int64) error {
	if err := kernelfs.FaultOf(kernelfs.WriteAccess, f.file.Name()); err != nil {
		return fmt.Errorf("view: %w", &fs.PathError{Op: "write", Path: f.file.Name(), Err: err})
	}
	if _, err := f.file.WriteAt(f.text(values), 0); err != nil {
		return fmt.Errorf("view: %w", err)
	}
	return nil
}

// Files returns the files that a Refresher watches.
func (f *MemoryFiles) Files() []*os.File { return []*os.File{f.meminfo.file, f.swaps.file} }
