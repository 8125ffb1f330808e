package cgroup

// lowerNestedV1 lowers the groups below dir that are allowed more than top,
// since v1 refuses to give their parent less than they have.
func lowerNestedV1(dir string, top bandwidth) (lowered bool, err error) {
	nested, err := subgroups(dir)
	if err != nil {
		return false, err
	}
	for _, child := range nested {
		now, err := readBandwidthV1(child)
		if err == nil && now.quota == none {
			var below bool
			below, err = lowerNestedV1(child, top)
			lowered = lowered || below
		} else if err == nil && now.exceeds(top) {
			lowered = true
			err = setBandwidthV1(child, now, now.within(top))
		}
		if err != nil && !gone(err) {
			return lowered, err
		}
	}
	return lowered, nil
}

// raiseNestedV1 lets those groups below dir grow with it that had all of it,
// by their own wish or since lowerNestedV1 left them so. Others keep what they have.
func raiseNestedV1(dir string, before, after bandwidth) error {
	nested, err := subgroups(dir)
	if err != nil {
		return err
	}
	for _, child := range nested {
		now, err := readBandwidthV1(child)
		if err == nil && now.quota == none {
			err = raiseNestedV1(child, before, after)
		} else if err == nil && before.quota != none && now == now.within(before) {
			err = setBandwidthV1(child, now, now.within(after)) // and so on below it
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// within returns b with as much as top allows, for the period of b.
func (b bandwidth) within(top bandwidth) bandwidth {
	if top.quota == none {
		b.quota = none
		return b
	}
	b.quota = int64(product(top.quota, b.period) / uint64(top.period))
	if minQuota, maxPeriod := MinQuota.Microseconds(), MaxPeriod.Microseconds(); b.quota < minQuota { // less than the kernel takes: the period for which it is enough
		b.quota = minQuota
		b.period = min((minQuota*top.period+top.quota-1)/top.quota, maxPeriod)
	}
	b.burst = min(b.burst, b.quota)
	return b
}
