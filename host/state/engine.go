package state

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/candor-project/candor/cgroup"
	"github.com/candor-project/candor/internal/podname"
)

// An Engine is what Candor knows of a container whose group somebody else makes and
// removes: a container engine. Candor gives that group its settings.
type Engine struct {
	Cgroup string // path of the group, from the mount points on; "" is a group of Candor's own
	// Pod, if not "", is the id of the pod that keeps what the container leaves: its
	// CPUs are held for its restart until the pod ends.
	Pod string
	// Sandbox is what of the pod the container lives in. A pod gets another one when
	// the first has failed; what the end of a sandbox frees is that sandbox's alone.
	Sandbox string
	Name    string // what people call it there, such as default/web/app
}

// fileEngine is an Engine in the state file.
type fileEngine struct {
	Cgroup  string `json:"cgroup"`
	Pod     string `json:"pod,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	Name    string `json:"name,omitempty"`
}

func newFileEngine(e Engine) *fileEngine {
	if e == (Engine{}) {
		return nil
	}
	f := fileEngine(e)
	return &f
}

func (f *fileEngine) engine() (Engine, error) {
	if f == nil {
		return Engine{}, nil
	}
	return Engine(*f), cgroup.CheckPath(f.Cgroup)
}

// Requests returns what is known of the containers whose Requests stand beside the state.
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

// The kubelet gives the group of a pod a quota, the sum of the limits, and a weight, the sum of the
// requests. Candor's containers are bounded each by itself, so the quota above them would only throttle:
// those without one of their own, with another period or with a burst. The weight counts
// against other pods, where that of a container ends at its pod: there it is to be the sum of Candor's.
//
// What the pods' groups are to have follows from the grants. So they are written after the state, and
// what fails is written by the next operation that looks at the pod: Reconcile at the latest.

// PodGroup returns the path of the group of a container's pod; "" where the group above the container's does not
// bear the pod's id: that one may hold others.
func (e *Engine) PodGroup() string {
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

// PodName is the container's name in its pod; zero, if it is in none.
func (e *Engine) PodName() podname.Name { return podname.Parse(e.Name) }
