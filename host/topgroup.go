package host

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
)

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
		cpus, _, err := h.tree.Foreign("pods", path).Effective()
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
