package cgroup

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

func readCPUV2(dir string) (s cpuState, err error) {
	if s.cfsBandwidth, err = readBandwidthV2(dir); err != nil {
		return s, err
	}
	s.weight, err = readInt(dir, "cpu.weight")
	return s, err
}

func readBandwidthV2(dir string) (b cfsBandwidth, err error) {
	content, err := read(dir, "cpu.max")
	if err != nil {
		return b, err
	}
	if b.quota, b.period, err = parseMax(string(content)); err != nil {
		return b, badContent(dir, "cpu.max", content)
	}
	b.burst, err = readInt(dir, "cpu.max.burst")
	if errors.Is(err, fs.ErrNotExist) { // Linux before 5.14 has no burst
		return b, nil
	}
	return b, err
}

// parseMax parses the content of cpu.max, such as "max 100000" or "50000 100000".
func parseMax(content string) (quota, period int64, err error) {
	first, second, _ := strings.Cut(content, " ")
	quota = noQuota
	if first != "max" {
		if quota, err = strconv.ParseInt(first, 10, 64); err != nil {
			return 0, 0, err
		}
	}
	if period, err = strconv.ParseInt(second, 10, 64); err != nil {
		return 0, 0, err
	}
	if quota < noQuota || period <= 0 {
		return 0, 0, strconv.ErrRange
	}
	return quota, period, nil
}

// setBandwidthV2 writes the values of next that differ from now. The kernel refuses a burst above the quota at any moment, so
// setBandwidthV2 lowers the burst before the quota and raises the burst after the quota. Nested groups do not change, because v2 allows
// them a quota above their parent's quota.
func setBandwidthV2(dir string, now, next cfsBandwidth) error {
	if next.burst < now.burst {
		if err := writeInt(dir, "cpu.max.burst", next.burst); err != nil {
			return err
		}
	}
	if next.quota != now.quota || next.period != now.period {
		quota := "max"
		if next.quota != noQuota {
			quota = strconv.FormatInt(next.quota, 10)
		}
		if err := write(dir, "cpu.max", quota+" "+strconv.FormatInt(next.period, 10)); err != nil {
			return err
		}
	}
	if next.burst > now.burst {
		return writeInt(dir, "cpu.max.burst", next.burst)
	}
	return nil
}
