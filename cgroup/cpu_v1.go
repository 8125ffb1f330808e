package cgroup

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

const (
	quotaV1  = "cpu.cfs_quota_us"
	periodV1 = "cpu.cfs_period_us"
	burstV1  = "cpu.cfs_burst_us"
)

func readCPUV1(dir string) (s cpuState, err error) {
	if s.cfsBandwidth, err = readBandwidthV1(dir); err != nil {
		return s, err
	}
	s.weight, err = readInt(dir, "cpu.shares")
	return s, err
}

func readBandwidthV1(dir string) (b cfsBandwidth, err error) {
	if b.quota, err = readInt(dir, quotaV1); err != nil {
		return b, err
	}
	b.quota = max(b.quota, noQuota)
	if b.period, err = readInt(dir, periodV1); err != nil {
		return b, err
	}
	b.burst, err = readInt(dir, burstV1)
	if errors.Is(err, fs.ErrNotExist) { // Linux before 5.14 has none
		return b, nil
	}
	return b, err
}

// setBandwidthV1 writes the differences. The kernel refuses, at any moment, a burst above the quota and a nested group with more
// than its parent: the burst is lowered first and raised last, and nested groups that would exceed their parent are lowered
// before it.
func setBandwidthV1(dir string, now, next cfsBandwidth) error {
	if next.burst < now.burst {
		if err := writeInt(dir, burstV1, next.burst); err != nil {
			return err
		}
	}
	var err error
	for range retries {
		if err = setLimitV1(dir, now, next); !errors.Is(err, unix.EINVAL) {
			break
		}
		isLowered, failed := lowerNestedV1(dir, next)
		if failed != nil {
			return failed
		}
		if !isLowered {
			break
		}
	}
	if err != nil {
		return err
	}
	if next.burst > now.burst {
		if err := writeInt(dir, burstV1, next.burst); err != nil {
			return err
		}
	}
	if next.exceeds(now) {
		return raiseNestedV1(dir, now, next)
	}
	return nil
}

// setLimitV1 changes quota and period, which are two files. The allowance between the two writes is never above the allowances
// before and after: parents, and nested groups by their own limits, bound it from above and below.
func setLimitV1(dir string, now, next cfsBandwidth) error {
	quota := func() error { return changeV1(dir, quotaV1, now.quota, next.quota) }
	period := func() error { return changeV1(dir, periodV1, now.period, next.period) }

	first, second := quota, period
	if now.quota == noQuota || next.quota > now.quota && next.period > now.period {
		first, second = period, quota
	}
	err := first()
	if err == nil {
		return second()
	}
	bothGrow := next.quota > now.quota && next.period > now.period
	bothShrink := next.quota < now.quota && next.period < now.period
	if !errors.Is(err, unix.EINVAL) || now.quota == noQuota || next.quota == noQuota || !bothGrow && !bothShrink {
		return err
	}
	// A nested group forbids the value between the writes. Without a quota of its own, the group is bound by its parent alone,
	// which is always allowed.
	for _, step := range []struct {
		file  string
		value int64
	}{{quotaV1, noQuota}, {periodV1, next.period}, {quotaV1, next.quota}} {
		if err = writeInt(dir, step.file, step.value); err != nil {
			_ = writeInt(dir, periodV1, now.period)
			_ = writeInt(dir, quotaV1, now.quota)
			return err
		}
	}
	return nil
}

func changeV1(dir, file string, now, next int64) error {
	if now == next {
		return nil
	}
	return writeInt(dir, file, next)
}
