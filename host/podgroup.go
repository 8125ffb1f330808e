package host

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/hybrid"
)

// The kubelet gives the group of a pod a quota, the sum of the limits, and a weight, the sum of the
// requests. Candor's containers are bounded each by itself, so the quota above them would only throttle:
// those without one of their own, with another period or with a burst. The weight counts
// against other pods, where that of a container ends at its pod: there it is to be the sum of Candor's.
//
// What the pods' groups are to have follows from the grants. So they are written after the state, and
// what fails is written by the next operation that looks at the pod: Reconcile at the latest.

// podGroup is the path of the group of a container's pod; "" where the group above the container's does not
// bear the pod's id: that one may hold others.
func (e *Engine) podGroup() string {
	above := filepath.Dir(e.Cgroup)
	base, isSlice := strings.CutSuffix(filepath.Base(above), ".slice")
	id := e.Pod
	if isSlice { // "-" would be another level
		id = strings.ReplaceAll(id, "-", "_")
	}
	if e.Pod == "" || base != "pod"+id && !(isSlice && strings.HasSuffix(base, "-pod"+id)) {
		return ""
	}
	return above
}

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
func (op *operation) mendPods(grants []Grant) {
	changed := op.changedPods(grants)
	for _, path := range slices.Sorted(maps.Keys(changed)) {
		before, err := op.tree.Foreign("pod", path).Glance()
		if seen, _ := op.podsSeen.Load(path); err == nil && !changed[path] && seen == before {
			continue
		}
		op.podsSeen.Delete(path)
		var wrote bool
		if err == nil {
			wrote, err = op.mendPod(path, grants)
		}
		switch {
		case err == nil && !wrote:
			op.podsSeen.Store(path, before)
		case err != nil && !errors.Is(err, cgroup.ErrNoGroup):
			op.log.Warn("a pod's group keeps the quota and weight that it has", "group", path, "error", err)
		}
	}
}

// podPart is what the group of a pod depends on of a container.
type podPart struct {
	pod           string
	state         State
	limit, weight hybrid.Milli
}

func podParts(grants []Grant) map[string]podPart {
	parts := make(map[string]podPart, len(grants))
	for i := range grants {
		if g := &grants[i]; g.Engine.podGroup() != "" {
			parts[g.ID] = podPart{g.Engine.podGroup(), g.State, g.Limit, g.Weight}
		}
	}
	return parts
}

// changedPods returns the groups of the pods that this operation has changed; with false, others where
// somebody else may have.
func (op *operation) changedPods(grants []Grant) map[string]bool {
	changed := map[string]bool{}
	before := podParts(op.loaded.Grants)
	for name, part := range podParts(grants) {
		if name == op.rewritten || before[name] != part {
			changed[part.pod] = true
		} else if op.everyPod {
			changed[part.pod] = changed[part.pod]
		}
		delete(before, name)
	}
	for _, ended := range before {
		changed[ended.pod] = true
	}
	return changed
}

// mendPod brings the group of one pod to what it is to have. With its last container it gets back what
// the kubelet gave it.
func (op *operation) mendPod(path string, grants []Grant) (wrote bool, err error) {
	running, known := inPod(path, grants)
	if known && len(running) == 0 {
		return false, nil // not begun, or between two containers
	}
	group := op.tree.Foreign("pod", path)
	has, err := group.CPUTime()
	if err != nil {
		return false, err
	}
	note, err := readPodNote(group)
	if err != nil {
		return false, err
	}
	kubelets := note.kubelets(has, op.lifted(has.Period), op.grown(path, grants, has.Period))
	alone, err := op.holdsOnly(group, path, running)
	if err != nil {
		return false, err
	}
	want := kubelets
	if alone {
		want = op.podTime(kubelets, running, note.weighs(has))
	}
	next := podNote{kubelets.Quota, kubelets.Weight, want.Weight}
	if next != note && (want != kubelets || note != podNote{}) {
		if err := group.SetNote(next.String()); err != nil {
			return false, err
		}
	}
	if want == has {
		return false, nil
	}
	op.log.Info("pod's group set", "group", path, "quota", want.Quota, "was", has.Quota, "weight", want.Weight, "weight was", has.Weight)
	return true, group.SetCPUTime(want)
}

// inPod returns the containers that run in a pod's group, and whether there are others of that pod.
func inPod(path string, grants []Grant) (running []*Grant, known bool) {
	for i := range grants {
		if g := &grants[i]; g.Engine.podGroup() == path {
			known = true
			if g.State == Running {
				running = append(running, g)
			}
		}
	}
	return running, known
}

// grown is by how much the kubelet will raise a pod's quota for the container that is resized, where it
// writes the pod's after the containers'.
func (op *operation) grown(path string, grants []Grant, period time.Duration) time.Duration {
	of := func(grants []Grant) hybrid.Milli {
		i := slices.IndexFunc(grants, func(g Grant) bool { return g.ID == op.resized && g.Engine.podGroup() == path })
		if i < 0 {
			return 0
		}
		return grants[i].Limit
	}
	return time.Duration(of(grants)-of(op.loaded.Grants)) * period / 1000
}

// podTime is what a pod's group is to have when these containers are all that runs in it. The quota is
// lifted where all have a limit, and these are within the pod's: a pod may have been given less than its containers.
// weighed: what the kubelet wants it to weigh may be something else by now, since it does not write what it finds there.
func (op *operation) podTime(kubelets cgroup.CPUTime, running []*Grant, weighed bool) cgroup.CPUTime {
	want := kubelets
	var limits time.Duration
	var weight, asked hybrid.Milli
	bounded := kubelets.Quota != 0
	for _, g := range running {
		limit := (time.Duration(g.Limit) * kubelets.Period / 1000).Truncate(time.Microsecond)
		if limit > cgroup.MinQuota { // else the kubelet may have rounded it up to that
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

// holdsOnly reports whether nothing runs in a pod's group but these containers, the pod's sandbox and what
// the engine runs beside each of them.
func (op *operation) holdsOnly(group *cgroup.Group, path string, running []*Grant) (bool, error) {
	nested, processes, err := group.Members()
	if err != nil || processes > 0 || len(running) == 0 {
		return false, err
	}
	known := map[string]bool{}
	for _, g := range running {
		known[g.Engine.Sandbox], known[engineID(g.Engine.Cgroup)] = true, true
	}
	for _, name := range nested {
		if known[engineID(name)] {
			continue
		}
		populated, err := op.tree.Foreign("pod", filepath.Join(path, name)).Populated()
		if err != nil && !errors.Is(err, cgroup.ErrNoGroup) {
			return false, err
		}
		if populated {
			return false, nil
		}
	}
	return true, nil
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
	text, err := group.Note()
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
func (n podNote) kubelets(has cgroup.CPUTime, lifted, grown time.Duration) cgroup.CPUTime {
	if n.quota != 0 && has.Quota == lifted {
		has.Quota = n.quota + grown
	}
	if n.weighs(has) {
		has.Weight = n.weight
	}
	return has
}

// weighs reports whether a group's weight is Candor's.
func (n podNote) weighs(has cgroup.CPUTime) bool { return n.ours != n.weight && has.Weight == n.ours }
