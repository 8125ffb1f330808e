package view

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/candor-project/candor/cpuset"
)

// A cpuinfo is the text of /proc/cpuinfo cut into its parts.
type cpuinfo struct {
	head    []byte // lines before the first CPU (MIPS, old Arm kernels)
	stanzas []stanza
	tail    []byte // lines on the whole machine after the last CPU (POWER, old Arm kernels)
}

// A stanza is the part of /proc/cpuinfo on a CPU.
type stanza struct {
	cpu  int
	text []byte // without the line ends and blank lines at its end
}

// parseCPUInfo cuts the text of /proc/cpuinfo into stanzas. A stanza begins with a line "processor : N" and ends before the next such
// line; the last stanza ends at its first blank line. The parts share the memory of text.
func parseCPUInfo(text []byte) (cpuinfo, error) {
	var info cpuinfo
	start, cpu := -1, 0 // of the stanza that is being read
	for at := 0; at < len(text); {
		end := lineEnd(text, at)
		if id, ok := processorLine(text[at:end]); ok {
			if start < 0 {
				info.head = text[:at]
			} else {
				info.add(cpu, text[start:at])
			}
			start, cpu = at, id
		}
		at = end
	}
	if start < 0 {
		return cpuinfo{}, errors.New(`no line "processor : N": the format of this architecture is not known`)
	}
	last := text[start:]
	if blank := bytes.Index(last, []byte("\n\n")); blank >= 0 {
		last, info.tail = last[:blank], bytes.TrimLeft(last[blank:], "\n")
	}
	info.add(cpu, last)
	return info, nil
}

func (info *cpuinfo) add(cpu int, text []byte) {
	info.stanzas = append(info.stanzas, stanza{cpu, bytes.TrimRight(text, " \n")})
}

// lineEnd returns the index behind the line that starts at i, its "\n" included.
func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(text)
}

// processorLine reads the first line of a stanza, "processor\t: 17".
func processorLine(line []byte) (cpu int, ok bool) {
	key, value, found := bytes.Cut(line, []byte(":"))
	if !found || string(bytes.TrimRight(key, " \t")) != "processor" {
		return 0, false
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 16)
	return int(id), err == nil
}

// cpus returns the CPUs with a stanza, without IDs beyond the range of a Set.
func (info *cpuinfo) cpus() cpuset.Set {
	var set cpuset.Set
	for _, s := range info.stanzas {
		if s.cpu < cpuset.Max {
			set.Add(s.cpu)
		}
	}
	return set
}

// stanzaLength returns the padded length of every stanza in bytes. It depends on the whole machine, not on the view, and leaves space for a
// number that grows by a digit ("cpu MHz" does), so that it is the same for all rewrites.
func (info *cpuinfo) stanzaLength() int {
	longest := 0
	for _, s := range info.stanzas {
		longest = max(longest, len(s.text))
	}
	const room, step = 8, 64
	return (longest+room+step-1)/step*step - len("\n\n")
}

// render writes the text with the stanzas of the given CPUs only. Each has the
// same length: the spaces go behind its last value, since some readers (libuv)
// take every blank line for the end of a stanza.
func (info *cpuinfo) render(cpus cpuset.Set) ([]byte, error) {
	if missing := cpus.Minus(info.cpus()); !missing.IsEmpty() {
		return nil, fmt.Errorf("no stanza for CPU %v (offline?)", missing)
	}
	slot := info.stanzaLength()
	out := make([]byte, 0, len(info.head)+cpus.Count()*(slot+2)+len(info.tail))
	out = append(out, info.head...)
	for _, s := range info.stanzas {
		if !cpus.Contains(s.cpu) {
			continue
		}
		out = append(out, s.text...)
		out = append(out, bytes.Repeat([]byte(" "), slot-len(s.text))...)
		out = append(out, "\n\n"...)
		cpus.Remove(s.cpu) // a second stanza of the same CPU would count twice
	}
	return append(out, info.tail...), nil
}
