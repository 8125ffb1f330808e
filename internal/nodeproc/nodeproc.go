// Package nodeproc recognizes processes that root of the node runs outside of pods and containers, such as a kubelet or a
// container engine. Any process can choose its comm, its argv and the name of its file. The package therefore uses three facts
// that only root of the node can cause: all user IDs of the process are 0 in this user namespace, the process is not in a nested
// PID namespace, and its cgroup does not belong to a pod or a container.
package nodeproc

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/candor-project/candor/internal/kernelfs"
	"github.com/candor-project/candor/internal/procfs"
)

// A Viewpoint holds the user namespace and the cgroup paths of this process. Its methods compare other processes with them.
type Viewpoint struct {
	user    string            // link of the user namespace
	cgroups map[string]string // path by hierarchy
}

// Own returns the viewpoint of this process, given the directory of procfs.
func Own(proc string) (v Viewpoint) {
	v.user, _ = os.Readlink(filepath.Join(proc, "self/ns/user"))
	text, _ := kernelfs.Read(filepath.Join(proc, "self/cgroup"))
	v.cgroups = cgroupPaths(text)
	return v
}

// A Place is the position of a process in the cgroup tree.
type Place struct {
	InPod     bool
	Container string // ID of the innermost container, or ""
	Cgroup    string // path in the hierarchy of the cpu controller, or in the hierarchy of cgroup v2
}

// Locate returns the identity and the place of a process, given its directory in procfs. ok is false if the process has
// ended, or does not run as root of the node.
func (v *Viewpoint) Locate(dir string) (id procfs.Identity, at Place, ok bool) {
	id, err := procfs.ReadIdentity(dir)
	if err != nil || !id.IsUser(0) || id.Namespaces != 1 {
		return id, at, false
	}
	if user, err := os.Readlink(filepath.Join(dir, "ns/user")); err == nil && user != v.user {
		return id, at, false
	}
	at, err = v.Place(dir)
	return id, at, err == nil
}

// Place returns the place of a process of any user, given its directory in procfs.
func (v *Viewpoint) Place(dir string) (Place, error) {
	text, err := kernelfs.Read(filepath.Join(dir, "cgroup"))
	if err != nil {
		return Place{}, err
	}
	return v.placeOf(text), nil
}

// Program returns the base name of the file that a process executes. Reading it requires ptrace rights.
func Program(dir string) (string, error) {
	file, err := os.Readlink(filepath.Join(dir, "exe"))
	return filepath.Base(strings.TrimSuffix(file, " (deleted)")), err
}

// cgroupPaths parses a file /proc/PID/cgroup: lines HIERARCHY:CONTROLLERS:PATH (cgroups(7)).
func cgroupPaths(text []byte) map[string]string {
	paths := map[string]string{}
	eachCgroup(text, func(hierarchy, _, path string) { paths[hierarchy] = path })
	return paths
}

func eachCgroup(text []byte, visit func(hierarchy, controllers, path string)) {
	for line := range strings.Lines(string(text)) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 {
			visit(fields[0], fields[1], fields[2])
		}
	}
}

var (
	// podUID matches the kubelet's name of a pod's group: a UUID, or 32 digits for a static pod. With systemd, "_" replaces
	// "-".
	podUID = regexp.MustCompile(`(^|-)pod[0-9a-f]{8}[-_]?([0-9a-f]{4}[-_]?){3}[0-9a-f]{12}(\.slice)?$`)
	// kubepods matches the kubelet's group of all pods: kubepods, kubepods.slice, kubelet-kubepods.slice,
	// kubepods-burstable.slice.
	kubepods = regexp.MustCompile(`(^|-)kubepods(-|\.slice$|$)`)
	// containerID matches the name of a container's group, which ends with the ID: ID, docker-ID.scope,
	// cri-containerd-ID.scope.
	containerID = regexp.MustCompile(`(?:^|-)([0-9a-f]{64})(?:\.scope)?$`)
	// monitor matches an engine's group for the monitor process of a container: crio-conmon-ID.scope, libpod-conmon-ID.
	monitor = regexp.MustCompile(`(^|-)conmon-[0-9a-f]{64}(\.scope)?$`)
)

// placeOf returns the place of a process, by its file /proc/PID/cgroup. It ignores the first cgroups of the path as far as this
// process is also in them, because a node can itself be a container, as in kind. If this process has its own cgroup namespace,
// the paths of other processes begin with "/.." and can lack their upper parts. The group of a pod is still recognizable by the
// pod's UID in its name. The group of a monitor process is outside of its container.
func (v *Viewpoint) placeOf(text []byte) (at Place) {
	eachCgroup(text, func(hierarchy, controllers, path string) {
		if controllers == "" && at.Cgroup == "" || hasWord(controllers, "cpu") {
			at.Cgroup = path
		}
		parts, own := strings.Split(path, "/"), strings.Split(v.cgroups[hierarchy], "/")
		for len(parts) > 0 && len(own) > 0 && parts[0] == own[0] {
			parts, own = parts[1:], own[1:]
		}
		for _, part := range parts {
			at.InPod = at.InPod || podUID.MatchString(part) || kubepods.MatchString(part)
			if id := containerID.FindStringSubmatch(part); id != nil && !monitor.MatchString(part) {
				at.Container = id[1]
			}
		}
	})
	return at
}

func hasWord(list, word string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == word {
			return true
		}
	}
	return false
}
