package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"
)

// Stat returns what the group has used. Fields that this kernel does not count are 0.
func (g *Group) Stat() (Stat, error) {
	if g.err != nil {
		return Stat{}, g.err
	}
	t := g.tree
	dir := g.dir(t.cpu)
	content, err := read(dir, "cpu.stat")
	if err != nil {
		return Stat{}, g.wrap(err)
	}
	s, err := parseStat(content)
	if err != nil {
		return s, g.wrap(fmt.Errorf("%s/cpu.stat: %w", dir, err))
	}
	if !t.cpu.v2 {
		err = g.statAcct(&s)
	}
	return s, g.wrap(err)
}

// statAcct adds what v1's cpuacct controller counts.
func (g *Group) statAcct(s *Stat) error {
	if g.tree.acct == nil {
		return errors.New("the CPU time used is not known: the controller cpuacct is not mounted")
	}
	dir := g.dir(g.tree.acct)
	usage, err := readInt(dir, "cpuacct.usage")
	if err != nil {
		return err
	}
	s.Usage = time.Duration(usage)
	const file = "cpuacct.usage_percpu"
	content, err := read(dir, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.PerCPU, err = parsePerCPU(content); err != nil {
		return badContent(dir, file, content)
	}
	return nil
}

// parseStat reads cpu.stat. v1 counts time in nanoseconds, v2 in microseconds
// and under other names. Keys that it does not know are skipped: kernels add some.
func parseStat(content []byte) (s Stat, err error) {
	for line := range bytes.Lines(content) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		key, value, _ := bytes.Cut(line, []byte(" "))
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return Stat{}, fmt.Errorf("cannot make sense of %.60q", line)
		}
		switch string(key) {
		case "nr_periods":
			s.Periods = n
		case "nr_throttled":
			s.Throttled = n
		case "nr_bursts":
			s.Bursts = n
		case "throttled_time":
			s.ThrottledTime = duration(n, time.Nanosecond)
		case "throttled_usec":
			s.ThrottledTime = duration(n, time.Microsecond)
		case "burst_time":
			s.BurstTime = duration(n, time.Nanosecond)
		case "burst_usec":
			s.BurstTime = duration(n, time.Microsecond)
		case "usage_usec":
			s.Usage = duration(n, time.Microsecond)
		}
	}
	return s, nil
}

// duration is n units; more than a Duration can hold is the most it can.
func duration(n uint64, unit time.Duration) time.Duration {
	if n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return time.Duration(n) * unit
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
