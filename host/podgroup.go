package host

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/candor-project/candor/bandwidth"
	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// liftedQuota returns a pod quota that limits no container: 0 (no quota) on cgroup v2, and the quota of 1024 CPUs on v1. At a
// resize the kubelet compares the pod's present quota with the new quota. On v1 the present quota must be higher, so that the
// kubelet writes the pod's cgroup last: v1 refuses a pod quota below a container's quota.
func (op *operation) liftedQuota(period time.Duration) time.Duration {
	if op.tree.Version() == 2 {
		return 0
	}
	return cpuset.Max * period
}

// repairPods writes the cgroups of the pods that have changed.
func (op *operation) repairPods(grants []*Grant) {
	changed := op.changedPods(grants)
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		before, err := op.tree.EngineGroup("pod", path).Fingerprint()
		if seen, _ := op.podFingerprints.Load(path); err == nil && !changed[path] && seen == before {
			continue
		}
		op.podFingerprints.Delete(path)
		pod := op.podAt(path, grants)
		var wrote bool
		if err == nil {
			wrote, err = op.repairPod(pod, grants)
		}
		switch {
		case err != nil && !errors.Is(err, cgroup.ErrNoGroup):
			op.log.Warn("cannot set a pod's quota and weight", "group", path, "error", err)
		case err == nil && wrote && !changed[path]:
			op.report.Drift++
		case err == nil && !wrote && pod.isSettled():
			op.podFingerprints.Store(path, before)
		}
	}
}

// A pod holds the cgroup of a Kubernetes pod, and the pod's containers.
type pod struct {
	path          string // path of the pod's cgroup
	group         *cgroup.Group
	containers    []*Grant // including pending and held containers
	running       []*Grant
	hasForeign    bool // foreign processes run in it
	hasEmptyGroup bool // it has a foreign cgroup without processes
}

func (op *operation) podAt(path string, grants []*Grant) *pod {
	p := &pod{path: path, group: op.tree.EngineGroup("pod", path)}
	for _, g := range grants {
		if strings.HasPrefix(g.Engine.Cgroup, path) && g.Engine.PodGroup() == path {
			p.containers = append(p.containers, g)
			if g.State == Running {
				p.running = append(p.running, g)
			}
		}
	}
	return p
}

// isSettled reports whether the fingerprint of a pod's cgroup shows every later change that matters. The fingerprint
// does not show a process that enters an existing empty cgroup. Pods without containers are never settled.
func (p *pod) isSettled() bool { return len(p.containers) > 0 && !p.hasEmptyGroup }

// isSameForPod reports whether the fields of a container that affect its pod's cgroup are unchanged.
func isSameForPod(g, before *Grant) bool {
	return before != nil && g.State == before.State && g.Limit == before.Limit && g.Weight == before.Weight &&
		g.Engine == before.Engine
}

// changedPods returns the cgroups of the pods that this operation has changed, with the value true. With everyPod it
// also returns the other pods (false), which foreign processes can have changed.
func (op *operation) changedPods(grants []*Grant) map[string]bool {
	changed := map[string]bool{}
	for _, g := range grants {
		isSame := isSameForPod(g, op.before[g.ID]) && g.ID != op.rewritten
		if isSame && !op.everyPod {
			continue
		}
		if path := g.Engine.PodGroup(); path != "" {
			changed[path] = changed[path] || !isSame
		}
	}
	for _, g := range op.loaded.Grants {
		if op.info[g.ID] != nil && op.info[g.ID].Engine == g.Engine {
			continue
		}
		if path := g.Engine.PodGroup(); path != "" {
			changed[path] = true
		}
	}
	return changed
}

// repairPod writes the quota and weight that a pod's cgroup needs. After its last container has ended, the cgroup gets
// the kubelet's settings back.
func (op *operation) repairPod(p *pod, grants []*Grant) (wrote bool, err error) {
	if err := op.inspectMembers(p); err != nil {
		return false, err
	}
	if len(p.containers) > 0 && len(p.running) == 0 && !p.hasForeign {
		return false, nil // no container of the pod runs: the first has not started, or the next one starts later
	}
	current, err := p.group.CPULimits()
	if err != nil {
		return false, err
	}
	record, err := readPodRecord(p.group)
	if err != nil {
		return false, err
	}
	original := record.kubeletLimits(current, op.liftedQuota(current.Period), op.pendingGrowth(p.path, grants, current.Period))
	wanted := original
	if len(p.running) > 0 && !p.hasForeign {
		wanted = op.podLimits(original, p.running, record.hasOwnWeight(current))
	}
	next := podRecord{original.Quota, original.Weight, wanted.Weight}
	if next != record && (wanted != original || record != podRecord{}) {
		if err := record.replace(next, p.group, current); err != nil {
			return false, err
		}
	}
	if wanted == current {
		return false, nil
	}
	op.log.Info("pod's cgroup set", "group", p.path, "quota", wanted.Quota, "former quota", current.Quota, "weight", wanted.Weight, "former weight", current.Weight)
	return true, p.group.SetCPULimits(wanted)
}

// pendingGrowth returns the increase of a pod's quota that the kubelet will write for the resized container. It is 0
// on cgroup v2, where the kubelet writes the pod's quota first, once for all containers.
func (op *operation) pendingGrowth(path string, grants []*Grant, period time.Duration) time.Duration {
	if op.tree.Version() == 2 {
		return 0
	}
	limitIn := func(grants []*Grant) hybrid.Milli {
		i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == op.resized && g.Engine.PodGroup() == path })
		if i < 0 {
			return 0
		}
		return grants[i].Limit
	}
	return (limitIn(grants) - limitIn(op.loaded.Grants)).Quota(period)
}

// podLimits returns the limits that a pod's cgroup needs for its running containers. It lifts the quota if all containers have a
// limit and the sum of the limits fits into the pod's quota. A lower quota stays, because it is the pod's own limit. If the
// present weight is Candor's (hasOwnWeight), podLimits always sets the weight, because the recorded weight of the kubelet can be
// out of date. The kubelet writes no weight that the file already has. Candor therefore cannot detect that the kubelet's new
// weight equals Candor's weight.
func (op *operation) podLimits(original cgroup.CPULimits, running []*Grant, hasOwnWeight bool) cgroup.CPULimits {
	wanted := original
	var limits time.Duration
	var weight, requested hybrid.Milli
	isLimited := original.Quota != 0
	for _, g := range running {
		limit := g.Limit.Quota(original.Period).Truncate(time.Microsecond)
		if limit > bandwidth.MinQuota { // the kubelet rounds shorter quotas up to the minimum
			limits += limit
		}
		isLimited = isLimited && g.Limit != 0
		weight += g.Weight
		if g.Class == hybrid.Sensitive {
			requested += g.Limit
		} else {
			requested += g.Weight
		}
	}
	if isLimited && limits <= original.Quota {
		wanted.Quota = op.liftedQuota(original.Period)
	}
	if weight != requested || hasOwnWeight {
		wanted.Weight = op.tree.PodWeight(int(weight))
	}
	return wanted
}

// inspectMembers searches a pod's cgroup for foreign processes and cgroups. The pod's containers, its sandbox, and the engine's helpers of
// the containers and the sandbox are not foreign.
func (op *operation) inspectMembers(p *pod) error {
	nested, processes, err := p.group.Members()
	if err != nil {
		return err
	}
	p.hasForeign = processes > 0
	known := map[string]bool{}
	for _, g := range p.containers {
		known[g.Engine.Sandbox], known[engineID(g.Engine.Cgroup)] = true, true
	}
	for _, name := range nested {
		if known[engineID(name)] {
			continue
		}
		switch populated, err := op.tree.EngineGroup("pod", filepath.Join(p.path, name)).Populated(); {
		case errors.Is(err, cgroup.ErrNoGroup):
		case err != nil:
			return err
		case populated:
			p.hasForeign = true
		default:
			p.hasEmptyGroup = true
		}
	}
	return nil
}

// engineID returns the container id in an engine's name of a cgroup, such as ID, cri-containerd-ID.scope or
// crio-conmon-ID.
func engineID(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".scope")
	return name[strings.LastIndexByte(name, '-')+1:]
}

// A podRecord is stored in an extended attribute of a pod's cgroup. It holds the kubelet's settings, and the weight that Candor
// wrote instead of the kubelet's weight. If the cgroup has this weight, or the quota of liftedQuota, Candor has written the
// value. Any other value comes from the kubelet.
type podRecord struct {
	quota                time.Duration // per period of the cgroup; 0: none
	weight, candorWeight int64
}

func (n podRecord) String() string {
	return fmt.Sprintf("quota %d weight %d candor's %d", n.quota.Microseconds(), n.weight, n.candorWeight)
}

// readPodRecord reads the record of a cgroup. A missing or foreign record is the zero value.
func readPodRecord(group *cgroup.Group) (podRecord, error) {
	text, err := group.Annotation()
	return parsePodRecord(text), err
}

func parsePodRecord(text string) (n podRecord) {
	var micros int64
	_, _ = fmt.Sscanf(text, "quota %d weight %d candor's %d", &micros, &n.weight, &n.candorWeight) // the comparison with String finds errors
	n.quota = time.Duration(micros) * time.Microsecond
	if n.String() != text || n.quota < 0 || n.weight < 0 || n.candorWeight < 0 {
		return podRecord{}
	}
	return n
}

// kubeletLimits returns the limits that the kubelet has chosen for a cgroup: the present limits, with Candor's own values
// replaced by the recorded values. If Candor has lifted the quota, kubeletLimits adds growth to the recorded quota.
func (n podRecord) kubeletLimits(current cgroup.CPULimits, lifted, growth time.Duration) cgroup.CPULimits {
	if n.quota != 0 && current.Quota == lifted {
		current.Quota = n.quota + growth
	}
	if n.hasOwnWeight(current) {
		current.Weight = n.weight
	}
	return current
}

// hasOwnWeight reports whether Candor has written a cgroup's present weight.
func (n podRecord) hasOwnWeight(current cgroup.CPULimits) bool {
	return n.candorWeight != n.weight && current.Weight == n.candorWeight
}

// replace stores another record at a cgroup with the given present limits. It first resets Candor's weight: if candor
// were killed after storing the new record, the next operation would take the old weight for the kubelet's.
func (n podRecord) replace(next podRecord, group *cgroup.Group, current cgroup.CPULimits) error {
	if n.hasOwnWeight(current) && next.candorWeight != current.Weight {
		current.Weight = n.weight
		if err := group.SetCPULimits(current); err != nil {
			return err
		}
	}
	return group.SetAnnotation(next.String())
}

// The kubelet puts all pods below one cgroup, the top cgroup. No pod can get a CPU that is missing from the cpuset of that
// cgroup. Candor treats such a CPU as unusable for all containers, because a node has one set of usable CPUs.

// topGroups holds the paths of the kubelet's top cgroups. A path in it need not exist.
type topGroups struct {
	sync.Mutex
	paths    []string
	reported cpuset.Set // the unusable CPUs that the log has reported
}

// topOf returns the kubelet's top cgroup in a container's path: kubepods, or with systemd a name such as
// kubepods.slice or kubelet-kubepods.slice. It returns "" if the path has none.
func topOf(path string) string {
	parts := strings.Split(path, "/")
	i := slices.IndexFunc(parts, func(part string) bool {
		name := strings.TrimSuffix(part, ".slice")
		return name == "kubepods" || name != part && strings.HasSuffix(name, "-kubepods")
	})
	return strings.Join(parts[:i+1], "/")
}

// learn records the kubelet's top cgroup in a container's path.
func (t *topGroups) learn(path string) {
	isBelow := func(top string) bool { return strings.HasPrefix(path, top+"/") }
	t.Lock()
	defer t.Unlock()
	if slices.ContainsFunc(usualTops, isBelow) || slices.ContainsFunc(t.paths, isBelow) {
		return
	}
	if top := topOf(path); top != "" {
		t.paths = append(t.paths, top)
	}
}

var usualTops = []string{"/kubepods", "/kubepods.slice"}

func (t *topGroups) known() []string {
	t.Lock()
	defer t.Unlock()
	return slices.Concat(usualTops, t.paths)
}

// learnFrom calls learn for each grant of a state.
func (t *topGroups) learnFrom(grants []*Grant) {
	for _, g := range grants {
		t.learn(g.Engine.Cgroup)
	}
}

// usable returns the CPUs that containers can get, the CPUs that only the kubelet's top cgroups exclude, and the
// default memory nodes of containers. A top cgroup with an empty cpuset is not set up yet and excludes nothing.
func (h *Host) usable() (usable, outside, mems cpuset.Set, err error) {
	all, mems, err := h.tree.Effective()
	if err != nil {
		return usable, outside, mems, err
	}
	usable = all
	for _, path := range h.tops.known() {
		cpus, _, err := h.tree.EngineGroup("pods", path).Effective()
		if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // ErrNotExist: the cgroup has no cpuset controller
			continue
		}
		if err != nil {
			return usable, outside, mems, err
		}
		if current := usable.Intersect(cpus); !current.IsEmpty() {
			usable = current
		}
	}
	return usable, all.Minus(usable), mems, nil
}

// UsableCPUs returns the CPUs that the cpusets of Candor's parent cgroup and of the kubelet's top cgroups leave to containers. It
// ignores the machine's options, such as reserved CPUs.
func (h *Host) UsableCPUs() (cpuset.Set, error) {
	usable, _, _, err := h.usable()
	return usable, err
}

// logUnusable logs the CPUs that the kubelet's top cgroups exclude, if they have changed.
func (h *Host) logUnusable() error {
	current, outside, _, err := h.usable()
	if err != nil {
		return err
	}
	h.tops.Lock()
	defer h.tops.Unlock()
	switch {
	case outside == h.tops.reported:
	case outside.IsEmpty():
		h.log.Info("the pods' cgroup has all CPUs", "cpus", current)
	default:
		h.log.Warn("containers cannot use CPUs that are missing from the pods' cgroup", "cpus", outside, "cgroup CPUs", current)
	}
	h.tops.reported = outside
	return nil
}
