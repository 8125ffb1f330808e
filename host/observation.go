package host

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/cpuset"
	"github.com/candor-project/candor/internal/procfs"
	"github.com/candor-project/candor/spec"
	"github.com/candor-project/candor/view"
)

// An Observation holds the CPUs that the programs of a container see, compared with the settings of the container.
type Observation struct {
	view.Observation
	// SeenView is the view that the programs have: ViewCPU with the files of a view, ViewFull and ViewFullStat with its live
	// files too, ViewAffinity with the files of the kernel, "" with other files or if the files are unknown.
	SeenView spec.View
	// Note gives the reason and the remedy if the sources differ and the settings do not explain the difference. Otherwise, Note is "".
	Note string
}

// Summary returns the CPU counts and the note.
func (o *Observation) Summary() view.Summary {
	s := o.Observation.Summary()
	s.Note = o.Note
	return s
}

// Observe returns the CPUs that the programs of a container see. It reads the affinity and the mount table of the first
// process (view.Observe), takes no lock, and opens no file of the container. The error is cgroup.ErrNoGroup or
// fs.ErrNotExist if the container has ended.
func (h *Host) Observe(g *Grant) (o Observation, err error) {
	group := h.groupOf(g)
	cpus, _, err := group.Effective()
	if err != nil {
		return o, err
	}
	var first int
	if o.Observation, first, err = h.observeFirst(g); err != nil || first == 0 {
		return o, err
	}
	o.widen(group, first, cpus)
	if o.compare(g, cpus); h.isPlan {
		o.Note = "" // a plan changes no container
	}
	return o, nil
}

// CompareView compares the CPUs that the programs of a running container see with the settings of the container. cpus is the
// cpuset of the container's cgroup.
func CompareView(g *Grant, seen view.Observation, cpus cpuset.Set) Observation {
	o := Observation{Observation: seen}
	o.compare(g, cpus)
	return o
}

// observeFirst observes the first process of a container. If the process is in a cgroup that is nested too deeply, first is 0 and the
// observation has IsHidden set.
func (h *Host) observeFirst(g *Grant) (o view.Observation, first int, err error) {
	first = g.Main.PID
	if !g.Main.Alive() {
		if first, err = h.groupOf(g).FirstProcess(); errors.Is(err, cgroup.ErrTooMany) {
			return view.Observation{IsHidden: true}, 0, nil
		}
	}
	if err == nil && first == 0 { // the processes have ended, and the cgroup is about to be removed
		err = fmt.Errorf("%s: its processes: %w", g.ID, fs.ErrNotExist)
	}
	if err != nil {
		return o, 0, err
	}
	if o, err = view.Observe(first, h.store.ViewsDir()); err != nil {
		return o, 0, fmt.Errorf("%s: %w", g.ID, err)
	}
	return o, first, nil
}

// maxObserved bounds the processes of a container whose affinity is read.
const maxObserved = 64

// widen finds the widest affinity of the container's processes if the first process has fewer CPUs than the cpuset. For example,
// the first process of a container can restrict itself to one CPU, or pin each of its threads.
func (o *Observation) widen(group *cgroup.Group, first int, cpus cpuset.Set) {
	remaining := maxObserved
	isWide := func() bool {
		affinity := o.CPUs()
		return affinity.Count() >= cpus.Count()
	}
	o.WidenByThreads(first, cpus)
	if isWide() {
		return
	}
	// After an error, the affinity of the processes read so far remains.
	_, _ = group.AnyOfFirst(func(pid int) bool {
		if affinity, err := procfs.Affinity(pid); err == nil {
			o.Widen(affinity)
		}
		remaining--
		return remaining == 0 || isWide()
	})
}

// compare sets SeenView and Note.
func (o *Observation) compare(g *Grant, cpus cpuset.Set) {
	online, info := o.file(1), o.file(2)
	switch {
	case o.View != "":
		o.SeenView = seenView(&o.Observation)
	case online.Error == "" && info.Error == "" && online.CPUs == info.CPUs:
		o.SeenView = spec.ViewAffinity
	}
	affinity := o.CPUs()
	files, isKnown := o.Files()
	isFull := g.View.HasFiles()
	switch {
	case affinity.IsEmpty(), isKnown && files == affinity && affinity == cpus:
	case isFull && (online.Error == view.ErrorRemoved || info.Error == view.ErrorRemoved):
		o.Note = "its view was removed: restart it to mount a new one"
	case isFull && o.IsHidden:
		o.Note = "its view cannot be read: " + firstError(online, info)
	case isFull && o.View == "" && firstError(online, info) == "":
		o.Note = "no view is mounted: restart it to mount the view"
	case isFull && o.View == "":
		o.Note = "another file is mounted over a file of its view: remove that mount and restart it"
	case isFull && files != cpus:
		o.Note = fmt.Sprintf("its view shows CPUs %v: the next operation rewrites the view", files)
	case affinity != cpus && affinity.SubsetOf(&cpus):
		o.Note = fmt.Sprintf("its program has limited its own affinity to CPUs %v of %v", affinity, cpus)
	}
}

// seenView returns the view whose files are mounted.
func seenView(o *view.Observation) spec.View {
	switch {
	case o.Live.Memory && o.Live.Stat:
		return spec.ViewFullStat
	case o.Live.Memory:
		return spec.ViewFull
	case o.Live.Stat:
		return spec.ViewCPUStat
	default:
		return spec.ViewCPU
	}
}

// file returns a source by its position in Sources.
func (o *Observation) file(i int) view.Source {
	if i >= len(o.Sources) {
		return view.Source{Error: "unknown"}
	}
	return o.Sources[i]
}

// firstError returns the error of the first source with an error.
func firstError(sources ...view.Source) string {
	for _, s := range sources {
		if s.Error != "" {
			return s.Error
		}
	}
	return ""
}
