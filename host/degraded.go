package host

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/view"
)

// A Setting is a part of a container's settings that the kernel can refuse separately.
type Setting string

// Settings.
const (
	SettingCPUs   Setting = "cpus"
	SettingMems   Setting = "mems"
	SettingQuota  Setting = "quota" // with the period
	SettingBurst  Setting = "burst"
	SettingWeight Setting = "weight"
	SettingView   Setting = "view"
	SettingLive   Setting = "live-view" // the files of the view with memory and CPU time
	SettingGroup  Setting = "group"     // the files of the group cannot be read
)

// A Degraded is a setting that the kernel refused. The container keeps its former setting.
type Degraded struct {
	Container string
	Setting   Setting
	Err       error // error of the last attempt
	Since     time.Time
}

// After each refusal, Candor waits twice as long before it writes the setting again: firstRetry after the first refusal, and at most
// maxRetry.
const (
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// degradedSettings holds the degraded settings of a host. They are in memory only: a new process finds them by
// attempting the writes again. The zero value is empty. It is safe for concurrent use.
type degradedSettings struct {
	mu  sync.Mutex
	all map[string][]*refusedSetting // by container
}

type refusedSetting struct {
	Degraded
	wanted   any // the refused value; comparable with ==
	failures int
	retry    time.Time
}

// contains reports whether a container has a degraded setting.
func (d *degradedSettings) contains(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all[name]) > 0
}

func (d *degradedSettings) find(name string, s Setting) *refusedSetting {
	for _, r := range d.all[name] {
		if r.Setting == s {
			return r
		}
	}
	return nil
}

// isDue reports whether the operation should write a value: the kernel has not refused the value, or its retry time has come.
func (d *degradedSettings) isDue(name string, s Setting, wanted any) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(name, s)
	return r == nil || r.wanted != wanted || !time.Now().Before(r.retry)
}

// add records a refusal. isNew is true if this setting had no recorded refusal, or if the recorded refusal had another error.
func (d *degradedSettings) add(name string, s Setting, wanted any, err error) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	r := d.find(name, s)
	if isNew = r == nil || r.Err.Error() != err.Error(); r == nil {
		r = &refusedSetting{Degraded: Degraded{Container: name, Setting: s, Since: now}}
		if d.all == nil {
			d.all = map[string][]*refusedSetting{}
		}
		d.all[name] = append(d.all[name], r)
	}
	if r.wanted != wanted {
		r.wanted, r.failures = wanted, 0
	}
	r.Err = err
	r.retry = now.Add(min(firstRetry<<min(r.failures, 20), maxRetry))
	r.failures++
	return isNew
}

// remove deletes a refusal and reports whether it existed.
func (d *degradedSettings) remove(name string, s Setting) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(name, s)
	if r == nil {
		return false
	}
	d.all[name] = slices.DeleteFunc(d.all[name], func(other *refusedSetting) bool { return other == r })
	if len(d.all[name]) == 0 {
		delete(d.all, name)
	}
	return true
}

// retain deletes the refusals of containers that have ended.
func (d *degradedSettings) retain(isThere func(name string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.all {
		if !isThere(name) {
			delete(d.all, name)
		}
	}
}

// Degraded returns the settings that this process could not write, ordered by container and setting.
func (h *Host) Degraded() []Degraded {
	h.degraded.mu.Lock()
	defer h.degraded.mu.Unlock()
	var all []Degraded
	for _, refused := range h.degraded.all {
		for _, r := range refused {
			all = append(all, r.Degraded)
		}
	}
	slices.SortFunc(all, func(a, b Degraded) int {
		return strings.Compare(a.Container+"\x00"+string(a.Setting), b.Container+"\x00"+string(b.Setting))
	})
	return all
}

// degrade records that the kernel refused a setting, and that the container keeps its present value. The operation continues.
func (op *operation) degrade(name string, s Setting, wanted any, err error) {
	if op.isUndoing { // the refused value is the former value, not the granted value
		return
	}
	if op.Host.degraded.add(name, s, wanted, err) {
		op.log.Warn("degraded: the kernel refused a setting, and the container keeps its present setting", op.logName(name), "setting", string(s), "error", err)
	}
}

// restored records that a setting is in force.
func (op *operation) restored(name string, s Setting) {
	if op.Host.degraded.remove(name, s) {
		op.log.Info("no longer degraded", op.logName(name), "setting", string(s))
	}
}

// A Difference is a setting of a running container that differs from its grant.
type Difference struct {
	Setting Setting `json:"setting"`
	Has     string  `json:"has"`
	Granted string  `json:"granted"`
}

// differences compares the settings of a running container with its grant.
func (h *Host) differences(g *Grant, c *ContainerState) []Difference {
	if c.Unreadable != nil {
		return []Difference{{SettingGroup, "unreadable: " + c.Unreadable.Error(), "readable"}}
	}
	if h.isPlan || g.State != Running || !c.Exists || len(c.Processes) == 0 || !g.Lost.IsEmpty() {
		return nil
	}
	var all []Difference
	add := func(s Setting, current, granted string) {
		if current != granted {
			all = append(all, Difference{s, current, granted})
		}
	}
	current, wanted := c.Settings, h.settings(g)
	add(SettingCPUs, noneIfEmpty(current.CPUs), noneIfEmpty(wanted.CPUs))
	if isRounded := current.Quota == roundedUp(wanted.Quota, wanted.Period); isRounded || isLeased(g, current) {
		wanted.Burst = min(wanted.Burst, current.Quota)
		current.Quota = wanted.Quota
	}
	add(SettingQuota, quotaText(current), quotaText(wanted))
	add(SettingBurst, current.Burst.String(), wanted.Burst.String())
	if !h.tree.SameWeight(current.Weight, wanted.Weight) {
		add(SettingWeight, strconv.Itoa(current.Weight), strconv.Itoa(wanted.Weight))
	}
	if g.View.HasFiles() {
		add(SettingView, c.shownText(), noneIfEmpty(g.CPUs))
	}
	return all
}

// shownText returns the CPUs of the view as text.
func (l *ContainerState) shownText() string {
	switch {
	case errors.Is(l.ShownErr, view.ErrLeased):
		return "unreadable: " + view.ErrLeased.Error()
	case l.ShownErr != nil && !errors.Is(l.ShownErr, fs.ErrNotExist):
		return "unreadable: " + l.ShownErr.Error()
	default:
		return noneIfEmpty(l.Shown)
	}
}

func noneIfEmpty(cpus cpuset.Set) string {
	if cpus.IsEmpty() {
		return "none"
	}
	return cpus.String()
}

func quotaText(s cgroup.Settings) string {
	if s.Quota == 0 {
		return "none"
	}
	return s.Quota.Truncate(time.Microsecond).String() + " per " + s.Period.String()
}
