package state

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/podname"
)

// An Engine describes the container of a container engine. If Cgroup is not "", the engine creates and removes the container's
// cgroup, and Candor writes the settings of that cgroup. The zero value is a program of candor run.
type Engine struct {
	Cgroup string // path of the cgroup below the mount points; "": a cgroup of Candor
	// Pod, if not "", is the id of the container's pod. When the container ends, its CPUs are held for a restart until
	// the pod ends.
	Pod string
	// Sandbox is the id of the container's pod sandbox. After a sandbox has failed, the pod gets another sandbox. The
	// end of a sandbox frees the CPUs held for that sandbox only.
	Sandbox string
	Name    string // display name in the engine, such as default/web/app, or web for docker run --name web
}

// fileEngine is an Engine in the state file.
type fileEngine struct {
	Cgroup  string `json:"cgroup"`
	Pod     string `json:"pod,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	Name    string `json:"name,omitempty"`
}

// newFileEngine returns nil if e has only a name, because the name is stored in engine-names.json.
func newFileEngine(e Engine) *fileEngine {
	if e.isNameOnly() {
		return nil
	}
	f := fileEngine(e)
	return &f
}

func (f *fileEngine) engine() (Engine, error) {
	if f == nil {
		return Engine{}, nil
	}
	if f.Cgroup == "" && f.Pod == "" && f.Sandbox == "" { // a container in a cgroup of Candor, in the state of a former build
		return Engine(*f), nil
	}
	return Engine(*f), cgroup.CheckPath(f.Cgroup)
}

// Requests returns the grants of all saved requests. Their CPU sets are empty, because a request holds only the
// requested settings.
func (s Store) Requests() []*Grant {
	entries, _ := os.ReadDir(filepath.Join(s.Dir, "requests"))
	var grants []*Grant
	for _, entry := range entries {
		var g Grant
		g.ID = entry.Name()
		if cgroup.CheckName(g.ID) == nil && s.LoadRequest(&g) {
			grants = append(grants, &g)
		}
	}
	return grants
}

// The kubelet sets the quota of a pod's cgroup to the sum of the limits, and its weight to the sum of the requests. Candor limits each
// container separately and does not need the pod's quota. The quota would throttle containers without a quota, with another period or with
// a burst, so Candor lifts it. The weight of a container counts only inside its pod. The pod's weight counts against other pods, so it must
// be the sum of Candor's weights.
//
// The settings of the pods' cgroups follow from the grants in the state file. Candor writes these settings after the state file, so
// that they can be written again from it.
// The next operation that inspects the pod retries a failed write: Reconcile at the latest.

// PodGroup returns the path of the cgroup of a container's pod. It returns "" if the name of the parent of the container's cgroup does not
// contain the pod's id, because this parent can hold other containers.
func (e *Engine) PodGroup() string {
	above := filepath.Dir(e.Cgroup)
	base, isSlice := strings.CutSuffix(filepath.Base(above), ".slice")
	id := e.Pod
	if isSlice { // systemd reads "-" as another level
		id = strings.ReplaceAll(id, "-", "_")
	}
	if e.Pod == "" || base != "pod"+id && !(isSlice && strings.HasSuffix(base, "-pod"+id)) {
		return ""
	}
	return above
}

// DisplayName returns the name of the container in its pod, or the name that its engine displays. It returns the zero value for a
// program of candor run.
func (e *Engine) DisplayName() podname.Name {
	if name := podname.Parse(e.Name); name != (podname.Name{}) {
		return name
	}
	return podname.Name{Container: e.Name}
}
