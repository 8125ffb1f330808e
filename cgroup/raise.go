package cgroup

import "time"

// SetQuota gives a group another quota for a short time; period and burst stay. Nested groups that had all
// of the quota follow. systemd is not told: what a unit says is what the group goes back to. Linux refuses
// (EINVAL) a quota below the burst, and v1 one beyond that of a group above.
func (g *Group) SetQuota(quota time.Duration) error {
	if g.err != nil {
		return g.err
	}
	h, dir := g.tree.cpu, g.dir(g.tree.cpu)
	now, err := h.readBandwidth(dir)
	if err != nil {
		return g.wrap(err)
	}
	next := now
	next.quota = quota.Microseconds()
	if h.v2 {
		return g.wrap(setBandwidthV2(dir, now, next))
	}
	return g.wrap(g.quotaCause(setBandwidthV1(dir, now, next), next))
}
