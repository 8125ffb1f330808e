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
	if errors.Is(err, fs.ErrNotExist) { // Linux before 5.14 has no burst
		return b, nil
	}
	return b, err
}

// setBandwidthV1 writes the values of next that differ from now. At any moment, the kernel refuses a burst above the quota, and a nested
// group whose bandwidth exceeds its parent's bandwidth. Therefore setBandwidthV1 lowers the burst first and raises the burst last, and
// lowers nested groups before their parent.
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

// setLimitV1 changes the quota and the period, which are in two files. The limit of an ancestor can forbid a higher ratio of quota to
// period. Therefore setLimitV1 orders the two writes so that the ratio after the first write does not exceed the larger of the old and the
// new ratio. A nested group can forbid a lower ratio; then setLimitV1 removes the quota before the two writes.
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
	// A nested group forbids the ratio after the first write. Remove the quota first, which the kernel always allows: without a quota, the
	// group has the bandwidth of its parent.
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
