package view

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/candor-project/candor/cgroup"
)

// A MemorySource is a source in which programs find the size of the memory.
type MemorySource struct {
	Name   string `json:"name"`      // path of a file, or one of the constants below
	Role   Role   `json:"role"`      // as for a Source
	Bytes  int64  `json:"sizeBytes"` // 0: unknown, or no limit
	Path   string `json:"path,omitempty"`
	Masked string `json:"masked,omitempty"` // file system of the file that is mounted over the file; "": none
	Error  string `json:"error,omitempty"`
}

// Names of the sources that are not files with a fixed path.
const (
	SourceSysinfo     = "sysinfo(2)"
	SourceMemoryLimit = "cgroup memory"
)

// addMemory adds the sources of the memory from the file system root, and compares /proc/meminfo with the limit. machine is the
// machine's memory in bytes.
func (r *Report) addMemory(root fs.FS, machine int64) {
	table := readMounts(root)
	limit := observeMemoryLimit(root, table)
	shown := MemorySource{Name: hostMeminfo, Role: Reported}
	for _, m := range table {
		if m.Mountpoint == hostMeminfo {
			shown.Masked = m.FSType
		}
	}
	text, err := fs.ReadFile(root, strings.TrimPrefix(hostMeminfo, "/"))
	var values []int64
	if err == nil {
		values, err = parseMachine(text)
	}
	if err != nil {
		shown.Error = errorText(err)
	} else {
		shown.Bytes = values[fieldIndex("MemTotal")] * 1024
	}
	r.Memory = []MemorySource{shown, {Name: SourceSysinfo, Role: Machine, Bytes: machine}, limit}
	if limit.Bytes != 0 && limit.Bytes < machine {
		r.MemoryLimit = limit.Bytes
	}
	switch {
	case r.MemoryLimit == 0:
	case shown.Error != "":
		r.Reasons = append(r.Reasons, fmt.Sprintf("%s cannot be read: %s", hostMeminfo, shown.Error))
	case shown.Bytes/1024 != r.MemoryLimit/1024:
		r.Reasons = append(r.Reasons, fmt.Sprintf("%s reports %d MiB, the memory limit is %d MiB", hostMeminfo, shown.Bytes>>20, r.MemoryLimit>>20))
	}
	r.IsTrue = len(r.Reasons) == 0
}

// observeMemoryLimit reads the lowest memory limit among the process's cgroup and the cgroups above it.
func observeMemoryLimit(root fs.FS, table []*mountinfo.Info) MemorySource {
	s := MemorySource{Name: SourceMemoryLimit, Role: Grant}
	g, err := findGroup(root, table, "memory")
	if errors.Is(err, errNoController) {
		return s
	}
	if err != nil {
		s.Error = errorText(err)
		return s
	}
	files := []string{"memory.max", "memory.high"}
	if g.version == 1 {
		files = []string{"memory.limit_in_bytes"}
	}
	for _, dir := range g.dirs {
		for _, name := range files {
			file := path.Join(dir, name)
			limit, err := parseLimit(readText(root, file))
			if err != nil {
				s.Path, s.Error = file, errorText(err)
				return s
			}
			if limit != 0 && (s.Bytes == 0 || limit < s.Bytes) {
				s.Path, s.Bytes = file, limit
			}
		}
	}
	return s
}

// parseLimit parses a memory limit in bytes. It returns 0 for no limit, and for an empty text of a missing file.
func parseLimit(text []byte) (int64, error) {
	word := strings.TrimSpace(string(text))
	if word == "" || word == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%.40q is not a number of bytes", word)
	}
	if n > cgroup.NoMemoryLimit/2 { // the largest number of pages of v1
		return 0, nil
	}
	return n, nil
}

// readOwnMemory adds the memory of the calling process to a report.
func (r *Report) readOwnMemory() {
	if machine, err := ReadMachineMemory(); err == nil {
		r.addMemory(os.DirFS("/"), machine.Total)
	}
}
