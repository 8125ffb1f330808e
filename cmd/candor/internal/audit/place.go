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

// A place is the group of a container.
type place struct {
	path    string
	id      string
	runtime string // from the path, or ""
}

// scope matches the name of a container's cgroup: its ID, with systemd between a prefix of the runtime and ".scope".
var scope = regexp.MustCompile(`^(?:([a-z]+(?:-[a-z]+)*)-)?([0-9a-f]{64})(?:\.scope)?$`)

// runtimes are the words before the id.
var runtimes = map[string]string{
	"docker": "docker", "cri-containerd": "containerd", "nerdctl": "containerd", "crio": "cri-o", "libpod": "podman",
}

// placeOf returns the container of a cgroup by the path alone; ok is false for other cgroups.
func placeOf(path string) (p place, ok bool) {
	parts := scope.FindStringSubmatch(filepath.Base(path))
	if parts == nil || strings.HasSuffix(parts[1], "conmon") { // the container's monitor, not the container
		return p, false
	}
	p = place{path, parts[2], runtimes[parts[1]]}
	if filepath.Base(filepath.Dir(path)) == "docker" {
		p.runtime = "docker"
	}
	return p, true
}

// find returns all containers, nested containers before the containers around them.
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

// innermostFirst adds the groups above some groups, in which the processes of these are, too.
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
