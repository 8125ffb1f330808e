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

// lifted is the quota that bounds nobody: none, or on cgroup v1 that of 1024 CPUs. There the kubelet, which
// at a resize compares the pod's with the new one, has to find a higher one, so that it writes it
// after the containers': v1 refuses a pod less than what a container in it has.
func (op *operation) lifted(period time.Duration) time.Duration {
	if op.tree.Version() == 2 {
		return 0
	}
	return cpuset.Max * period
}

// mendPods gives the pods of which something has changed what their containers need.
func (op *operation) mendPods(grants []*Grant) {
	changed := op.changedPods(grants)
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		before, err := op.tree.EngineGroup("pod", path).Fingerprint()
		if seen, _ := op.podsSeen.Load(path); err == nil && !changed[path] && seen == before {
			continue
		}
		op.podsSeen.Delete(path)
		pod := op.podAt(path, grants)
		var wrote bool
		if err == nil {
			wrote, err = op.mendPod(pod, grants)
		}
		switch {
		case err != nil && !errors.Is(err, cgroup.ErrNoGroup):
			op.log.Warn("a pod's group keeps the quota and weight that it has", "group", path, "error", err)
		case err == nil && wrote && !changed[path]:
			op.report.Drift++
		case err == nil && !wrote && pod.isSettled():
			op.podsSeen.Store(path, before)
		}
	}
}

// A pod is what an operation finds of one.
type pod struct {
	path       string // of its group
	group      *cgroup.Group
	containers []*Grant // with those that are not begun, or held
	running    []*Grant
	strangers  bool // others run in it
	empty      bool // there is a group of others in it in which nothing runs as yet
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

// isSettled reports whether nothing becomes of a pod that a glance at it does not show: who enters a group that is
// there already is not seen. Of pods without containers nothing is remembered.
func (p *pod) isSettled() bool { return len(p.containers) > 0 && !p.empty }

// samePart reports whether the group of a pod depends on a container as it did before.
func samePart(g, before *Grant) bool {
	return before != nil && g.State == before.State && g.Limit == before.Limit && g.Weight == before.Weight &&
		g.Engine == before.Engine
}

// changedPods returns the groups of the pods that this operation has changed; with false, others where
// somebody else may have.
func (op *operation) changedPods(grants []*Grant) map[string]bool {
	changed := map[string]bool{}
	for _, g := range grants {
		isSame := samePart(g, op.before[g.ID]) && g.ID != op.rewritten
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

// mendPod brings the group of one pod to what it is to have. With its last container it gets back what
// the kubelet gave it.
func (op *operation) mendPod(p *pod, grants []*Grant) (wrote bool, err error) {
	if err := op.lookAround(p); err != nil {
		return false, err
	}
	if len(p.containers) > 0 && len(p.running) == 0 && !p.strangers {
		return false, nil // not begun, or between two containers
	}
	has, err := p.group.CPULimits()
	if err != nil {
		return false, err
	}
	note, err := readPodNote(p.group)
	if err != nil {
		return false, err
	}
	kubelets := note.kubelets(has, op.lifted(has.Period), op.grown(p.path, grants, has.Period))
	want := kubelets
	if len(p.running) > 0 && !p.strangers {
		want = op.podTime(kubelets, p.running, note.weighs(has))
	}
	next := podNote{kubelets.Quota, kubelets.Weight, want.Weight}
	if next != note && (want != kubelets || note != podNote{}) {
		if err := note.replace(next, p.group, has); err != nil {
			return false, err
		}
	}
	if want == has {
		return false, nil
	}
	op.log.Info("pod's group set", "group", p.path, "quota", want.Quota, "was", has.Quota, "weight", want.Weight, "weight was", has.Weight)
	return true, p.group.SetCPULimits(want)
}

// grown is by how much the kubelet will raise a pod's quota for the container that is resized. On cgroup v2
// it has written the pod's by then, once for all containers.
func (op *operation) grown(path string, grants []*Grant, period time.Duration) time.Duration {
	if op.tree.Version() == 2 {
		return 0
	}
	of := func(grants []*Grant) hybrid.Milli {
		i := slices.IndexFunc(grants, func(g *Grant) bool { return g.ID == op.resized && g.Engine.PodGroup() == path })
		if i < 0 {
			return 0
		}
		return grants[i].Limit
	}
	return (of(grants) - of(op.loaded.Grants)).Quota(period)
}

// podTime is what a pod's group is to have when these containers are all that runs in it. The quota is
// lifted where all have a limit, and these are within the pod's: a pod may have been given less than its containers.
// weighed: what the kubelet wants it to weigh may be something else by now, since it does not write what it finds there.
func (op *operation) podTime(kubelets cgroup.CPULimits, running []*Grant, weighed bool) cgroup.CPULimits {
	want := kubelets
	var limits time.Duration
	var weight, asked hybrid.Milli
	bounded := kubelets.Quota != 0
	for _, g := range running {
		limit := g.Limit.Quota(kubelets.Period).Truncate(time.Microsecond)
		if limit > bandwidth.MinQuota { // else the kubelet may have rounded it up to that
			limits += limit
		}
		bounded = bounded && g.Limit != 0
		weight += g.Weight
		if g.Class == hybrid.Sensitive {
			asked += g.Limit
		} else {
			asked += g.Weight
		}
	}
	if bounded && limits <= kubelets.Quota {
		want.Quota = op.lifted(kubelets.Period)
	}
	if weight != asked || weighed {
		want.Weight = op.tree.PodWeight(int(weight))
	}
	return want
}

// lookAround looks what is in a pod's group beside its containers, its sandbox and what the engine runs beside
// each of them.
func (op *operation) lookAround(p *pod) error {
	nested, processes, err := p.group.Members()
	if err != nil {
		return err
	}
	p.strangers = processes > 0
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
			p.strangers = true
		default:
			p.empty = true
		}
	}
	return nil
}

// engineID is the id that an engine has put into the name of a group: ID, or such as
// cri-containerd-ID.scope or crio-conmon-ID.
func engineID(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".scope")
	return name[strings.LastIndexByte(name, '-')+1:]
}

// A podNote stands at a pod's group: what the kubelet has given it, and the weight that Candor gave it
// since. What differs from the weight, and from a lifted quota, is news from the kubelet.
type podNote struct {
	quota        time.Duration // per the group's period; 0: none
	weight, ours int64
}

func (n podNote) String() string {
	return fmt.Sprintf("quota %d weight %d candor's %d", n.quota.Microseconds(), n.weight, n.ours)
}

// readPodNote returns the zero note where there is none, or one that no Candor has written.
func readPodNote(group *cgroup.Group) (podNote, error) {
	text, err := group.Annotation()
	return parsePodNote(text), err
}

func parsePodNote(text string) (n podNote) {
	var micros int64
	_, _ = fmt.Sscanf(text, "quota %d weight %d candor's %d", &micros, &n.weight, &n.ours) // what it cannot read, String does not write
	n.quota = time.Duration(micros) * time.Microsecond
	if n.String() != text || n.quota < 0 || n.weight < 0 || n.ours < 0 {
		return podNote{}
	}
	return n
}

// kubelets is what the kubelet wants a group to have: what it has, so far as that is not Candor's. A quota
// that was lifted is to grow by so much.
func (n podNote) kubelets(has cgroup.CPULimits, lifted, grown time.Duration) cgroup.CPULimits {
	if n.quota != 0 && has.Quota == lifted {
		has.Quota = n.quota + grown
	}
	if n.weighs(has) {
		has.Weight = n.weight
	}
	return has
}

// weighs reports whether a group's weight is Candor's.
func (n podNote) weighs(has cgroup.CPULimits) bool { return n.ours != n.weight && has.Weight == n.ours }

// replace writes another note at a group that has what it has. Candor's weight goes first: beside the other note
// it would be taken for the kubelet's, if that were the last thing that is done.
func (n podNote) replace(next podNote, group *cgroup.Group, has cgroup.CPULimits) error {
	if n.weighs(has) && next.ours != has.Weight {
		has.Weight = n.weight
		if err := group.SetCPULimits(has); err != nil {
			return err
		}
	}
	return group.SetAnnotation(next.String())
}

// The kubelet has all pods in one group. What the cpuset of that one lacks no pod can be given, so that
// it is usable for nobody: a node has one set of usable CPUs.

// topGroups are the pods' groups that are known. Whether they are there is another question.
type topGroups struct {
	sync.Mutex
	paths []string
	said  cpuset.Set // the CPUs of which the log says that they cannot be given
}

// topOf is the pods' group in a container's path: kubepods, and under systemd such as kubepods.slice or
// kubelet-kubepods.slice. "" if there is none.
func topOf(path string) string {
	parts := strings.Split(path, "/")
	i := slices.IndexFunc(parts, func(part string) bool {
		name := strings.TrimSuffix(part, ".slice")
		return name == "kubepods" || name != part && strings.HasSuffix(name, "-kubepods")
	})
	return strings.Join(parts[:i+1], "/")
}

// learn notes where the pods of a container's path are.
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

// learnFrom is learn for all grants of a state.
func (t *topGroups) learnFrom(grants []*Grant) {
	for _, g := range grants {
		t.learn(g.Engine.Cgroup)
	}
}

// usable returns the CPUs that containers can have, those that only the pods' groups keep from them, and the memory nodes that
// containers have unless told. A group that has none is not set up.
func (h *Host) usable() (usable, outside, mems cpuset.Set, err error) {
	all, mems, err := h.tree.Effective()
	if err != nil {
		return usable, outside, mems, err
	}
	usable = all
	for _, path := range h.tops.known() {
		cpus, _, err := h.tree.EngineGroup("pods", path).Effective()
		if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, fs.ErrNotExist) { // or without a cpuset of its own
			continue
		}
		if err != nil {
			return usable, outside, mems, err
		}
		if has := usable.Intersect(cpus); !has.IsEmpty() {
			usable = has
		}
	}
	return usable, all.Minus(usable), mems, nil
}

// UsableCPUs returns the CPUs that the cpusets of Candor's parent group and of
// the pods' group leave to containers. It reads no option of the machine.
func (h *Host) UsableCPUs() (cpuset.Set, error) {
	usable, _, _, err := h.usable()
	return usable, err
}

// sayOutside says which CPUs the pods' groups lack, when that has changed.
func (h *Host) sayOutside() error {
	has, outside, _, err := h.usable()
	if err != nil {
		return err
	}
	h.tops.Lock()
	defer h.tops.Unlock()
	switch {
	case outside == h.tops.said:
	case outside.IsEmpty():
		h.log.Info("the pods' group has all CPUs", "cpus", has)
	default:
		h.log.Warn("CPUs that the pods' group lacks are given to nobody", "cpus", outside, "the group has", has)
	}
	h.tops.said = outside
	return nil
}
