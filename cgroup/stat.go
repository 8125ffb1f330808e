package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// A Stat is what a group has used, also by CPU.
type Stat struct {
	Usage
	PerCPU []time.Duration // CPU time by CPU id; nil where the kernel does not tell (v2)
}

// Stat returns what the group has used. Fields that this kernel does not count are 0.
func (g *Group) Stat() (Stat, error) {
	if g.err != nil {
		return Stat{}, g.err
	}
	r, err := g.openUsage()
	if err != nil {
		return Stat{}, err
	}
	defer r.Close()
	var s Stat
	if s.Usage, err = r.Read(); err == nil {
		s.PerCPU, err = g.perCPU()
	}
	return s, err
}

// perCPU reads what v1's cpuacct controller counts by CPU.
func (g *Group) perCPU() ([]time.Duration, error) {
	if g.tree.cpu.v2 {
		return nil, nil
	}
	dir := g.dir(g.tree.acct)
	const file = "cpuacct.usage_percpu"
	content, err := read(dir, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, g.wrap(err)
	}
	usage, err := parsePerCPU(content)
	if err != nil {
		return nil, g.wrap(badContent(dir, file, content))
	}
	return usage, nil
}

// parsePerCPU reads cpuacct.usage_percpu: nanoseconds, a number for each
// possible CPU.
func parsePerCPU(content []byte) ([]time.Duration, error) {
	var usage []time.Duration
	for number := range bytes.FieldsSeq(content) {
		n, err := strconv.ParseUint(string(number), 10, 64)
		if err != nil {
			return nil, err
		}
		usage = append(usage, duration(n, time.Nanosecond))
	}
	return usage, nil
}

// field finds one count in a file of lines such as "populated 1".
func field(content []byte, key string) (uint64, error) {
	for line := range bytes.Lines(content) {
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if string(name) == key {
			return strconv.ParseUint(string(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no line %q", key)
}
