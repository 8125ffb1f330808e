package view

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/candor-project/candor/cpuset"
)

// A cpuinfo holds the parts of the text of /proc/cpuinfo.
type cpuinfo struct {
	head    []byte // lines before the first stanza (MIPS, old Arm kernels)
	stanzas []stanza
	tail    []byte // lines about the whole machine after the last stanza (POWER, old Arm kernels)
}

// A stanza is the part of /proc/cpuinfo that describes one CPU.
type stanza struct {
	cpu  int
	text []byte // without newlines and spaces at the end
}

// parseCPUInfo divides the text of /proc/cpuinfo into its parts, which share the memory of text. A stanza begins with a line
// "processor : N" and ends before the next such line. The last stanza ends at its first blank line.
func parseCPUInfo(text []byte) (cpuinfo, error) {
	var info cpuinfo
	start, cpu := -1, 0 // start and CPU of the present stanza; -1: before the first stanza
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

// lineEnd returns the index after the line that starts at i. The line includes its "\n".
func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(text)
}

// processorLine parses the first line of a stanza, for example "processor\t: 17". ok is false for other lines.
func processorLine(line []byte) (cpu int, ok bool) {
	key, value, found := bytes.Cut(line, []byte(":"))
	if !found || string(bytes.TrimRight(key, " \t")) != "processor" {
		return 0, false
	}
	id, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 16)
	return int(id), err == nil
}

// cpus returns the CPUs with a stanza. It omits IDs that a cpuset.Set cannot hold.
func (info *cpuinfo) cpus() cpuset.Set {
	var set cpuset.Set
	for _, s := range info.stanzas {
		if s.cpu < cpuset.Max {
			set.Add(s.cpu)
		}
	}
	return set
}

// stanzaLength returns the length in bytes to which a view pads every stanza. The length depends only on the longest stanza of the machine,
// so that it is the same for all rewrites of a view. It includes space for numbers that can get more digits, such as "cpu MHz".
func (info *cpuinfo) stanzaLength() int {
	longest := 0
	for _, s := range info.stanzas {
		longest = max(longest, len(s.text))
	}
	const space, step = 8, 64
	return (longest+space+step-1)/step*step - len("\n\n")
}

// render returns the text with the stanzas of the given CPUs only. It pads all stanzas to the same length. The padding is spaces after the
// last value of a stanza, because some readers (libuv) take every blank line for the end of a stanza.
func (info *cpuinfo) render(cpus cpuset.Set) ([]byte, error) {
	if missing := cpus.Minus(info.cpus()); !missing.IsEmpty() {
		return nil, fmt.Errorf("no stanza for CPU %v (offline?)", missing)
	}
	length := info.stanzaLength()
	out := make([]byte, 0, len(info.head)+cpus.Count()*(length+2)+len(info.tail))
	out = append(out, info.head...)
	for _, s := range info.stanzas {
		if !cpus.Contains(s.cpu) {
			continue
		}
		out = append(out, s.text...)
		out = append(out, bytes.Repeat([]byte(" "), length-len(s.text))...)
		out = append(out, "\n\n"...)
		cpus.Remove(s.cpu) // omit a second stanza of the same CPU, which readers would count as another CPU
	}
	return append(out, info.tail...), nil
}
