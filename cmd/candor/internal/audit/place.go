package audit

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/candor-project/candor/cgroup"
)

// A place is the cgroup of a container.
type place struct {
	path    string
	id      string
	runtime string // runtime according to the path, or ""
}

// scope matches the name of a container's cgroup: the container's ID. With systemd, the ID is between a prefix of the runtime and
// ".scope".
var scope = regexp.MustCompile(`^(?:([a-z]+(?:-[a-z]+)*)-)?([0-9a-f]{64})(?:\.scope)?$`)

// runtimes maps the prefix of a container ID in a cgroup name, such as cri-containerd, to the name of the runtime.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd", "crio": "cri-o", "libpod": "podman",
}

// placeOf finds the ID and the runtime of a container in the path of its cgroup. ok is false if the path does not belong to a container.
func placeOf(path string) (p place, ok bool) {
	parts := scope.FindStringSubmatch(filepath.Base(path))
	if parts == nil || strings.HasSuffix(parts[1], "conmon") { // the cgroup of the container's monitor
		return p, false
	}
	p = place{path, parts[2], runtimes[parts[1]]}
	if filepath.Base(filepath.Dir(path)) == "docker" {
		p.runtime = "docker"
	}
	return p, true
}

// ContainerID returns the ID of an engine's container, given the path of its cgroup. ok is false if the path does not belong to such a
// container.
func ContainerID(path string) (id string, ok bool) {
	p, ok := placeOf(path)
	return p.id, ok
}

// find returns the cgroups of all containers. A nested container comes before the container around it.
func find(tree *cgroup.Tree) ([]place, error) {
	paths, err := tree.Paths()
	if err != nil {
		return nil, err
	}
	names, err := tree.Groups()
	if err != nil {
		return nil, err
	}
	own := map[string]string{}
	for _, name := range names {
		if path, err := cgroup.EnginePath(tree.OCIPath(name)); err == nil {
			own[path] = name
		}
	}
	var places []place
	for _, path := range innermostFirst(paths) {
		if name := own[path]; name != "" {
			places = append(places, place{path, name, "candor"})
		} else if p, ok := placeOf(path); ok {
			places = append(places, p)
		}
	}
	return places, nil
}

// innermostFirst returns the given cgroups and all their ancestors, the deepest first. The ancestors are included because the
// cgroup of a container can have no processes itself, but child cgroups with processes.
func innermostFirst(paths []string) []string {
	seen := map[string]bool{"/": true}
	for _, path := range paths {
		for ; !seen[path]; path = filepath.Dir(path) {
			seen[path] = true
		}
	}
	delete(seen, "/")
	return slices.SortedFunc(maps.Keys(seen), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/")), strings.Compare(a, b))
	})
}
